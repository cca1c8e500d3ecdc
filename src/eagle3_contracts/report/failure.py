"""The text of a failure, in the order in which it is read."""

from __future__ import annotations

import re
from collections.abc import Sequence
from textwrap import wrap

from eagle3_contracts.report.outcome import label
from eagle3_contracts.verdict import Result

WIDTH = 100
"""Columns of a text whose reader is unknown."""

_INDENT = 13
_CONTROL = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def failure_text(alike: Sequence[Result], width: int = WIDTH) -> str:
    """Return what there is to say about results that differ in the subject only.

    The order: contract and title; subjects and where they ran; expected and observed; suspected
    cause; how to fix; reference; one line that reproduces the first (never broken, so that it can
    be copied).
    """
    first = alike[0]
    parts = [
        ("subject", f"{', '.join(result.subject for result in alike)} ({first.where})"),
        ("observed", first.message),
        ("cause", first.cause),
        ("fix", first.fix),
        ("see", ", ".join(first.refs)),
    ]
    head = f"{label(first).upper()}  {first.contract}  {first.title}"
    lines = folded(plain(head), width, "  ")
    lines += [line for name, text in parts for line in paragraph(name, text, width)]
    return "\n".join([*lines, f"  {'reproduce':<{_INDENT - 2}}{plain(first.reproduce)}"])


def paragraph(name: str, text: str, width: int = WIDTH) -> list[str]:
    """Return the lines of one part of a failure; none for an empty text.

    Lines that the text has are kept, so that the output of a job stays readable.
    """
    lines = [
        piece
        for line in plain(text).splitlines()
        for piece in folded(line, max(width - _INDENT, 20))
    ]
    if not lines:
        return []
    heads = [f"  {name:<{_INDENT - 2}}", *[" " * _INDENT] * (len(lines) - 1)]
    return [head + line for head, line in zip(heads, lines, strict=True)]


def folded(text: str, width: int, indent: str = "") -> list[str]:
    """Return ``text`` in lines of at most ``width``; paths and names, to be copied, stay whole."""
    return wrap(
        text, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )


def plain(text: str) -> str:
    """Return ``text`` with the characters written out that would steer a terminal."""
    return _CONTROL.sub(lambda found: f"\\x{ord(found[0]):02x}", text)
