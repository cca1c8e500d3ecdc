"""The case corpus: public failures as subject files, each with what the checker must say of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from eagle3_contracts.catalogue import Entry
from eagle3_contracts.errors import BadInput, Problem, SubjectError, raise_if_any
from eagle3_contracts.facts import Tier
from eagle3_contracts.locate import Document, read_yaml
from eagle3_contracts.resolve import resolve
from eagle3_contracts.run import Checker
from eagle3_contracts.subject import Expect, Subject
from eagle3_contracts.validate import validate
from eagle3_contracts.verdict import Result, Verdict
from eagle3_contracts.waiver import Waiver

DELIVERED = (Tier.STATIC, Tier.LOAD, Tier.MODEL)
"""Tiers that can be judged; a case of another tier waits for it."""


@dataclass(frozen=True, slots=True)
class Judged:
    """One case and what came of it.

    ``caught`` and ``missed`` are the families (or ``error``) that had to be found, ``alarms`` the
    messages of contracts that failed and must not have, ``broken`` what could not be judged.
    """

    name: str
    tier: Tier
    is_bad: bool
    waits: bool = False
    caught: tuple[str, ...] = ()
    missed: tuple[str, ...] = ()
    alarms: tuple[str, ...] = ()
    broken: tuple[str, ...] = ()

    @property
    def is_right(self) -> bool:
        """Whether the checker said what it must."""
        return not (self.missed or self.alarms or self.broken)


def case_files(directory: Path) -> list[Path]:
    """Return the cases of ``directory``, sorted by name; SubjectError when there are none."""
    files = sorted(directory.glob("*.yaml"))
    if not files:
        raise SubjectError(Problem(str(directory), "holds no case: no file *.yaml"))
    return files


class Judge:
    """Judges cases one by one; what SGLang they need is started once and ended by ``close``."""

    def __init__(self, entries: Sequence[Entry], waivers: Sequence[Waiver] = ()) -> None:
        self._checkers = {tier: Checker(entries, waivers, tiers=_up_to(tier)) for tier in DELIVERED}

    def judge(self, file: Path, tiers: Iterable[Tier] = DELIVERED) -> Judged | None:
        """Return what came of a case, with all tiers up to its own; None if that is not wanted.

        Raises BadInput for a case that cannot be read or that expects nothing.
        """
        document = read_yaml(file, SubjectError)
        expect = _expectation(document)
        if expect.tier not in DELIVERED:
            return Judged(file.stem, expect.tier, _is_bad(expect), waits=True)
        if expect.tier not in tiers:
            return None
        return _judged(file, document, expect, self._checkers[expect.tier])

    def close(self) -> None:
        """End the processes that were started."""
        for checker in self._checkers.values():
            checker.close()


def judge(
    files: Iterable[Path],
    entries: Sequence[Entry],
    tiers: Iterable[Tier],
    waivers: Sequence[Waiver] = (),
) -> Iterator[Judged]:
    """Judge the cases whose tier is among ``tiers``; raises as :meth:`Judge.judge`."""
    wanted = frozenset(tiers)
    with closing(Judge(entries, waivers)) as session:
        for file in files:
            if (judged := session.judge(file, wanted)) is not None:
                yield judged


def tier_of(file: Path) -> Tier:
    """Return up to which tier a case is judged; raises as :meth:`Judge.judge`."""
    return _expectation(read_yaml(file, SubjectError)).tier


def _up_to(tier: Tier) -> set[Tier]:
    return {other for other in DELIVERED if other.cost <= tier.cost}


def _is_bad(expect: Expect) -> bool:
    return bool(expect.violates or expect.warns or expect.error)


def _expectation(document: Document) -> Expect:
    """Return what is expected of a case, which may be that the rest of it cannot be read."""
    try:
        return Expect.model_validate(document.data.get("expect") or {})
    except ValidationError:
        _subject(document)
        raise


def _subject(document: Document) -> Subject:
    subject, problems = validate(Subject, document)
    raise_if_any(SubjectError, problems)
    assert subject is not None
    return subject


def _judged(file: Path, document: Document, expect: Expect, checker: Checker) -> Judged:
    name = file.stem
    try:
        subject = resolve(_subject(document), file.parent, str(file))
        results = checker.check(subject)
        checker.forget(subject)
    except BadInput as error:
        return _refused(name, expect, str(error))
    if expect.error is not None:
        return Judged(name, expect.tier, True, missed=("error",))
    return _compared(name, expect, results)


def _refused(name: str, expect: Expect, text: str) -> Judged:
    if expect.error is not None and expect.error in text:
        return Judged(name, expect.tier, True, caught=("error",))
    missed = ("error",) if expect.error is not None else tuple(expect.violates)
    return Judged(name, expect.tier, _is_bad(expect), missed=missed, alarms=(text,))


def _compared(name: str, expect: Expect, results: Sequence[Result]) -> Judged:
    failed = [result for result in results if result.verdict is Verdict.FAIL]
    errors = {result.family for result in failed if result.severity == "error"}
    warnings = {result.family for result in failed if result.severity == "warning"}
    required = [(family, errors) for family in expect.violates]
    required += [(family, warnings) for family in expect.warns]
    allowed = {*expect.violates, *expect.may}
    return Judged(
        name,
        expect.tier,
        _is_bad(expect),
        caught=tuple(family for family, found in required if family in found),
        missed=tuple(family for family, found in required if family not in found),
        alarms=tuple(
            f"{result.contract}: {result.message}"
            for result in failed
            if result.severity == "error" and result.family not in allowed
        ),
        broken=tuple(
            f"{result.contract}: {result.message}"
            for result in results
            if result.verdict in (Verdict.NOT_TESTABLE, Verdict.HARNESS_ERROR)
        ),
    )


def table(judged: Sequence[Judged]) -> str:
    """Return caught, missed and false alarms by family and tier, then every case that is wrong."""
    rows: dict[tuple[str, str], list[int]] = {}
    for case in judged:
        for family, column in (*((f, 0) for f in case.caught), *((f, 1) for f in case.missed)):
            rows.setdefault((family, case.tier), [0, 0])[column] += 1
    lines = [f"{'FAMILY':18}{'TIER':8}{'CAUGHT':>8}{'MISSED':>8}"]
    for (family, tier), (caught, missed) in sorted(rows.items()):
        lines.append(f"{family:18}{tier:8}{caught:8}{missed:8}")
    lines += [line for case in judged if not case.is_right for line in _wrong(case)]
    return "\n".join([*lines, "", *_totals(judged)])


def _wrong(case: Judged) -> Iterator[str]:
    yield f"\nWRONG  {case.name} ({case.tier})"
    yield from (f"  missed       {family}" for family in case.missed)
    yield from (f"  false alarm  {text}" for text in case.alarms)
    yield from (f"  not judged   {text}" for text in case.broken)


def _totals(judged: Sequence[Judged]) -> Iterator[str]:
    done = [case for case in judged if not case.waits]
    bad, good = [c for c in done if c.is_bad], [c for c in done if not c.is_bad]
    caught = sum(not (case.missed or case.broken) for case in bad)
    alarms = sum(len(case.alarms) for case in done)
    waiting = len(judged) - len(done)
    yield f"{caught} of {len(bad)} bad cases caught, {alarms} false alarms on {len(done)} cases"
    yield f"{sum(case.is_right for case in good)} of {len(good)} good cases clean"
    if waiting:
        tiers = ", ".join(sorted({case.tier for case in judged if case.waits}))
        yield f"{waiting} cases wait for tier {tiers}"
