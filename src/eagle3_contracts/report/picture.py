"""A picture of layers: an axis of boundaries, marks of training above it, of serving below it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

_ARROWS = {True: ("▼", "▲", "─", "┼"), False: ("v", "^", "-", "+")}
_MARGIN = 10


@dataclass(frozen=True, slots=True)
class Mark:
    """A short label at a boundary."""

    boundary: int
    label: str


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

    ticks = _ticks(num_layers)
    axis = "".join(tick if c in {column(t) for t in ticks} else line for c in range(columns + 1))
    rows = [
        *_labelled("training", [(column(m.boundary), m.label) for m in training]),
        _arrows(down, [column(mark.boundary) for mark in training]),
        f"{'':{_MARGIN}}{axis}",
        *_labelled("boundary", [(column(t), str(t)) for t in ticks]),
        _arrows(up, [column(mark.boundary) for mark in serving]),
        *_labelled("SGLang", [(column(m.boundary), m.label) for m in serving]),
    ]
    return "\n".join(row.rstrip() for row in rows if row.strip()) + "\n"


def _ticks(num_layers: int) -> list[int]:
    """Return the boundaries with a number: every tenth, or every second of a few, and the last."""
    step = 10 if num_layers > 24 else 2 if num_layers > 12 else 1
    ticks = [k for k in range(0, num_layers, step) if num_layers - k >= min(step, 3)]
    return [*ticks, num_layers]


def _labelled(name: str, labels: Iterable[tuple[int, str]]) -> list[str]:
    """Return labels at their columns, in further rows where they would overlap."""
    left = sorted(labels)
    rows: list[str] = []
    while left:
        row, later = f"{'' if rows else name:{_MARGIN}}", []
        for at, label in left:
            if len(row) > _MARGIN and len(row) >= at + _MARGIN:
                later.append((at, label))
            else:
                row = f"{row:{at + _MARGIN}}{label}"
        rows.append(row)
        left = later
    return rows


def _arrows(arrow: str, columns: Iterable[int]) -> str:
    row = ""
    for at in sorted(set(columns)):
        row = f"{row:{at + _MARGIN}}{arrow}"
    return row
