"""The outcome of a run: the one model that every format is made from."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from eagle3_contracts.verdict import Result, Verdict, exit_code

LABELS = (
    *("pass", "fail", "warning", "note", "waived", "stale-waiver", "not-testable"),
    *("inconclusive", "harness-error", "blocked", "not-applicable"),
)
"""What a result is called in reports: its verdict, or the severity of a failure below error."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The results of a run, in the order in which they are shown, and where it took place.

    ``unmatched`` holds a text for each waiver that is about nothing.
    """

    results: tuple[Result, ...]
    environment: Mapping[str, Any] = field(default_factory=dict)
    unmatched: tuple[str, ...] = ()

    @property
    def subjects(self) -> list[str]:
        """Names of the subjects, in order."""
        return list(dict.fromkeys(result.subject for result in self.results))

    @property
    def contracts(self) -> list[str]:
        """Ids of the contracts, cheapest tier first."""
        return list(dict.fromkeys(result.contract for result in self.results))

    @property
    def counts(self) -> dict[str, int]:
        """How many results have each label, in the order of LABELS, those without any left out."""
        counted = Counter(map(label, self.results))
        return {name: counted[name] for name in LABELS if counted[name]}

    @property
    def exit_code(self) -> int:
        """Exit code of the command line: 0, 1, 3 or 4."""
        failures = Counter(result.verdict for result in self.results if result.is_failure)
        return exit_code(failures + Counter({Verdict.STALE_WAIVER: len(self.unmatched)}))


def label(result: Result) -> str:
    """Return what ``result`` is called in reports, one of LABELS."""
    return named(result.verdict, result.severity)


def named(verdict: Verdict, severity: str) -> str:
    """Return what a verdict of a contract of that severity is called, one of LABELS."""
    if verdict is Verdict.FAIL:
        return {"error": "fail", "warning": "warning", "info": "note"}[severity]
    return str(verdict)


def alike(results: Iterable[Result]) -> list[list[Result]]:
    """Return the results in groups that differ in nothing but the subject, in order."""
    groups: dict[tuple[str, ...], list[Result]] = {}
    for result in results:
        key = (result.contract, label(result), result.message, result.cause, result.waiver)
        groups.setdefault(key, []).append(result)
    return list(groups.values())


def number(count: int, noun: str) -> str:
    """Return ``1 subject``, ``2 subjects``."""
    return f"{count} {noun}{'' if count == 1 else 's'}"
