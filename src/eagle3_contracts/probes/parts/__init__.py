"""Static probes that look at one part of a subject each, when a contract asks for it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from eagle3_contracts.facts import Gap, Record, Tier
from eagle3_contracts.probes import Request, Yield
from eagle3_contracts.subject import ResolvedSubject


@dataclass(frozen=True, slots=True)
class PartProbe:
    """A probe of one group, whose name is its own."""

    name: str
    read: Callable[[ResolvedSubject], Record | Gap]
    tier: Tier = Tier.STATIC

    @property
    def groups(self) -> tuple[str, ...]:
        """The one group."""
        return (self.name,)

    def run(self, subject: ResolvedSubject, request: Request) -> Yield:
        """Return the group, or why it is not there."""
        del request
        return {self.name: self.read(subject)}


def parts() -> tuple[PartProbe, ...]:
    """Return the probes of all parts."""
    from eagle3_contracts.probes.parts import (
        algo,
        arch,
        block,
        bundled,
        context,
        head,
        placeholder,
        quant,
        release,
        rope,
        semantics,
        serving,
        vocab,
    )

    kinds = (algo, arch, block, bundled, context, head, placeholder, quant)
    modules = (*kinds, release, rope, semantics, serving, vocab)
    return tuple(PartProbe(module.__name__.rpartition(".")[2], module.read) for module in modules)
