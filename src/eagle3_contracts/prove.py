"""The proof that contracts can fail: each under every one of its faults, where it holds without.

A contract that nothing breaks says nothing. The other way round, a fault is looked at the way a
person meets it: which contracts fail first, and whether what they suspect is the fault.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from time import perf_counter

from eagle3_contracts import probes
from eagle3_contracts.catalogue import Entry
from eagle3_contracts.errors import BadInput, did_you_mean
from eagle3_contracts.facts import Tier
from eagle3_contracts.faults import Fault, broken, faults
from eagle3_contracts.probes import Request
from eagle3_contracts.run import Checker
from eagle3_contracts.subject import ResolvedSubject
from eagle3_contracts.verdict import Result, Verdict


class Fate(StrEnum):
    """What became of a fault under a contract that names it."""

    KILLED = "killed"
    """The contract holds without the fault and fails under it."""
    SURVIVED = "survived"
    """The contract holds without the fault, and under it as well."""
    UNSOUND = "unsound"
    """The contract does not hold on the whole subject, so that its failure shows nothing."""
    NOT_APPLIED = "not-applied"
    """The fault could not be put in, or nothing could be judged under it."""


@dataclass(frozen=True, slots=True)
class Proof:
    """One contract under one fault. ``message`` and ``cause`` are what a reader is told."""

    contract: str
    tier: Tier
    fault: str
    subject: str
    fate: Fate
    message: str
    cause: str = ""
    seconds: float = 0.0


class Pointer(StrEnum):
    """How a failing contract leads its reader to the fault."""

    CAUSE = "cause"
    """A suspected cause of the contract holds, and it says what the fault's own words say."""
    CONTRACT = "contract"
    """The contract is about nothing but such a fault."""
    GENERAL = "general"
    """Message and fix leave several faults open."""
    WRONG = "wrong"
    """The suspected cause is another than the one that the fault stands for."""


@dataclass(frozen=True, slots=True)
class Signal:
    """What is seen of a fault first: the contracts of the cheapest tier that fail under it.

    ``tier`` is None where none does; ``message`` and ``cause`` are of the one that points best.
    """

    fault: str
    summary: str
    subject: str
    tier: Tier | None
    contracts: tuple[str, ...]
    pointer: Pointer
    message: str
    cause: str


class Prover:
    """Puts faults into built-in subjects; facts of a fault are shared between contracts.

    ``entries`` is the whole catalogue and ``subjects`` the built-in subjects, by name.
    """

    def __init__(
        self,
        entries: Sequence[Entry],
        subjects: Iterable[ResolvedSubject],
        request: Request | None = None,
    ) -> None:
        self.entries = tuple(entries)
        self._subjects = {subject.name: subject for subject in subjects}
        self._request = request or Request(weights=True)
        self._checkers: dict[str | None, Checker] = {}
        self._broken: dict[str, ResolvedSubject] = {}

    def prove(self, entry: Entry, fault: Fault) -> Proof:
        """Return what became of the fault under the contract."""
        started = perf_counter()
        fate, result = self._tried(entry, fault)
        return Proof(
            contract=entry.contract.id,
            tier=entry.contract.tier,
            fault=fault.name,
            subject=fault.on,
            fate=fate,
            message=result if isinstance(result, str) else _said(result),
            cause="" if isinstance(result, str) else result.cause,
            seconds=perf_counter() - started,
        )

    def signal(self, fault: Fault, tiers: Iterable[Tier]) -> Signal:
        """Return what is seen of the fault first, looking at the tiers from the cheapest on."""
        failing: list[tuple[Entry, Result]] = []
        for tier in sorted(tiers, key=lambda tier: tier.cost):
            failing = self._failing(fault, tier)
            if failing:
                break
        named = [(pointer(entry, result, fault), result) for entry, result in failing]
        best = min(named, key=lambda pair: list(Pointer).index(pair[0]), default=None)
        return Signal(
            fault=fault.name,
            summary=fault.summary,
            subject=fault.on,
            tier=failing[0][0].contract.tier if failing else None,
            contracts=tuple(entry.contract.id for entry, _ in failing),
            pointer=best[0] if best else Pointer.GENERAL,
            message=best[1].message if best else "",
            cause=best[1].cause if best else "",
        )

    def forget(self, fault: Fault) -> None:
        """Drop what is known about a subject under ``fault``."""
        self._checkers.pop(fault.name, None)
        self._broken.pop(fault.name, None)

    def close(self) -> None:
        """Drop all facts, and end the processes of the probes."""
        self._checkers.clear()
        probes.close()

    def _tried(self, entry: Entry, fault: Fault) -> tuple[Fate, Result | str]:
        if fault.on not in self._subjects:
            return Fate.NOT_APPLIED, f"no built-in subject is named '{fault.on}'"
        whole = self._checker(None).judge(entry, self._subjects[fault.on])
        if whole.verdict is not Verdict.PASS:
            return _without(whole), whole
        try:
            under = self._judge(entry, fault)
        except Exception as error:  # whatever an edit of a subject that has changed may raise
            return Fate.NOT_APPLIED, f"{type(error).__name__}: {error}"
        return _FATES.get(under.verdict, Fate.SURVIVED), under

    def _failing(self, fault: Fault, tier: Tier) -> list[tuple[Entry, Result]]:
        """Return the contracts of one tier that hold on the whole subject and not under it."""
        found = []
        for entry in self.entries:
            if entry.contract.tier is not tier or entry.contract.severity == "info":
                continue
            try:
                result = self._judge(entry, fault)
            except BadInput:
                continue
            if result.verdict is Verdict.FAIL and self._holds(entry, fault.on):
                found.append((entry, result))
        return found

    def _holds(self, entry: Entry, subject: str) -> bool:
        whole = self._checker(None).judge(entry, self._subjects[subject])
        return whole.verdict in (Verdict.PASS, Verdict.NOT_APPLICABLE)

    def _judge(self, entry: Entry, fault: Fault) -> Result:
        if fault.name not in self._broken:
            self._broken[fault.name] = broken(self._subjects[fault.on], fault)
        return self._checker(fault).judge(entry, self._broken[fault.name])

    def _checker(self, fault: Fault | None) -> Checker:
        name = fault.name if fault is not None else None
        if name not in self._checkers:
            request = Request(
                self._request.device, self._request.timeout, name, self._request.weights
            )
            self._checkers[name] = Checker(self.entries, tiers=set(Tier), request=request)
        return self._checkers[name]


