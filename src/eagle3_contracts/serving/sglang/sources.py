"""SGLang's sources as text: where they lie, and single classes of them, read but never imported.

A module of thousands of lines takes longer to parse than the whole static tier may take, so a class
is cut out by its indentation first, and only that is parsed.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.util import find_spec
from pathlib import Path

_ENTRY = re.compile(rb"\nEntryClass\s*=\s*(\[[^\]]*\]|\w+)")
_CLASS = r"^class {name}\b"
_FOREIGN = {
    "nn.Module",
    "torch.nn.Module",
    "Module",
    "object",
    "ABC",
    "Protocol",
    "PreTrainedModel",
}
"""Bases that have none of the hooks of a model."""


@cache
def root() -> Path | None:
    """Return the directory ``sglang/srt`` of the installed release; None without SGLang."""
    found = find_spec("sglang")
    if found is None or not found.submodule_search_locations:
        return None
    return Path(found.submodule_search_locations[0], "srt")


@cache
def text(path: str) -> str:
    """Return a file below ``sglang/srt``; an empty text when this release has none."""
    base = root()
    try:
        return (base / path).read_text(encoding="utf-8") if base is not None else ""
    except OSError:
        return ""


@cache
def tree(path: str) -> ast.Module:
    """Return the syntax tree of a file below ``sglang/srt``; an empty one if it cannot be read."""
    try:
        return ast.parse(text(path))
    except SyntaxError:
        return ast.parse("")


@cache
def entries() -> Mapping[str, str]:
    """Return the file of each registered architecture, relative to ``sglang/srt``.

    Every module of ``sglang.srt.models`` names its classes in ``EntryClass``, which is what
    SGLang's own registry goes by.
    """
    base = root()
    found: dict[str, str] = {}
    for file in sorted((base / "models").rglob("*.py")) if base is not None else ():
        entry = _ENTRY.search(file.read_bytes())
        if entry is not None and base is not None:
            names = re.sub(r"#.*", "", entry[1].decode())
            found.update(dict.fromkeys(re.findall(r"\w+", names), str(file.relative_to(base))))
    return found


@cache
def class_of(name: str, path: str) -> ast.ClassDef | None:
    """Return the class ``name`` of a file; None if the file does not define it."""
    whole = text(path)
    start = re.search(_CLASS.format(name=re.escape(name)), whole, re.MULTILINE)
    if start is None:
        return None
    end = re.compile(r"^[^\s#)]", re.MULTILINE).search(whole, start.end())
    try:
        module = ast.parse(whole[start.start() : end.start() if end else len(whole)])
    except SyntaxError:
        return None
    first = module.body[0]
    return first if isinstance(first, ast.ClassDef) else None


def has_method(name: str, path: str, method: str, depth: int = 8) -> bool | None:
    """Return whether class ``name`` or one of its bases has ``method``; None if that is unknown.

    Bases are followed through the models package. A base from elsewhere may have any method.
    """
    found = class_of(name, path)
    if found is None or depth == 0:
        return None
    own = {node.name for node in found.body if isinstance(node, ast.FunctionDef)} | _assigned(found)
    if method in own:
        return True
    answers = [_inherited(base, path, method, depth) for base in map(ast.unparse, found.bases)]
    if True in answers:
        return True
    return None if None in answers or "__getattr__" in own else False


def _assigned(found: ast.ClassDef) -> set[str]:
    targets = (
        target for node in found.body if isinstance(node, ast.Assign) for target in node.targets
    )
    return {target.id for target in targets if isinstance(target, ast.Name)}


def _inherited(base: str, path: str, method: str, depth: int) -> bool | None:
    if base in _FOREIGN or base.startswith("Generic"):
        return False
    home = _home(base, path)
    return None if home is None else has_method(base, home, method, depth - 1)


def lineage(name: str, path: str, depth: int = 8) -> Iterator[tuple[str, str]]:
    """Yield class ``name`` and its bases in the models package, each with its file."""
    found = class_of(name, path)
    if found is None or depth == 0:
        return
    yield name, path
    for base in map(ast.unparse, found.bases):
        home = _home(base, path)
        if home is not None:
            yield from lineage(base, home, depth - 1)


def _home(base: str, path: str) -> str | None:
    """Return the file that defines a base of a class in ``path``; None outside the models."""
    if class_of(base, path) is not None:
        return path
    imported = re.search(
        rf"^from sglang\.srt\.(models[\w.]*) import (?:\([^)]*)?[^\n(]*\b{re.escape(base)}\b",
        text(path),
        re.MULTILINE,
    )
    return imported[1].replace(".", "/") + ".py" if imported else None


def strings(node: ast.AST) -> Iterator[str]:
    """Yield all strings that are written out below ``node``."""
    for below in ast.walk(node):
        if isinstance(below, ast.Constant) and isinstance(below.value, str):
            yield below.value
