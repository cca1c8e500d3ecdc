"""Judging: which probes run, in which order, and which verdicts come of it."""

from __future__ import annotations

import contextlib
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import date
from functools import cache
from time import perf_counter

from eagle3_contracts import probes as built_in
from eagle3_contracts.case import Case, Progress
from eagle3_contracts.catalogue import Entry
from eagle3_contracts.errors import printable
from eagle3_contracts.facts import GROUPS, GapKind, Tier
from eagle3_contracts.options import DEFAULT_TIERS
from eagle3_contracts.probes import Probe, Request, static
from eagle3_contracts.rules import RuleError, Template
from eagle3_contracts.subject import ResolvedSubject
from eagle3_contracts.verdict import Result, Verdict
from eagle3_contracts.waiver import Waiver, waived, waiver_for

_GAPS = {
    GapKind.ABSENT: Verdict.NOT_APPLICABLE,
    GapKind.UNTESTABLE: Verdict.NOT_TESTABLE,
    GapKind.BROKEN: Verdict.HARNESS_ERROR,
}
_BLOCKING = {
    Verdict.FAIL: "fails",
    Verdict.NOT_TESTABLE: "is not testable",
    Verdict.INCONCLUSIVE: "is inconclusive",
    Verdict.HARNESS_ERROR: "could not be judged",
}


@dataclass(frozen=True, slots=True)
class _Outcome:
    verdict: Verdict
    message: str = ""
    cause: str = ""
    fix: str = ""
    blocked_by: str = ""


class Checker:
    """Judges contracts on subjects; facts of a subject are shared by all its contracts.

    ``entries`` is the whole catalogue, so that dependencies are found; ``tiers`` says which of
    them :meth:`check` judges. ``today`` is the day on which waivers are looked at. ``flags`` are
    options to repeat in the lines that reproduce a verdict. Probes default to the built-in ones.
    """

    def __init__(
        self,
        entries: Iterable[Entry],
        waivers: Iterable[Waiver] = (),
        *,
        tiers: Iterable[str] = DEFAULT_TIERS,
        request: Request | None = None,
        probes: Sequence[Probe] | None = None,
        today: date | None = None,
        progress: Progress | None = None,
        flags: Sequence[str] = (),
    ) -> None:
        self.entries = in_order(entries)
        self.tiers = frozenset(tiers)
        self.request = request or Request()
        self.progress = progress
        self._by_id = {entry.contract.id: entry for entry in self.entries}
        self._waivers = tuple(waivers)
        self._uses_built_in = probes is None
        self._probes = built_in.probes() if probes is None else tuple(probes)
        self._today = today or date.today()
        self._flags = tuple(flags)
        self._cases: dict[int, Case] = {}

    def judge(self, entry: Entry, subject: ResolvedSubject) -> Result:
        """Return the verdict of one contract on one subject; the same one if asked again.

        Contracts that it depends on are judged first, whether or not they were selected. Raises
        BadInput when a probe finds that the subject makes no sense.
        """
        case = self._case(subject)
        raw = self._judge(entry, case)
        if raw.blocked_by and self._is_waived(case, raw.blocked_by):
            return replace(raw, message=f"{raw.message}; that failure is waived")
        return self._waive(raw, subject)

    def check(
        self, subject: ResolvedSubject, entries: Iterable[Entry] | None = None
    ) -> list[Result]:
        """Return the verdicts on ``subject`` of ``entries``, or of all in the selected tiers.

        A contract that was not selected is among them when its failure blocks one that was: a
        run must not look clean because only the root of a failure was left out. Raises as `judge`.
        """
        if entries is None:
            entries = [entry for entry in self.entries if entry.contract.tier in self.tiers]
        selected = in_order(entries)
        results = [self.judge(entry, subject) for entry in selected]
        roots = {result.blocked_by for result in results} - {e.contract.id for e in selected}
        return [self.judge(self._by_id[root], subject) for root in sorted(roots - {""})] + results

    def forget(self, subject: ResolvedSubject) -> None:
        """Drop the facts of ``subject``; a run over very many subjects would keep them all."""
        self._cases.pop(id(subject), None)

    def close(self) -> None:
        """Drop all facts, and end the child processes of the built-in probes if they were used."""
        self._cases.clear()
        if self._uses_built_in:
            built_in.close()

    def _is_waived(self, case: Case, contract: str) -> bool:
        root = self._waive(case.results[contract], case.subject)
        return root.verdict is Verdict.WAIVED

    def _waive(self, raw: Result, subject: ResolvedSubject) -> Result:
        waiver = waiver_for(self._waivers, raw.contract, subject.name, subject.architecture)
        return waived(raw, waiver, self._today)

    def _case(self, subject: ResolvedSubject) -> Case:
        # The case holds the subject, so its id is not given to another one meanwhile.
        if id(subject) not in self._cases:
            case = Case(subject, self._probes, self.request, self.progress)
            self._cases[id(subject)] = case
        return self._cases[id(subject)]

    def _judge(self, entry: Entry, case: Case) -> Result:
        contract = entry.contract
        if contract.id not in case.results:
            if contract.depends and _is_possible(entry, case):
                for name in contract.depends:
                    if name in self._by_id:
                        self._judge(self._by_id[name], case)
            started = perf_counter()
            outcome = _outcome(entry, case)
            seconds = perf_counter() - started
            case.results[contract.id] = self._result(entry, case, outcome, seconds)
        return case.results[contract.id]

    def _result(self, entry: Entry, case: Case, outcome: _Outcome, seconds: float) -> Result:
        contract = entry.contract
        was_judged = outcome.verdict in (Verdict.PASS, Verdict.FAIL)
        return Result(
            contract=contract.id,
            title=contract.title,
            family=contract.family,
            tier=contract.tier,
            severity=contract.severity,
            subject=case.subject.name,
            where=where(contract.tier, self.request.device),
            verdict=outcome.verdict,
            message=_shown(outcome.message),
            cause=_shown(outcome.cause),
            fix=_shown(outcome.fix),
            refs=contract.refs,
            reproduce=self._reproduce(entry, case.subject),
            facts=case.variables(entry.rule.groups) if was_judged else {},
            blocked_by=outcome.blocked_by,
            seconds=seconds,
        )

    def _reproduce(self, entry: Entry, subject: ResolvedSubject) -> str:
        contract, origin = entry.contract, subject.origin
        words = ["eagle3-contracts check"]
        # Options that built a subject are a line of words already, a path is one word.
        words.append(origin if origin.startswith("--") else shlex.quote(origin))
        words.append(f"--contract {contract.id}")
        if contract.tier not in DEFAULT_TIERS:
            words.append(f"--tier {contract.tier}")
        if contract.tier is not Tier.STATIC and self.request.device != "cpu":
            words.append(f"--device {self.request.device}")
        return " ".join([*words, *map(shlex.quote, self._flags)])