_FATES = {
    Verdict.FAIL: Fate.KILLED,
    Verdict.HARNESS_ERROR: Fate.NOT_APPLIED,
}


@dataclass(frozen=True, slots=True)
class Proven:
    """What came of proving: every pair, every fault, and what makes a proof impossible."""

    proofs: tuple[Proof, ...]
    signals: tuple[Signal, ...]
    problems: tuple[str, ...] = ()

    @property
    def exit_code(self) -> int:
        """0: every fault is killed; 1: something is not proven; 3: something could not be tried."""
        fates = {proof.fate for proof in self.proofs}
        wrong = any(signal.pointer is Pointer.WRONG for signal in self.signals)
        if self.problems or wrong or fates & {Fate.SURVIVED, Fate.UNSOUND}:
            return 1
        return 3 if Fate.NOT_APPLIED in fates else 0


def prove(
    prover: Prover, selected: Sequence[Entry], tiers: Sequence[Tier], *, is_whole: bool
) -> Proven:
    """Prove the selected contracts, fault by fault, and look at each of their faults.

    ``is_whole``: they are the whole catalogue, so that a fault which none names is a problem.
    """
    known = faults()
    names = dict.fromkeys(name for entry in selected for name in entry.contract.faults)
    proofs, signals = [], []
    for fault in (known[name] for name in names if name in known):
        naming = [entry for entry in selected if fault.name in entry.contract.faults]
        proofs += [prover.prove(entry, fault) for entry in naming]
        if all(proof.fate is not Fate.NOT_APPLIED for proof in proofs[-len(naming) :]):
            signals.append(prover.signal(fault, tiers))
        prover.forget(fault)
    order = {entry.contract.id: at for at, entry in enumerate(selected)}
    proofs.sort(key=lambda proof: order[proof.contract])
    unknown = problems(prover.entries if is_whole else selected, known, is_whole=is_whole)
    return Proven(tuple(proofs), tuple(signals), tuple(unknown))


def problems(
    entries: Sequence[Entry], known: Mapping[str, Fault], *, is_whole: bool = True
) -> list[str]:
    """Return what makes a proof impossible: contracts without faults, faults without contracts."""
    named = {name for entry in entries for name in entry.contract.faults}
    found = [
        f"{entry.contract.id} names the fault '{name}', which does not exist"
        + did_you_mean(name, known)
        for entry in entries
        for name in entry.contract.faults
        if name not in known
    ]
    orphans = [name for name in known if name not in named] if is_whole else []
    return found + [f"no contract names the fault '{name}'" for name in orphans]


def pointer(entry: Entry, result: Result, fault: Fault) -> Pointer:
    """Return how the failure leads to the fault.

    Where the fault says by which words its cause is known, these must be there. Elsewhere any
    suspected cause whose condition holds will do, or a contract that has this one fault only.
    """
    if fault.suspected:
        text = f"{result.cause}\n{result.message}"
        return Pointer.CAUSE if any(words in text for words in fault.suspected) else Pointer.WRONG
    if result.cause != entry.contract.why:
        return Pointer.CAUSE
    return Pointer.CONTRACT if len(entry.contract.faults) == 1 else Pointer.GENERAL


def _without(whole: Result) -> Fate:
    cannot = whole.verdict in (Verdict.NOT_TESTABLE, Verdict.HARNESS_ERROR)
    return Fate.NOT_APPLIED if cannot else Fate.UNSOUND


def _said(result: Result) -> str:
    return f"{result.verdict}: {result.message}" if result.message else str(result.verdict)
