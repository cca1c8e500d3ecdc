"""A picture of layers: an axis of boundaries, marks of training above it, of serving below it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

_ARROWS = {True: ("▼", "▲", "─", "┼"), False: ("v", "^", "-", "+")}
_MARGIN = 10


@dataclass(frozen=True, slots=True)
class Mark:
    """A short label at a boundary."""

    boundary: int
    label: str
    text: str = ""
    """What a reader is told who asks for more; a terminal has no place for it."""


def draw(
    num_layers: int,
    training: Sequence[Mark],
    serving: Sequence[Mark],
    width: int = 100,
    *,
    has_unicode: bool = True,
) -> str:
    """Return the picture as lines of at most ``width`` characters, if the labels are short.

    The axis goes from boundary 0, the embedding, to ``num_layers``.
    """
    down, up, line, tick = _ARROWS[has_unicode]
    step = max(1, min(8, (width - _MARGIN - 4) // num_layers))
    columns = min(num_layers * step, width - _MARGIN - 4)

    def column(boundary: int) -> int:
        return round(boundary * columns / num_layers)

    ticks = ticks_of(num_layers)
    axis = "".join(tick if c in {column(t) for t in ticks} else line for c in range(columns + 1))
    rows = [
        *_labelled("training", training, column),
        _arrows(down, [column(mark.boundary) for mark in training]),
        f"{'':{_MARGIN}}{axis}",
        *_labelled("boundary", [Mark(t, str(t)) for t in ticks], column),
        _arrows(up, [column(mark.boundary) for mark in serving]),
        *_labelled("SGLang", serving, column),
    ]
    return "\n".join(row.rstrip() for row in rows if row.strip()) + "\n"


def ticks_of(num_layers: int) -> list[int]:
    """Return the boundaries with a number: every tenth, or every second of a few, and the last."""
    step = 10 if num_layers > 24 else 2 if num_layers > 12 else 1
    ticks = [k for k in range(0, num_layers, step) if num_layers - k >= min(step, 3)]
    return [*ticks, num_layers]


def _labelled(name: str, marks: Sequence[Mark], column: Callable[[int], int]) -> list[str]:
    """Return labels at their columns, in further rows where they would overlap."""
    rows = []
    for number, placed in enumerate(stacked(marks, column)):
        row = f"{'' if number else name:{_MARGIN}}"
        for mark in placed:
            row = f"{row:{column(mark.boundary) + _MARGIN}}{mark.label}"
        rows.append(row)
    return rows


def stacked(marks: Sequence[Mark], column: Callable[[int], int]) -> list[list[Mark]]:
    """Share marks among rows, as few as go, so that no label touches the next.

    ``column`` is the place of a boundary, in characters.
    """
    rows: list[list[Mark]] = []
    for mark in sorted(marks, key=lambda mark: (mark.boundary, mark.label)):
        at = column(mark.boundary)
        free = (row for row in rows if column(row[-1].boundary) + len(row[-1].label) < at)
        row = next(free, None)
        if row is None:
            rows.append(row := [])
        row.append(mark)
    return rows


def _arrows(arrow: str, columns: Iterable[int]) -> str:
    row = ""
    for at in sorted(set(columns)):
        row = f"{row:{at + _MARGIN}}{arrow}"
    return row