def in_order(entries: Iterable[Entry]) -> list[Entry]:
    """Return the contracts by cost of their tier and id, each after those it depends on."""
    by_id = {entry.contract.id: entry for entry in entries}
    ordered: dict[str, Entry] = {}

    def add(entry: Entry) -> None:
        for name in entry.contract.depends:
            if name in by_id and name not in ordered:
                add(by_id[name])
        ordered.setdefault(entry.contract.id, entry)

    for entry in sorted(by_id.values(), key=lambda e: (e.contract.tier.cost, e.contract.id)):
        add(entry)
    return list(ordered.values())


def where(tier: Tier, device: str) -> str:
    """Return where a verdict of that tier comes from, in words."""
    if tier is Tier.STATIC:
        return "files"
    release = static.environment(device).sglang
    return f"sglang {release} on {device}" if release else f"no sglang on {device}"


def _outcome(entry: Entry, case: Case) -> _Outcome:
    try:
        return (
            _served_elsewhere(entry, case)
            or _inapplicable(entry, case, _static(entry.applies.groups))
            or _blocked(entry, case)
            or _inapplicable(entry, case, entry.applies.groups)
            or _untold(entry, case)
            or _ruled(entry, case)
        )
    except RuleError as error:
        return _Outcome(Verdict.HARNESS_ERROR, str(error))


def _is_possible(entry: Entry, case: Case) -> bool:
    """Return whether the contract may apply, as far as the files alone can tell."""
    cheap = _static(entry.applies.groups)
    try:
        return not (_served_elsewhere(entry, case) or _inapplicable(entry, case, cheap))
    except RuleError:
        return False


def _served_elsewhere(entry: Entry, case: Case) -> _Outcome | None:
    launch = case.subject.launch
    if entry.contract.tier is Tier.STATIC or launch is None or launch.engine == "sglang":
        return None
    text = f"served by {launch.engine}, and contracts of tier {entry.contract.tier} run SGLang"
    return _Outcome(Verdict.NOT_APPLICABLE, text)


def _inapplicable(entry: Entry, case: Case, groups: Iterable[str]) -> _Outcome | None:
    """Return an outcome when ``applies`` is false whatever the groups left out would say."""
    rule, groups = entry.applies, frozenset(groups)
    try:
        if rule.holds(case.variables(groups)):
            return None
    except RuleError:
        if groups != rule.groups:
            return None
        if gap := case.gap(groups):
            return _Outcome(_GAPS[gap.kind], gap.reason)
        raise
    return _Outcome(Verdict.NOT_APPLICABLE, f"applies only if {' '.join(rule.source.split())}")


def _blocked(entry: Entry, case: Case) -> _Outcome | None:
    for name in entry.contract.depends:
        other = case.results.get(name)
        if other is not None and other.verdict is Verdict.BLOCKED:
            return _Outcome(Verdict.BLOCKED, other.message, blocked_by=other.blocked_by)
        if other is not None and other.verdict in _BLOCKING:
            text = f"blocked by {name}, which {_BLOCKING[other.verdict]}"
            return _Outcome(Verdict.BLOCKED, text, blocked_by=name)
    return None


def _untold(entry: Entry, case: Case) -> _Outcome | None:
    gap = case.gap(entry.rule.groups)
    return _Outcome(_GAPS[gap.kind], gap.reason) if gap else None


def _ruled(entry: Entry, case: Case) -> _Outcome:
    if entry.rule.holds(case.variables(entry.rule.groups)):
        return _Outcome(Verdict.PASS)
    return _Outcome(
        Verdict.FAIL,
        message=_rendered(entry.message, case),
        cause=_cause(entry, case),
        fix=_rendered(entry.fix, case),
    )


def _shown(text: str) -> str:
    return "\n".join(map(printable, text.split("\n")))


def _rendered(text: Template, case: Case) -> str:
    try:
        return text.render(case.variables(text.groups))
    except RuleError as error:  # the failure counts, also where its text does not work out
        return f"{text.source} ({error})"


def _cause(entry: Entry, case: Case) -> str:
    for when, says in entry.causes:
        # A condition that these facts do not decide is not the suspected cause.
        with contextlib.suppress(RuleError):
            if when.holds(case.variables(when.groups)):
                return _rendered(says, case)
    return entry.contract.why


@cache
def _static(groups: frozenset[str]) -> frozenset[str]:
    return frozenset(group for group in groups if GROUPS[group][1] is Tier.STATIC)
