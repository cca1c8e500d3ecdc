"""How reports look: width, colour, and the marks of the verdicts."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from typing import TextIO

_COLOURS = {
    "pass": "32",
    "fail": "31",
    "warning": "33",
    "note": "36",
    "waived": "33",
    "stale-waiver": "31",
    "not-testable": "31",
    "inconclusive": "31",
    "harness-error": "31",
    "blocked": "33",
    "not-applicable": "2",
}
_MARKS = {
    "pass": ("✓", "."),
    "fail": ("✗", "F"),
    "warning": ("!", "!"),
    "note": ("i", "i"),
    "waived": ("w", "w"),
    "stale-waiver": ("S", "S"),
    "not-testable": ("?", "?"),
    "inconclusive": ("~", "~"),
    "harness-error": ("E", "E"),
    "blocked": ("b", "b"),
    "not-applicable": ("·", "-"),
}


@dataclass(frozen=True, slots=True)
class Style:
    """What the reader's screen can show."""

    width: int = 100
    has_colour: bool = False
    has_unicode: bool = True

    def mark(self, label: str) -> str:
        """Return the one character that stands for a label of a result."""
        return _MARKS[label][0 if self.has_unicode else 1]

    def paint(self, text: str, label: str) -> str:
        """Return ``text`` in the colour of a label, if there are colours."""
        return f"\x1b[{_COLOURS[label]}m{text}\x1b[0m" if self.has_colour else text


def style_of(stream: TextIO) -> Style:
    """Return what ``stream`` can show: colour on a terminal only, and not with NO_COLOR."""
    is_terminal = stream.isatty()
    width = shutil.get_terminal_size((100, 24)).columns
    return Style(
        width=min(max(width, 40), 120),
        has_colour=is_terminal and not os.environ.get("NO_COLOR"),
        has_unicode=can_show(stream),
    )


def can_show(stream: TextIO) -> bool:
    """Return whether the encoding of ``stream`` has the marks."""
    try:
        "✓✗·".encode(stream.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True
