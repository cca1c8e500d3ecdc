"""Reports: one outcome, several formats; each is a module with ``render(outcome) -> str``."""

from __future__ import annotations

import os
from importlib import import_module
from pathlib import Path

from eagle3_contracts.errors import OptionError, Problem
from eagle3_contracts.report.outcome import Outcome

MODULES = {"terminal": "terminal", "json": "document", "junit": "junit"}
"""Module of each format."""


def render(form: str, outcome: Outcome) -> str:
    """Return the report in the format of that name, ending with a line end."""
    module = import_module(f"{__name__}.{MODULES[form]}")
    text: str = module.render(outcome)
    return text


def write(form: str, outcome: Outcome, path: Path) -> None:
    """Write the report, whole or not at all; OptionError if the file cannot be written."""
    write_text(render(form, outcome), path)


def write_text(text: str, path: Path) -> None:
    """Write a file, whole or not at all; OptionError if it cannot be written."""
    data = text.encode("utf-8", "backslashreplace")
    try:
        if path.exists() and not path.is_file():  # a pipe or a device cannot be replaced
            path.write_bytes(data)
        else:
            _replace(path, data)
    except OSError as error:
        said = f"cannot be written: {error.strerror or error}"
        raise OptionError(Problem(str(path), said)) from None


def _replace(path: Path, data: bytes) -> None:
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        draft.write_bytes(data)
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)
