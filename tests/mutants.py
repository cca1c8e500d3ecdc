"""Right files gone wrong: strategies that damage the bytes, the tree or the place of a file.

Random bytes are refused at the first byte; what gets far into a reader is a right file with one
thing wrong, so everything here starts from one.
"""

from __future__ import annotations

import copy
import json
import os
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import yaml
from hypothesis import strategies as st

from eagle3_contracts.files import MAX_DEPTH

ODD_NUMBERS = (0, -1, 1, 2**31, 2**63, 2**64, 10**30, 0.5, 1e308, float("nan"), float("-inf"))
ODD_TEXTS = ("", " ", "\0", "é", "\x1b[31m", "a\nb", "\u202e", "1e6", "null", "../x", "x" * 300)
ODD_VALUES: tuple[Any, ...] = (
    *(None, True, False, [], {}, [[]], [None], {"": {}}, [1, "a"], {"a": [1]}),
    *ODD_NUMBERS,
    *ODD_TEXTS,
)
BOMBS = (
    b"\xff\xfe",
    b"\xef\xbb\xbf",
    b"\0" * 8,
    b'"\\ud800"',
    b"9" * 5000,
    b"[" * 3000,
    b'{"a":' * 3000,
    b"&a [*a]",
    b"!!python/object/apply:os.abort []",
    b"<<: *x\n",
    b"---\n",
    b"\t",
    b"\r",
    b"\x1b[2J",
    b"NaN",
    b"-Infinity",
)
"""Bytes that mean something to one format or another."""

BAD_PLACES = ("absent", "directory", "loop", "dangling", "pipe", "empty")


def nested(depth: int) -> list[Any]:
    """Return lists in lists."""
    value: list[Any] = []
    for _ in range(depth):
        value = [value]
    return value


ODD = (
    st.sampled_from(ODD_VALUES).map(copy.deepcopy)  # they are changed further
    | st.sampled_from((MAX_DEPTH - 3, MAX_DEPTH + 3)).map(nested)
)


@st.composite
def bytes_of(draw: st.DrawFn, raw: bytes) -> bytes:
    """Damage a few places of ``raw``: flip, cut, repeat, insert."""
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, max(len(raw) - 1, 0)))
        damage = draw(st.sampled_from(_DAMAGES))
        raw = damage(raw, at, draw)
    return raw


def _flip(raw: bytes, at: int, draw: st.DrawFn) -> bytes:
    return raw[:at] + bytes([draw(st.integers(0, 255))]) + raw[at + 1 :]


def _cut(raw: bytes, at: int, draw: st.DrawFn) -> bytes:
    return raw[:at]


def _remove(raw: bytes, at: int, draw: st.DrawFn) -> bytes:
    return raw[:at] + raw[at + draw(st.integers(1, 40)) :]


def _repeat(raw: bytes, at: int, draw: st.DrawFn) -> bytes:
    end = at + draw(st.integers(1, 200))
    return raw[:end] + raw[at:]


def _insert(raw: bytes, at: int, draw: st.DrawFn) -> bytes:
    return raw[:at] + draw(st.sampled_from(BOMBS)) + raw[at:]


_DAMAGES: tuple[Callable[[bytes, int, st.DrawFn], bytes], ...] = (
    *(_flip, _cut, _remove),
    *(_repeat, _insert),
)


@st.composite
def tree_of(draw: st.DrawFn, tree: Any) -> Any:
    """Change up to three values, keys or elements of a tree of mappings and lists."""
    tree = json.loads(json.dumps(tree))
    for _ in range(draw(st.integers(1, 3))):
        places = list(_places(tree))
        if not places:
            break
        holder, step = draw(st.sampled_from(places))
        _change(draw, holder, step)
    return tree


def _change(draw: st.DrawFn, holder: Any, step: Any) -> None:
    what = draw(st.sampled_from(("value", "wrap", "drop", "rename", "number")))
    value = holder[step]
    if what == "wrap":
        holder[step] = draw(st.sampled_from(([value], {"a": value}, [value, copy.deepcopy(value)])))
    elif what == "number" and type(value) in (int, float):
        holder[step] = draw(st.sampled_from((value + 1, value - 1, -value, value * 2**40)))
    elif what == "rename" and isinstance(holder, dict):
        holder[draw(st.sampled_from((*ODD_TEXTS, f"{step}s")))] = holder.pop(step)
    elif what == "drop":
        del holder[step]
    else:
        holder[step] = draw(ODD)


def _places(tree: Any) -> Iterator[tuple[Any, Any]]:
    if isinstance(tree, dict | list):
        for step in list(tree) if isinstance(tree, dict) else range(len(tree)):
            yield tree, step
            yield from _places(tree[step])


def json_of(tree: Any) -> st.SearchStrategy[bytes]:
    """Return JSON files that were about to hold ``tree``."""
    return tree_of(tree).map(_as_json) | bytes_of(_as_json(tree)) | twice_of(tree)


def yaml_of(tree: Any) -> st.SearchStrategy[bytes]:
    """Return YAML files that were about to hold ``tree``, in block and in flow style."""
    block = yaml.dump(tree, Dumper=_DUMPER, sort_keys=False).encode()
    return tree_of(tree).map(_as_json) | bytes_of(block) | twice_of(tree)


@st.composite
def twice_of(draw: st.DrawFn, tree: dict[str, Any]) -> bytes:
    """Give a key of the top level twice, with another value."""
    key = draw(st.sampled_from(sorted(tree)))
    again = f", {json.dumps(key)}: {json.dumps(draw(ODD))}}}"
    return _as_json(tree)[:-1] + again.encode()


@st.composite
def safetensors_of(draw: st.DrawFn, header: dict[str, Any], data: bytes) -> bytes:
    """Return safetensors files with a wrong header, length, or data."""
    text = draw(json_of(header) | st.just(_as_json(header)))
    odd = st.sampled_from((0, 1, len(text) - 1, 10**8, 10**8 + 1, 2**31, 2**63, 2**64 - 1))
    length = draw(st.just(len(text)) | st.just(len(text)) | odd)
    whole = struct.pack("<Q", max(length, 0)) + text + data
    return draw(st.just(whole) | bytes_of(whole))


def put(path: Path, content: bytes | str) -> Path:
    """Write bytes, or set up one of :data:`BAD_PLACES`, at ``path``."""
    if isinstance(content, bytes):
        path.write_bytes(content)
    elif content == "directory":
        path.mkdir()
    elif content == "pipe":
        os.mkfifo(path)
    elif content == "empty":
        path.touch()
    elif content != "absent":
        path.symlink_to(path if content == "loop" else path.with_suffix(".gone"))
    return path


def _as_json(tree: Any) -> bytes:
    return json.dumps(tree, ensure_ascii=False).encode("utf-8", "surrogatepass")


_DUMPER = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
