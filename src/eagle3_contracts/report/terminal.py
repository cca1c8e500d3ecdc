"""The report for people: table, failures, waived contracts, counts."""

from __future__ import annotations

from collections import Counter

from eagle3_contracts.report.failure import failure_text, folded, plain
from eagle3_contracts.report.outcome import Outcome, alike, label, number
from eagle3_contracts.report.style import Style
from eagle3_contracts.report.table import table
from eagle3_contracts.verdict import Result, Verdict

MAX_REASONS = 8
"""Most reasons for not applying that are listed one by one."""

_TIE = "\xa0"  # a space at which no line ends
_SILENT = (Verdict.PASS, Verdict.NOT_APPLICABLE, Verdict.WAIVED, Verdict.BLOCKED)


def render(outcome: Outcome, style: Style | None = None) -> str:
    """Return the whole report."""
    style = style or Style()
    failures = failures_of(outcome, style)
    parts = [*([table_of(outcome, style)] if outcome.results else []), *failures]
    return "\n\n".join([*parts, summary(outcome, style)]) + "\n"


def table_of(outcome: Outcome, style: Style) -> str:
    """Return the table of verdicts, contracts by subjects."""
    return "\n".join(table(outcome, style))


def failures_of(outcome: Outcome, style: Style) -> list[str]:
    """Return the text of each failure, those that differ in the subject only as one."""
    shown = [result for result in outcome.results if result.verdict not in _SILENT]
    return [_painted(failure_text(group, style.width), group[0], style) for group in alike(shown)]


def summary(outcome: Outcome, style: Style) -> str:
    """Return what was waived, what was blocked, what did not run and why, and the counts."""
    results = outcome.results
    waived = [result for result in results if result.verdict is Verdict.WAIVED]
    blocked = [result for result in results if result.verdict is Verdict.BLOCKED]
    lines = [_line("waived", f"{r.contract}[{r.subject}] {r.waiver}", style) for r in waived]
    lines += [_line("blocked", _blocked(group), style) for group in alike(blocked)]
    lines += [_line("stale-waiver", text, style) for text in outcome.unmatched]
    lines += _not_applicable(outcome, style)
    counted = [line.replace(_TIE, " ") for line in folded(_counts(outcome), style.width, "  ")]
    return "\n".join([*lines, *counted])


def _counts(outcome: Outcome) -> str:
    """Return one sentence: how many verdicts there are, how many ran, and how they came out."""
    numbers = dict(outcome.counts)
    idle = numbers.pop("not-applicable", 0)
    total = len(outcome.results)
    said = [f"{count}{_TIE}{name}" for name, count in numbers.items()]
    unmatched = len(outcome.unmatched)
    said += [_number(unmatched, "unmatched waiver")] * bool(unmatched)
    said += [f"{idle}{_TIE}not{_TIE}applicable"] * bool(idle)
    ran = total - idle - numbers.get("blocked", 0)
    head = f"{ran} of {_number(total, 'verdict')} ran" if ran else "NOTHING RAN"
    text = ": ".join([head, *([", ".join(said)] if said else [])])
    shape = [_number(len(outcome.contracts), "contract"), _number(len(outcome.subjects), "subject")]
    return f"{text} ({', '.join(shape)})"


def _not_applicable(outcome: Outcome, style: Style) -> list[str]:
    idle = [result for result in outcome.results if result.verdict is Verdict.NOT_APPLICABLE]
    reasons = Counter(result.message for result in idle).most_common()
    lines = [
        _line("not-applicable", f"{count} because: {reason}", style)
        for reason, count in reasons[:MAX_REASONS]
    ]
    rest = sum(count for _, count in reasons[MAX_REASONS:])
    return lines + [_line("not-applicable", f"{rest} for other reasons", style)] * bool(rest)


def _blocked(group: list[Result]) -> str:
    names = ", ".join(result.subject for result in group)
    return f"{group[0].contract} {group[0].message}: {names}"


def _number(count: int, noun: str) -> str:
    return number(count, noun).replace(" ", _TIE)


def _line(name: str, text: str, style: Style) -> str:
    lines = folded(plain(text), max(style.width - 16, 20))
    first = f"{style.paint(f'{name:<14}', name)}  {lines[0] if lines else ''}"
    return "\n".join([first, *(" " * 16 + line for line in lines[1:])])


def _painted(text: str, result: Result, style: Style) -> str:
    name = label(result)
    return style.paint(name.upper(), name) + text[len(name) :]
