"""The table of contracts by subjects."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from textwrap import fill

from eagle3_contracts.report.outcome import LABELS, Outcome, label
from eagle3_contracts.report.style import Style

Cells = Mapping[tuple[str, str], str]
"""Labels by contract and subject."""


def table(outcome: Outcome, style: Style) -> list[str]:
    """Return the lines: verdicts in words where the width allows, else one mark for each."""
    tiers = {result.contract: result.tier for result in outcome.results}
    rows = [(contract, f"{tiers[contract]:<7} {contract}") for contract in outcome.contracts]
    cells = {(result.contract, result.subject): label(result) for result in outcome.results}
    subjects = outcome.subjects
    head = max((len(text) for _, text in rows), default=0)
    widths = [max(len(name), *map(len, cells.values())) for name in subjects]
    if head + sum(widths) + 2 * len(widths) <= style.width:
        return _in_words(rows, dict(zip(subjects, widths, strict=True)), cells, style)
    return _in_marks(rows, subjects, cells, style)


def _in_words(
    rows: Sequence[tuple[str, str]], widths: Mapping[str, int], cells: Cells, style: Style
) -> list[str]:
    head = max(len(text) for _, text in rows)
    lines = [_joined(" " * head, [f"{name:<{width}}" for name, width in widths.items()])]
    for contract, text in rows:
        found = [(cells.get((contract, name), ""), width) for name, width in widths.items()]
        painted = [style.paint(f"{word:<{width}}", word) if word else "" for word, width in found]
        lines.append(_joined(f"{text:<{head}}", painted))
    return lines


def _in_marks(
    rows: Sequence[tuple[str, str]], subjects: Sequence[str], cells: Cells, style: Style
) -> list[str]:
    """Return tables of as many numbered subjects as fit, each below the names of its numbers."""
    head = max(len(text) for _, text in rows)
    digits = len(str(len(subjects)))
    room = max((style.width - head) // (digits + 2), 1)
    numbered = list(enumerate(subjects, 1))
    lines: list[str] = []
    for start in range(0, len(numbered), room):
        part = numbered[start : start + room]
        lines += [""] * bool(start) + _names(part, style.width)
        lines.append(_joined(" " * head, [f"{number:>{digits}}" for number, _ in part]))
        for contract, text in rows:
            marks = [_mark(cells.get((contract, name)), digits, style) for _, name in part]
            lines.append(_joined(f"{text:<{head}}", marks))
    return [*lines, "", fill(_legend(cells, style), style.width)]


def _names(part: Sequence[tuple[int, str]], width: int) -> list[str]:
    """Return the numbered names in as many columns as fit, top to bottom."""
    texts = [f"{number:>2} {name}" for number, name in part]
    column = max(map(len, texts)) + 2
    height = -(-len(texts) // max(width // column, 1))
    rows = (texts[at::height] for at in range(height))
    return ["".join(f"{text:<{column}}" for text in row).rstrip() for row in rows] + [""]


def _mark(name: str | None, width: int, style: Style) -> str:
    return style.paint(f"{style.mark(name):>{width}}", name) if name else " " * width


def _legend(cells: Cells, style: Style) -> str:
    used = set(cells.values())
    return "  ".join(f"{style.mark(name)} {name}" for name in LABELS if name in used)


def _joined(head: str, cells: Sequence[str]) -> str:
    return "  ".join([head, *cells]).rstrip()
