"""What a person who gave bad input gets to read.

Every class stands for one kind of user mistake. All problems of all files are gathered before
one of them is raised, so that a second run is not needed to see the second mistake.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches

MAX_TEXT = 1_500
"""Characters of the longest text of a problem; longer ones list what nobody reads to the end."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One mistake, with the place to correct it.

    ``line`` and ``column`` count from 1; they are None where a file has no lines (a safetensors
    header) or where the mistake is in an option.
    """

    source: str
    text: str
    line: int | None = None
    column: int | None = None

    def __str__(self) -> str:
        place = [str(part) for part in (self.source, self.line, self.column) if part is not None]
        return f"{printable(':'.join(place))}: {printable(self.text)}"


class BadInput(Exception):  # noqa: N818  (it names what the user gave)
    """Input that cannot be used as it stands (exit code 2)."""

    def __init__(self, problems: Problem | Iterable[Problem]) -> None:
        self.problems = (problems,) if isinstance(problems, Problem) else tuple(problems)
        super().__init__("\n".join(str(problem) for problem in self.problems))


class ContractError(BadInput):
    """A contract file that cannot be read, or whose rule names what no probe yields."""


class SubjectError(BadInput):
    """A subject file, or a config it points to, that does not say what it must."""


class CheckpointError(BadInput):
    """A checkpoint whose files cannot be read at all; absent shards are a verdict instead."""


class WaiverError(BadInput):
    """A waiver that lacks a required part or cannot be read."""


class FeatureError(BadInput):
    """A path that holds no feature dump, or a manifest that cannot be read."""


class OptionError(BadInput):
    """A command-line option or a setting in pyproject.toml with an impossible value."""


def printable(text: str) -> str:
    """Return ``text`` as one line that a terminal can show, cut to :data:`MAX_TEXT` characters.

    What other people's files hold is quoted in messages, and may hold what moves the cursor.
    """
    if not text.isprintable():
        text = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text[: MAX_TEXT + 1])
    return text if len(text) <= MAX_TEXT else f"{text[: MAX_TEXT - 3]}..."


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return ``"; did you mean 'x'?"`` for the nearest known name, or an empty string."""
    nearest = get_close_matches(name, sorted(known), n=1, cutoff=0.6)
    return f"; did you mean '{nearest[0]}'?" if nearest else ""


def raise_if_any(kind: type[BadInput], problems: Sequence[Problem]) -> None:
    """Raise ``kind`` with all ``problems``, in the order of files and lines; do nothing without."""
    if problems:
        raise kind(sorted(problems, key=lambda p: (p.source, p.line or 0, p.column or 0)))
