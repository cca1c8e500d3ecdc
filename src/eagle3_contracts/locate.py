"""YAML with places: what a file says, and where it says it.

Files are read by the core schema of YAML 1.2, so that what is pasted from a JSON file means the
same: ``1e6`` is a number, ``yes`` and ``2026-01-01`` are strings, and every key is a string.
"""

from __future__ import annotations

import gc
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from reprlib import Repr
from typing import Any

import yaml

from eagle3_contracts.errors import BadInput, Problem, raise_if_any
from eagle3_contracts.files import open_binary

MAX_BYTES = 64 * 2**20
"""Largest file that is read, in bytes."""
MAX_DEPTH = 100
"""Deepest nesting of mappings and sequences."""
MAX_ALIASED = 100_000
"""Most values that the aliases of a file may stand for, all together."""
MAX_REPORTED = 50
"""Most problems of one file that are reported: nobody corrects more in one go."""

Steps = Sequence[str | int]
"""Keys and indexes that lead to a value."""

_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_CONSTANTS: Mapping[str, Any] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
    **dict.fromkeys((".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF"), float("inf")),
    **dict.fromkeys(("-.inf", "-.Inf", "-.INF"), float("-inf")),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), float("nan")),
}
_INTEGER = re.compile(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_MAYBE_NO_STRING = frozenset(["", *"0123456789+-.~nNtTfF"])
_STRING_TAGS = ("!", "tag:yaml.org,2002:str")

_UNIT = r"(\S)"
_QUOTED_UNITS: Mapping[str, str] = {
    "'": r"(''|\S)",
    '"': r"\\[\stnrvNLP_]|(\\(?:x..|u.{4}|U.{8}|.)|\S)",
}
_SHORT = Repr()
_SHORT.maxstring = _SHORT.maxother = 60


@dataclass(frozen=True, slots=True)
class Document:
    """The mapping that a file holds, with the place of every value.

    ``source`` is the path as given; ``data`` holds values that JSON has, and NaN and infinities.
    Places are looked up in the order of ``data``, so it must be left as it is.
    """

    source: str
    data: Any
    text: str = field(repr=False)
    starts: Sequence[int] = field(repr=False)
    """Where in the text each key and each value begins, in the order of the text."""
    _places: dict[int, Any] = field(default_factory=dict, repr=False, compare=False)

    def place(self, path: Steps, offset: int = 0) -> tuple[int, int]:
        """Return line and column, counted from 1, of the value at ``path``.

        A step that leads nowhere is passed over, so that the place of an absent field is that of
        the mapping that lacks it. ``offset`` counts characters into a string as it was read,
        however it is quoted or folded in the file.
        """
        value, index = self.data, self.starts[0]
        for step in path:
            if has(value, step):
                index = self._places_in(value)[step][-1]
                value = value[step]
        if isinstance(value, str) and offset:
            index = _inside(self.text, index, value, offset)
        return _line_column(self.text, index)

    def key_place(self, path: Steps) -> tuple[int, int]:
        """Return line and column of the key that ends ``path``; KeyError if there is none."""
        value = self.data
        for step in path[:-1]:
            value = value[step] if has(value, step) else value
        return _line_column(self.text, self._places_in(value)[path[-1]][0])

    def problem(self, text: str, path: Steps, offset: int = 0) -> Problem:
        """Return a problem at the place of ``path``."""
        return Problem(self.source, text, *self.place(path, offset))

    def _places_in(self, value: Any) -> Any:
        """Return the places in a mapping: key -> (key, value), or in a sequence: (element,).

        They are found on the first demand, as nobody asks a right document for them.
        """
        if not self._places:
            with collector_paused():
                _find_places(self.data, islice(self.starts, 1, None), self._places)
        return self._places[id(value)]


def read_yaml(path: Path, kind: type[BadInput]) -> Document:
    """Return the mapping in the file at ``path``.

    Raises ``kind`` with the place of every mistake: a file that cannot be read, is larger than
    MAX_BYTES or is not UTF-8; text that is not YAML, or not one mapping; keys given twice; tags
    and merge keys; nesting deeper than MAX_DEPTH; aliases that stand for more than MAX_ALIASED
    values.
    """
    source = str(path)
    text = _read_text(path, kind)
    reader = _Reader(text)
    with collector_paused():
        data = reader.read()
    mistakes = reader.mistakes[:MAX_REPORTED]
    raise_if_any(kind, [Problem(source, what, *_line_column(text, at)) for what, at in mistakes])
    return Document(source, data, text, reader.starts)


@contextmanager
def collector_paused() -> Iterator[None]:
    """Spare the garbage collector its search through very many values that all stay."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def has(value: Any, step: str | int) -> bool:
    """Return whether ``value`` is a mapping or a sequence in which ``step`` leads to a value."""
    if isinstance(value, dict):
        return step in value
    return isinstance(value, list) and isinstance(step, int) and 0 <= step < len(value)


def shown(value: Any) -> str:
    """Return a value as the files spell it, shortened to what fits into a sentence."""
    words = {None: "null", True: "true", False: "false"}
    return words[value] if value is None or isinstance(value, bool) else _SHORT.repr(value)


class _RefusedError(Exception):
    """A text that cannot be read on, and the index of the character where."""

    def __init__(self, text: str, index: int) -> None:
        super().__init__(text)
        self.text = text
        self.index = index


def _read_text(path: Path, kind: type[BadInput]) -> str:
    source = str(path)
    with open_binary(path, kind) as file:
        data = file.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise kind(Problem(source, f"is larger than {MAX_BYTES} bytes; no more are read"))
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = error.object[: error.start].decode("utf-8", "replace")
        text = f"not UTF-8: byte 0x{error.object[error.start]:02x}; save the file as UTF-8"
        raise kind(Problem(source, text, *_line_column(before, len(before)))) from error


class _Reader:
    """Turns the stream of parser events into values; MAX_DEPTH bounds its recursion."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.starts: list[int] = []
        self.mistakes: list[tuple[str, int]] = []
        self._next: Callable[[], Any] = _LOADER(text).get_event
        self._readers: Mapping[type, Callable[[Any], Any]] = {
            yaml.ScalarEvent: self._scalar,
            yaml.MappingStartEvent: self._container,
            yaml.SequenceStartEvent: self._container,
            yaml.AliasEvent: self._alias,
        }
        self._anchors: dict[str, tuple[Any, int]] = {}
        self._depth = self._count = self._aliased = 0

    def read(self) -> Any:
        """Return the one mapping of the text, or None with at least one mistake noted."""
        try:
            return self._root()
        except _RefusedError as refused:
            self.mistakes.append((refused.text, refused.index))
        except yaml.YAMLError as error:
            self.mistakes.append(_not_yaml(error, self.text))
        return None

    def _root(self) -> Any:
        documents: list[Any] = []
        while (event := self._next()) is not None:
            reader = self._readers.get(type(event))
            if reader and documents:
                said = "a second document begins here; one file holds one"
                raise _RefusedError(said, event.start_mark.index)
            if reader:
                documents.append(reader(event))
        if not documents or documents == [None]:
            raise _RefusedError("is empty; it must hold a mapping of fields to values", 0)
        if not isinstance(documents[0], dict):
            said = f"must hold a mapping of fields to values, not {shown(documents[0])}"
            raise _RefusedError(said, self.starts[0])
        return documents[0]

    def _container(self, event: Any) -> Any:
        index = event.start_mark.index
        self.starts.append(index)
        if event.tag is not None:
            raise _RefusedError(f"the tag {event.tag!r} means nothing here; leave it out", index)
        if self._depth == MAX_DEPTH:
            raise _RefusedError(f"nested deeper than {MAX_DEPTH} levels", index)
        before = self._count
        self._count += 1
        self._depth += 1
        value = self._mapping() if type(event) is yaml.MappingStartEvent else self._sequence()
        self._depth -= 1
        if event.anchor is not None:
            self._anchors[event.anchor] = (value, self._count - before)
        return value

    def _mapping(self) -> dict[str, Any]:
        value = {}
        keys: dict[str, int] = {}
        while type(event := self._next()) is not yaml.MappingEndEvent:
            key = self._key(event, keys)
            event = self._next()
            value[key] = self._readers[type(event)](event)
        return value

    def _sequence(self) -> list[Any]:
        value = []
        while type(event := self._next()) is not yaml.SequenceEndEvent:
            value.append(self._readers[type(event)](event))
        return value

    def _key(self, event: Any, before: dict[str, int]) -> str:
        index = event.start_mark.index
        self.starts.append(index)
        if type(event) is not yaml.ScalarEvent:
            is_alias = type(event) is yaml.AliasEvent
            said = "an alias" if is_alias else "a mapping or a sequence"
            raise _RefusedError(f"a key must be a string, not {said}", index)
        key: str = event.value
        if key in before:
            line, _ = _line_column(self.text, before[key])
            said = f"'{key}' is given twice, first in line {line}; keep one of them"
            self.mistakes.append((said, index))
        elif key == "<<" and event.implicit[0]:
            self.mistakes.append(("merge keys (<<) are not read; write the fields out", index))
        before[key] = index
        return key

    def _scalar(self, event: Any) -> Any:
        index = event.start_mark.index
        self.starts.append(index)
        value, tag = event.value, event.tag
        if tag is None:
            if value[:1] in _MAYBE_NO_STRING and event.implicit[0]:
                value = self._plain(value, index)
        elif tag not in _STRING_TAGS:
            raise _RefusedError(f"the tag {tag!r} means nothing here; leave it out", index)
        self._count += 1
        if event.anchor is not None:
            self._anchors[event.anchor] = (value, 1)
        return value

    def _plain(self, text: str, index: int) -> Any:
        if text in _CONSTANTS:
            return _CONSTANTS[text]
        if not _INTEGER.fullmatch(text):
            return float(text) if _FLOAT.fullmatch(text) else text
        try:
            return int(text, 0 if text[1:2] in ("o", "x") else 10)
        except ValueError:
            said = f"a number of {len(text)} digits is longer than any that can be meant"
            self.mistakes.append((said, index))
            return 0

    def _alias(self, event: Any) -> Any:
        index = event.start_mark.index
        self.starts.append(index)
        if event.anchor not in self._anchors:
            said = f"*{event.anchor} stands for nothing: no &{event.anchor} ends before it"
            raise _RefusedError(said, index)
        value, size = self._anchors[event.anchor]
        self._aliased += size
        self._count += size
        if self._aliased > MAX_ALIASED:
            raise _RefusedError(f"the aliases stand for more than {MAX_ALIASED} values", index)
        return value


def _find_places(value: Any, starts: Iterator[int], places: dict[int, Any]) -> None:
    """Hand the ``starts`` out, in the order of the text, to all that is in ``value``."""
    is_alias = id(value) in places  # what it stands for has its places already
    if is_alias or not isinstance(value, (dict, list)):
        return
    inside: Any = {}
    places[id(value)] = inside
    for step, inner in value.items() if isinstance(value, dict) else enumerate(value):
        inside[step] = tuple(islice(starts, 2 if isinstance(value, dict) else 1))
        _find_places(inner, starts, places)


def _not_yaml(error: yaml.YAMLError, text: str) -> tuple[str, int]:
    """Return what the parser has to say, without its words for the position, and the index."""
    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark is not None:
        context = f" {error.context}" if error.context else ""
        return f"not YAML: {error.problem}{context}", error.problem_mark.index
    before = text.encode()[: getattr(error, "position", 0)].decode(errors="ignore")
    character = text[len(before) : len(before) + 1]
    return f"not YAML: the character {character!r} is not allowed", len(before)


def _line_column(text: str, index: int) -> tuple[int, int]:
    return text.count("\n", 0, index) + 1, index - text.rfind("\n", 0, index)


def _inside(text: str, index: int, value: str, offset: int) -> int:
    """Return where in ``text`` character ``offset`` of the string at ``index`` stands.

    Quoting and folding change white space and write some characters as two; every other
    character stands for itself, so characters that are no white space are counted off.
    """
    style = text[index]
    if style in "|>":
        index = text.find("\n", index)
    index += style in "|>'\""
    units = re.compile(_QUOTED_UNITS.get(style, _UNIT)).finditer(text, index)
    wanted = len("".join(value[:offset].split()))
    at_end = not value[offset:].strip()
    counted = (unit for unit in units if unit.group(1))
    unit = next(islice(counted, max(wanted - at_end, 0), None))
    return unit.end(1) if at_end else unit.start(1)
