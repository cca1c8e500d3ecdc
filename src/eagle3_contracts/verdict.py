"""Verdicts: what people read, one for each contract and subject."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


class Verdict(StrEnum):
    """The outcome of one contract on one subject."""

    PASS = "pass"
    FAIL = "fail"
    WAIVED = "waived"
    STALE_WAIVER = "stale-waiver"
    NOT_APPLICABLE = "not-applicable"
    NOT_TESTABLE = "not-testable"
    INCONCLUSIVE = "inconclusive"
    BLOCKED = "blocked"
    HARNESS_ERROR = "harness-error"


@dataclass(frozen=True, slots=True)
class Result:
    """One verdict with everything a report shows of it.

    ``message`` holds expected and observed, ``cause`` the suspected cause, ``facts`` the groups
    that the rule names. ``waiver`` says until when and why the result is waived, or which waiver
    is stale; ``blocked_by`` is the contract at the root of a blocked one. ``seconds`` is the time
    of the rule and of the probes that ran first for this contract.
    """

    contract: str
    title: str
    family: str
    tier: str
    severity: str
    subject: str
    where: str
    verdict: Verdict
    message: str = ""
    cause: str = ""
    fix: str = ""
    refs: tuple[str, ...] = ()
    reproduce: str = ""
    facts: Mapping[str, Any] = field(default_factory=dict)
    seconds: float = 0.0
    waiver: str = ""
    blocked_by: str = ""

    @property
    def is_failure(self) -> bool:
        """Whether the run must not end green because of this result."""
        if self.verdict is Verdict.FAIL:
            return self.severity == "error"
        return self.verdict in _FAILURES


_FAILURES = {
    Verdict.STALE_WAIVER,
    Verdict.NOT_TESTABLE,
    Verdict.INCONCLUSIVE,
    Verdict.HARNESS_ERROR,
}


def exit_code(verdicts: Mapping[Verdict, int]) -> int:
    """Return the exit code for the counted failures.

    0 clean, 1 violation (or a stale waiver), 3 harness error or not testable, 4 inconclusive.
    A violation is the strongest statement and wins over the others.
    """
    if verdicts.get(Verdict.FAIL, 0) or verdicts.get(Verdict.STALE_WAIVER, 0):
        return 1
    if verdicts.get(Verdict.HARNESS_ERROR, 0) or verdicts.get(Verdict.NOT_TESTABLE, 0):
        return 3
    return 4 if verdicts.get(Verdict.INCONCLUSIVE, 0) else 0
