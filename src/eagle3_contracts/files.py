"""Reading files that other people wrote: bounded, and with errors that name the file."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any, BinaryIO

from eagle3_contracts.errors import BadInput, Problem

MAX_JSON = 64 * 2**20
"""Bytes of the largest config.json or index that is read; real ones stay below 10 MB."""
MAX_DEPTH = 100
"""Levels of the deepest nesting accepted in a config.json; real ones have about five."""


def is_file(path: Path) -> bool:
    """Return whether ``path`` is a regular file; False for whatever cannot be looked at."""
    return _has_mode(path, stat.S_ISREG)


def is_directory(path: Path) -> bool:
    """Return whether ``path`` is a directory; False for whatever cannot be looked at."""
    return _has_mode(path, stat.S_ISDIR)


def is_absent(path: Path) -> bool:
    """Return whether nothing is there; a loop of links is there, and fails when it is opened."""
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return True
    except (OSError, ValueError):
        return False
    return False


def open_binary(path: Path, error: type[BadInput]) -> BinaryIO:
    """Open a regular file for reading; raise ``error`` for anything else (a pipe would block)."""
    try:
        mode = path.stat().st_mode
        if stat.S_ISREG(mode):
            return path.open("rb")
    except (OSError, ValueError) as caught:
        reason = getattr(caught, "strerror", None) or str(caught)
        raise error(Problem(str(path), f"cannot be read: {reason}")) from None
    what = "a directory" if stat.S_ISDIR(mode) else "no regular file"
    raise error(Problem(str(path), f"cannot be read: it is {what}, a file is needed"))


def read_object(path: Path, error: type[BadInput]) -> dict[str, Any]:
    """Return the JSON object in the file ``path``; raise ``error`` when there is none."""
    with open_binary(path, error) as file:
        raw = file.read(MAX_JSON + 1)
    if len(raw) > MAX_JSON:
        text = f"is larger than {MAX_JSON} bytes; no config or index is that large"
        raise error(Problem(str(path), text))
    return parse_object(raw, str(path), error)


def parse_object(
    raw: bytes, source: str, error: type[BadInput], part: str | None = None
) -> dict[str, Any]:
    """Return the JSON object in ``raw``; raise ``error`` when there is none.

    ``part`` says which part of the file ``raw`` is; without it, mistakes are shown with their line
    and column. NaN and Infinity are accepted, as the readers of config.json in transformers accept
    them: the configs of some state space models hold Infinity.
    """
    what = part or "the file"
    try:
        value = json.loads(raw.decode("utf-8"))
        if b"\\u" in raw:
            json.dumps(value, ensure_ascii=False).encode("utf-8")
    except json.JSONDecodeError as caught:
        raise error(_not_json(caught, source, part)) from None
    except (ValueError, RecursionError) as caught:
        raise error(Problem(source, f"{what} {_complaint(caught)}")) from None
    if not isinstance(value, dict):
        raise error(Problem(source, f"{what} must hold a JSON object, got {kind_of(value)}"))
    return value


def is_deep(value: object) -> bool:
    """Return whether mappings and lists in ``value`` are nested deeper than :data:`MAX_DEPTH`."""
    level = [value]
    for _ in range(MAX_DEPTH + 1):
        level = [part for item in level for part in _parts(item)]
        if not level:
            return False
    return True


def kind_of(value: object) -> str:
    """Return what JSON calls ``value``, for error messages: an array, a string, null, …"""
    names = {dict: "an object", list: "an array", str: "a string", bool: "a boolean"}
    return "null" if value is None else names.get(type(value), "a number")


def show(value: object) -> str:
    """Return ``value`` as a message shows it: as Python spells it, cut to 60 characters."""
    try:
        text = repr(value)
    except (ValueError, RecursionError):
        return "a value too large to show"
    return text if len(text) <= 60 else f"{text[:57]}..."


def _has_mode(path: Path, test: Any) -> bool:
    try:
        return bool(test(path.stat().st_mode))
    except (OSError, ValueError):
        return False


def _not_json(caught: json.JSONDecodeError, source: str, part: str | None) -> Problem:
    if part is None:
        return Problem(source, f"is not JSON: {caught.msg}", caught.lineno, caught.colno)
    return Problem(source, f"{part} is not JSON: {caught.msg} (character {caught.pos + 1})")


def _parts(value: object) -> list[Any]:
    if isinstance(value, dict):
        return list(value.values())
    return list(value) if isinstance(value, list | tuple) else []


def _complaint(caught: ValueError | RecursionError) -> str:
    if isinstance(caught, UnicodeDecodeError):
        return f"is not UTF-8: byte {caught.start} is 0x{caught.object[caught.start]:02x}"
    if isinstance(caught, UnicodeEncodeError):
        return "holds half of a surrogate pair, which is no character"
    if isinstance(caught, RecursionError):
        return "is nested too deep to be read"
    return "holds a number with too many digits to be read"
