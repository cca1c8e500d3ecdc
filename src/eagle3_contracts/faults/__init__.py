"""Faults: real ways to break an integration, under which a contract must fail.

A fault either edits the subject (checkpoint, config, flags) before it is probed, or patches the
real class inside the process that is probed. It never touches facts.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache

from eagle3_contracts.subject import ResolvedSubject


@dataclass(frozen=True, slots=True)
class Fault:
    """One way to break an integration.

    ``summary`` completes "it is as if". ``on`` names the built-in subject that it is proven on.
    ``edit`` returns the broken subject; ``patch`` breaks classes of the process it is called in.
    ``suspected`` are words by which a reader knows this fault; one of them must stand in the
    suspected cause or the message of a contract that fails first.
    """

    name: str
    summary: str
    on: str
    edit: Callable[[ResolvedSubject], ResolvedSubject] | None = None
    patch: Callable[[], None] | None = None
    suspected: tuple[str, ...] = ()


@cache
def faults() -> Mapping[str, Fault]:
    """Return all faults by name; importing them imports neither torch nor sglang."""
    from eagle3_contracts.faults import (
        algo,
        arch,
        blocks,
        boundaries,
        capture,
        checkpoint,
        classes,
        engine,
        flags,
        launch,
        ownership,
        quant,
        rope,
        training,
        vocab,
        weights,
    )

    founding = (boundaries, capture, checkpoint, classes, engine, launch)
    parts = (vocab, ownership, arch, rope, quant, algo, flags, blocks, training, weights)
    modules = (*founding, *parts)
    return {fault.name: fault for module in modules for fault in module.FAULTS}


@contextlib.contextmanager
def patched(name: str | None) -> Iterator[None]:
    """Apply the patch of fault ``name`` to this process, which ends with its one job."""
    if name is not None and (patch := faults()[name].patch) is not None:
        patch()
    yield


def broken(subject: ResolvedSubject, fault: Fault) -> ResolvedSubject:
    """Return ``subject`` as the fault leaves it."""
    return fault.edit(subject) if fault.edit is not None else subject
