"""The search: Hypothesis draws examples and makes the ones that break a property smaller."""

from __future__ import annotations

import contextlib
import importlib
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from eagle3_contracts.errors import OptionError, Problem
from eagle3_contracts.fuzz.changes import MAX_DEPTH, MIN_DEPTH, Change, changes_of
from eagle3_contracts.fuzz.example import Example, Finding
from eagle3_contracts.subject import ResolvedSubject

MAX_CHANGES = 3
"""Right changes of one example; what needs more of them at once is beyond a minute's search."""
SHRINKING = 20.0
"""Seconds for making one example smaller, at most."""

Property = Callable[[Example], Finding | None]


@dataclass(frozen=True, slots=True)
class Broken:
    """A property and the smallest example found that breaks it; ``seconds`` until the first."""

    finding: Finding
    example: Example
    seconds: float


class _SpentError(BaseException):
    """The time is up; no Exception, so that Hypothesis lets it through at once."""


class _BrokenError(Exception):
    """A property does not hold; there is a class for each finding, as Hypothesis goes by it."""


def require_hypothesis() -> None:
    """Import hypothesis, before any time is taken; OptionError when it is not installed."""
    try:
        importlib.import_module("hypothesis.strategies")
    except ImportError:
        text = "fuzzing needs hypothesis: pip install 'eagle3-contracts[fuzz]'"
        raise OptionError(Problem("fuzz", text)) from None


def search(base: ResolvedSubject, check: Property, seed: int, budget: float) -> Iterator[Broken]:
    """Yield what breaks a property of ``check``, each once, until ``budget`` seconds are spent.

    The examples depend on ``seed`` alone; how many of them are looked at, on the time.
    """
    end = time.monotonic() + budget
    known: set[tuple[str, str]] = set()
    for turn in range(10**6):
        found = _Round(base, check, known, end).run(seed + turn)
        if found is not None:
            known.add(found.finding.signature)
            yield found
        if time.monotonic() >= end:
            return


class _Round:
    """One search, up to the first finding that is not known."""

    def __init__(
        self, base: ResolvedSubject, check: Property, known: set[tuple[str, str]], end: float
    ) -> None:
        self.base, self.check, self.known = base, check, known
        self.started, self.end = time.monotonic(), end
        self.best: Broken | None = None
        self.seen: dict[str, Finding | None] = {}
        self.kinds: dict[tuple[str, str], type[_BrokenError]] = {}

    def run(self, seed: int) -> Broken | None:
        """Return the smallest example of a finding, or None when the time is up."""
        import hypothesis
        from hypothesis import HealthCheck, Phase, settings

        chosen = settings(
            max_examples=10**6,
            derandomize=False,
            database=None,
            deadline=None,
            phases=(Phase.generate, Phase.shrink),
            suppress_health_check=list(HealthCheck),
            report_multiple_bugs=False,
        )
        given: Any = hypothesis.given(examples(self.base))
        test: Any = chosen(hypothesis.seed(seed)(given(self._try)))
        with contextlib.suppress(_BrokenError, _SpentError):
            test()
        return self.best and self._reduced(self.best)

    def _reduced(self, best: Broken) -> Broken:
        """Leave out every change without which the finding stays, so that all that is left matters.

        Hypothesis may have had no time for it.
        """
        for change in best.example.drawn:
            drawn = tuple(pair for pair in best.example.drawn if pair != change)
            smaller = replace(best.example, drawn=drawn)
            found = self.check(smaller) if smaller.harm == best.example.harm else None
            if found is not None and found.signature == best.finding.signature:
                best = Broken(found, smaller, best.seconds)
        return best

    def _try(self, example: Example) -> None:
        if time.monotonic() >= self.end:
            raise _SpentError
        key = str(example)
        if key not in self.seen:
            self.seen[key] = self.check(example)
        finding = self.seen[key]
        if finding is None or finding.signature in self.known:
            return
        self._keep(finding, example)
        kind = self.kinds.setdefault(
            finding.signature, type("BrokenError", (_BrokenError,), {"__doc__": finding.kind})
        )
        raise kind(finding.message)

    def _keep(self, finding: Finding, example: Example) -> None:
        now = time.monotonic()
        if self.best is None:
            self.end = min(self.end, now + SHRINKING)
            self.best = Broken(finding, example, now - self.started)
        is_same = self.best.finding.signature == finding.signature
        if is_same and example.size < self.best.example.size:
            self.best = Broken(finding, example, self.best.seconds)


def examples(base: ResolvedSubject) -> Any:
    """Return the strategy of examples of a subject: three in five right, the others broken once."""
    from hypothesis import strategies as st

    changes = changes_of(base)
    right = [change for change in changes if not change.harm]
    wrong = [change for change in changes if change.harm]

    @st.composite
    def draw_example(draw: st.DrawFn) -> Example:
        depth = draw(st.integers(MIN_DEPTH, MAX_DEPTH))
        ids = draw(st.lists(st.integers(0, depth - 2), min_size=2, max_size=4, unique=True))
        drawn = draw(_some(st, right))
        if draw(st.integers(0, 4)) > 2:
            drawn.append(draw(_value(st, st.sampled_from(wrong))))
        return Example(base, depth, tuple(sorted(ids)), tuple(drawn))

    return draw_example()


def _some(st: Any, changes: Sequence[Change]) -> Any:
    pairs = _value(st, st.sampled_from(changes))
    return st.lists(pairs, max_size=MAX_CHANGES, unique_by=lambda pair: pair[0].field)


def _value(st: Any, changes: Any) -> Any:
    return changes.flatmap(lambda c: st.tuples(st.just(c), st.sampled_from(c.values)))
