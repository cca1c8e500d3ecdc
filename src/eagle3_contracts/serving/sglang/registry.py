"""Which architectures the installed SGLang has, read from its sources without importing it."""

from __future__ import annotations

import re
from functools import cache
from importlib.util import find_spec
from pathlib import Path

_ENTRY = re.compile(r"^EntryClass\s*=\s*(\[[^\]]*\]|\w+)", re.MULTILINE)


@cache
def known_architectures() -> frozenset[str]:
    """Return the classes that model modules register; empty when SGLang is not installed.

    Every module of ``sglang.srt.models`` names its classes in ``EntryClass``, which is what
    SGLang's own registry goes by.
    """
    found = find_spec("sglang")
    if found is None or not found.submodule_search_locations:
        return frozenset()
    models = Path(found.submodule_search_locations[0], "srt", "models")
    names: set[str] = set()
    for file in models.rglob("*.py"):
        for entry in _ENTRY.findall(file.read_text(encoding="utf-8")):
            names.update(re.findall(r"\w+", re.sub(r"#.*", "", entry)))
    return frozenset(names)
