"""An example: what was drawn, the subject it makes, and what the tiers say of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from eagle3_contracts.catalogue import Entry
from eagle3_contracts.errors import BadInput
from eagle3_contracts.facts import Tier
from eagle3_contracts.fuzz.changes import Change, with_layers
from eagle3_contracts.probes import Request
from eagle3_contracts.run import Checker
from eagle3_contracts.subject import ResolvedSubject
from eagle3_contracts.verdict import Result, Verdict
from eagle3_contracts.waiver import Waiver, waiver_for

TIERS = (Tier.STATIC, Tier.LOAD, Tier.MODEL)


class Kind(StrEnum):
    """Which property an example breaks."""

    FAILURE = "failure"
    """A right integration fails: a false alarm, or a class that is wrong."""
    SILENCE = "silence"
    """A broken integration passes everything."""
    HOLE = "hole"
    """A broken integration is seen by running the model only, and the files show it."""
    UNCLEAR = "unclear"
    """Neither a verdict nor a refusal: a probe broke, or the subject could not be tested."""
    SPELLING = "spelling"
    """The same integration written differently gets another verdict."""


@dataclass(frozen=True, slots=True)
class Example:
    """A built-in subject with layers, ids and changes; ``drawn`` holds each change's value."""

    base: ResolvedSubject
    depth: int
    ids: tuple[int, ...]
    drawn: tuple[tuple[Change, Any], ...] = ()

    def subject(self) -> ResolvedSubject:
        """Return the subject that the example stands for."""
        subject = with_layers(self.base, self.depth, self.ids)
        for change, value in self.drawn:
            subject = change.edit(subject, value)
        return subject

    @property
    def harm(self) -> str:
        """Family that has to see what is wrong; empty for a right integration."""
        return next((change.harm for change, _ in self.drawn if change.harm), "")

    @property
    def needs(self) -> Tier:
        """The cheapest tier that can see the harm."""
        return next((change.needs for change, _ in self.drawn if change.harm), Tier.STATIC)

    @property
    def size(self) -> tuple[int, int, int]:
        """What is smaller is easier to read: fewer changes, then fewer states and layers."""
        return len(self.drawn), len(self.ids), self.depth

    def fields(self) -> Mapping[str, Any]:
        """Return what was drawn, by field."""
        return {change.field: value for change, value in self.drawn}

    def __str__(self) -> str:
        drawn = "".join(f", {field} = {value}" for field, value in self.fields().items())
        return f"{self.base.name}: {self.depth} layers, ids {list(self.ids)}{drawn}"


@dataclass(frozen=True, slots=True)
class Finding:
    """A property that does not hold. ``contract`` is empty where no contract is concerned."""

    kind: Kind
    contract: str
    family: str
    tier: Tier
    message: str

    @property
    def signature(self) -> tuple[str, str]:
        """What tells one finding from another."""
        return self.kind, self.contract or self.message.partition(":")[0]


class Judge:
    """Judges examples, each at the cheapest tier first, up to the one that sees something.

    What is waived for the subject that an example is drawn from is known and no finding.
    ``fault`` in the request is put into the real class, to see whether fuzzing finds it.
    """

    def __init__(
        self,
        entries: Sequence[Entry],
        waivers: Sequence[Waiver] = (),
        tiers: Sequence[Tier] = TIERS,
        request: Request | None = None,
    ) -> None:
        self.tiers = tuple(tier for tier in TIERS if tier in tiers)
        self.counts = dict.fromkeys(self.tiers, 0)
        """Examples that were judged, by tier."""
        self._entries = tuple(entries)
        self._waivers = tuple(waivers)
        self._request = request or Request()

    def finding(self, example: Example) -> Finding | None:
        """Return the property that the example breaks, or None."""
        checker = Checker(self._entries, tiers=self.tiers, request=self._request)
        subject = example.subject()
        for tier in self.tiers:
            self.counts[tier] += 1
            selected = [entry for entry in checker.entries if entry.contract.tier is tier]
            try:
                results = checker.check(subject, selected)
            except BadInput as error:
                return _refused(example, tier, str(error))
            seen = [result for result in results if _is_error(result) or _is_unclear(result)]
            new = [result for result in seen if not self._is_known(result, subject)]
            if new:
                failed = [result for result in new if _is_error(result)]
                return _failed(example, tier, failed) if failed else _found(Kind.UNCLEAR, new[0])
            if seen and example.harm:  # seen by what would have failed without the harm as well
                return None
        return _silent(example, self.tiers[-1])

    def _is_known(self, result: Result, subject: ResolvedSubject) -> bool:
        kind = subject.architecture
        return waiver_for(self._waivers, result.contract, result.subject, kind) is not None


def _refused(example: Example, tier: Tier, text: str) -> Finding | None:
    """A right integration must not be refused as bad input; a broken one may."""
    return None if example.harm else Finding(Kind.FAILURE, "", "", tier, f"bad input: {text}")


def _failed(example: Example, tier: Tier, failed: Sequence[Result]) -> Finding | None:
    if not example.harm:
        return _found(Kind.FAILURE, failed[0])
    return _found(Kind.HOLE, failed[0]) if tier.cost > example.needs.cost else None


def _silent(example: Example, tier: Tier) -> Finding | None:
    if not example.harm or tier is not Tier.MODEL:
        return None
    fields = ", ".join(change.field for change, _ in example.drawn if change.harm)
    return Finding(Kind.SILENCE, "", example.harm, tier, f"{fields}: nothing fails")


def _found(kind: Kind, result: Result) -> Finding:
    return Finding(kind, result.contract, result.family, Tier(result.tier), result.message)


def _is_error(result: Result) -> bool:
    return result.verdict is Verdict.FAIL and result.severity == "error"


def _is_unclear(result: Result) -> bool:
    unclear = (Verdict.HARNESS_ERROR, Verdict.NOT_TESTABLE, Verdict.INCONCLUSIVE)
    return result.verdict in unclear
