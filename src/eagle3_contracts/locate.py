"""YAML with places: what a file says, and where it says it.

Files are read by the core schema of YAML 1.2, so that what is pasted from a JSON file means the
same: ``1e6`` is a number, ``yes`` and ``2026-01-01`` are strings, and every key is a string.
"""

from __future__ import annotations

import gc
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from reprlib import Repr
from typing import Annotated, Any, TypeVar, get_args, get_origin

import yaml
from pydantic import BaseModel, ValidationError

from eagle3_contracts.errors import BadInput, Problem, did_you_mean, raise_if_any

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
M = TypeVar("M", bound=BaseModel)

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

_UNIT = re.compile(r"(\S)")
_QUOTED_UNITS: Mapping[str, re.Pattern[str]] = {
    "'": re.compile(r"(''|\S)"),
    '"': re.compile(r"\\[\stnrvNLP_]|(\\(?:x..|u.{4}|U.{8}|.)|\S)"),
}
_SHORT = Repr()
_SHORT.maxstring = _SHORT.maxother = 60


@dataclass(frozen=True, slots=True)
class Document:
    """The mapping that a file holds, with the place of every value.

    ``source`` is the path as given; ``data`` holds values that JSON has, and NaN and infinities.
    """

    source: str
    data: Any
    text: str = field(repr=False)
    start: int = field(repr=False)
    """Index of the outermost mapping in the text."""
    starts: Mapping[int, Any] = field(repr=False)
    """By id of a mapping: key -> index of the key, of the value; of a sequence: the indexes."""

    def place(self, path: Steps, offset: int = 0) -> tuple[int, int]:
        """Return line and column, counted from 1, of the value at ``path``.

        A step that leads nowhere is passed over, so that the place of an absent field is that of
        the mapping that lacks it. ``offset`` counts characters into a string as it was read,
        however it is quoted or folded in the file.
        """
        value, index = self.data, self.start
        for step in path:
            if _has(value, step):
                known = self.starts[id(value)][step]
                index = known[1] if isinstance(value, dict) else known
                value = value[step]
        if isinstance(value, str) and offset:
            index = _inside(self.text, index, value, offset)
        return _line_column(self.text, index)

    def key_place(self, path: Steps) -> tuple[int, int]:
        """Return line and column of the key that ends ``path``; KeyError if there is none."""
        value = self.data
        for step in path[:-1]:
            value = value[step] if _has(value, step) else value
        return _line_column(self.text, self.starts[id(value)][path[-1]][0])

    def problem(self, text: str, path: Steps, offset: int = 0) -> Problem:
        """Return a problem at the place of ``path``."""
        return Problem(self.source, text, *self.place(path, offset))


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
    with _collector_paused():
        data = reader.read()
    mistakes = reader.mistakes[:MAX_REPORTED]
    raise_if_any(kind, [Problem(source, what, *_line_column(text, at)) for what, at in mistakes])
    return Document(source, data, text, reader.starts[0], reader.starts)


@contextmanager
def _collector_paused() -> Iterator[None]:
    """Spare the garbage collector the search through values that all stay: a third of the time."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def validate(model: type[M], document: Document) -> tuple[M | None, list[Problem]]:
    """Return the document as a ``model``, or None and every mistake with its place."""
    try:
        with _collector_paused():
            return model.model_validate(document.data), []
    except ValidationError as error:
        errors = _best_branches(error.errors(include_url=False), document.data)
    shown = errors[:MAX_REPORTED]
    problems = [_problem(model, document, error) for error in shown]
    if len(errors) > len(shown):
        problems.append(Problem(document.source, f"and {len(errors) - len(shown)} more mistakes"))
    return None, problems


class _RefusedError(Exception):
    """A text that cannot be read on, and the index of the character where."""

    def __init__(self, text: str, index: int) -> None:
        super().__init__(text)
        self.text = text
        self.index = index


def _read_text(path: Path, kind: type[BadInput]) -> str:
    source = str(path)
    try:
        size = path.stat().st_size
        if size > MAX_BYTES:
            raise kind(Problem(source, f"holds {size} bytes; at most {MAX_BYTES} are read"))
        data = path.read_bytes()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise kind(Problem(source, f"cannot be read: {reason}")) from error
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = error.object[: error.start].decode("utf-8", "replace")
        text = f"not UTF-8: byte 0x{error.object[error.start]:02x}; save the file as UTF-8"
        raise kind(Problem(source, text, *_line_column(before, len(before)))) from error


class _Reader:
    """Turns the flat stream of parser events into values, without recursion."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.starts: dict[int, Any] = {}
        self.mistakes: list[tuple[str, int]] = []
        self._value: Any = []  # the innermost open mapping or sequence, here that of documents
        self._places: Any = []
        self._key: tuple[str, int] | None = None
        self._outer: list[tuple[Any, Any, str | None, int]] = []
        self._anchors: dict[str, tuple[Any, int]] = {}
        self._count = self._aliased = 0

    def read(self) -> Any:
        """Return the one mapping of the text, or None with at least one mistake noted."""
        handlers = {
            yaml.ScalarEvent: self._scalar,
            yaml.MappingStartEvent: self._begin,
            yaml.SequenceStartEvent: self._begin,
            yaml.MappingEndEvent: self._end,
            yaml.SequenceEndEvent: self._end,
            yaml.AliasEvent: self._alias,
        }
        events: Iterable[Any] = yaml.parse(self.text, Loader=_LOADER)
        try:
            for event in events:
                if handler := handlers.get(type(event)):
                    handler(event, event.start_mark.index)
            return self._root()
        except _RefusedError as refused:
            self.mistakes.append((refused.text, refused.index))
        except yaml.YAMLError as error:
            self.mistakes.append(_not_yaml(error, self.text))
        return None

    def _root(self) -> Any:
        documents, indexes = self._value, self._places
        if not documents or documents == [None]:
            raise _RefusedError("is empty; it must hold a mapping of fields to values", 0)
        if len(documents) > 1:
            raise _RefusedError("a second document begins here; one file holds one", indexes[1])
        if not isinstance(documents[0], dict):
            said = f"must hold a mapping of fields to values, not {_shown(documents[0])}"
            raise _RefusedError(said, indexes[0])
        self.starts[0] = indexes[0]
        return documents[0]

    def _scalar(self, event: Any, index: int) -> None:
        text, key = event.value, self._key
        if key is None and type(self._value) is dict:
            if text in self._places or text == "<<":
                self._check_key(event, index)
            self._key = (text, index)
            return
        value, tag = text, event.tag
        if tag is None:
            if text[:1] in _MAYBE_NO_STRING and event.implicit[0]:
                value = self._plain(text, index)
        elif tag not in _STRING_TAGS:
            raise _RefusedError(f"the tag {tag!r} means nothing here; leave it out", index)
        self._count += 1
        if event.anchor is not None:
            self._anchors[event.anchor] = (value, 1)
        self._put(value, index)

    def _check_key(self, event: Any, index: int) -> None:
        if event.value in self._places:
            line, _ = _line_column(self.text, self._places[event.value][0])
            said = f"'{event.value}' is given twice, first in line {line}; keep one of them"
            self.mistakes.append((said, index))
        elif event.implicit[0]:
            self.mistakes.append(("merge keys (<<) are not read; write the fields out", index))

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

    def _begin(self, event: Any, index: int) -> None:
        if self._key is None and type(self._value) is dict:
            raise _RefusedError("a key must be a string, not a mapping or a sequence", index)
        if event.tag is not None:
            raise _RefusedError(f"the tag {event.tag!r} means nothing here; leave it out", index)
        if len(self._outer) >= MAX_DEPTH:
            raise _RefusedError(f"nested deeper than {MAX_DEPTH} levels", index)
        value: Any = {} if type(event) is yaml.MappingStartEvent else []
        self._put(value, index)
        self._outer.append((self._value, self._places, event.anchor, self._count))
        self._count += 1
        self._value = value
        self._places = self.starts[id(value)] = type(value)()

    def _end(self, _event: Any, _index: int) -> None:
        value = self._value
        self._value, self._places, anchor, before = self._outer.pop()
        if anchor is not None:
            self._anchors[anchor] = (value, self._count - before)

    def _alias(self, event: Any, index: int) -> None:
        if self._key is None and type(self._value) is dict:
            raise _RefusedError("a key must be a string, not an alias", index)
        if event.anchor not in self._anchors:
            said = f"*{event.anchor} stands for nothing: no &{event.anchor} ends before it"
            raise _RefusedError(said, index)
        value, size = self._anchors[event.anchor]
        self._aliased += size
        self._count += size
        if self._aliased > MAX_ALIASED:
            raise _RefusedError(f"the aliases stand for more than {MAX_ALIASED} values", index)
        self._put(value, index)

    def _put(self, value: Any, index: int) -> None:
        if self._key is None:
            self._value.append(value)
            self._places.append(index)
        else:
            key, at = self._key
            self._value[key] = value
            self._places[key] = (at, index)
            self._key = None


def _not_yaml(error: yaml.YAMLError, text: str) -> tuple[str, int]:
    """Return what the parser has to say, without its words for the position, and the index."""
    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark is not None:
        context = f" {error.context}" if error.context else ""
        return f"not YAML: {error.problem}{context}", error.problem_mark.index
    before = text.encode()[: getattr(error, "position", 0)].decode(errors="ignore")
    character = text[len(before) : len(before) + 1]
    return f"not YAML: the character {character!r} is not allowed", len(before)


def _has(value: Any, step: str | int) -> bool:
    if isinstance(value, dict):
        return step in value
    return isinstance(value, list) and isinstance(step, int) and 0 <= step < len(value)


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
    units = _QUOTED_UNITS.get(style, _UNIT).finditer(text, index)
    wanted = len("".join(value[:offset].split()))
    at_end = not value[offset:].strip()
    counted = (unit for unit in units if unit.group(1))
    unit = next(islice(counted, max(wanted - at_end, 0), None))
    return unit.end(1) if at_end else unit.start(1)


def _best_branches(errors: Sequence[Any], data: Any) -> list[Any]:
    """Leave out the errors of all but the best-fitting branch of each union.

    Also those about the length of a list with wrong elements: only right ones are counted there.
    """
    above = {error["loc"][:depth] for error in errors for depth in range(len(error["loc"]))}
    errors = [e for e in errors if e["type"] != "too_short" or e["loc"] not in above]
    branches = [_branch(data, error) for error in errors]
    counts = Counter(branch for branch in branches if branch)
    best: dict[Any, Any] = {}
    for where, tag in counts:
        if where not in best or counts[where, tag] < counts[where, best[where]]:
            best[where] = tag
    return [
        error
        for error, branch in zip(errors, branches, strict=True)
        if branch is None or best[branch[0]] == branch[1]
    ]


def _branch(data: Any, error: Any) -> tuple[Steps, str | int] | None:
    """Return where a union stands and which branch of it the error is about, or None."""
    for depth, step in enumerate(error["loc"]):
        if not _has(data, step):
            is_field = error["type"] == "missing" and depth == len(error["loc"]) - 1
            return None if is_field else (error["loc"][:depth], step)
        data = data[step]
    return None


def _problem(model: type[BaseModel], document: Document, error: Any) -> Problem:
    path = error["loc"]
    if error["type"] == "extra_forbidden":
        known = _fields_at(model, path[:-1])
        hint = did_you_mean(path[-1], known) or f"; known are {', '.join(sorted(known))}"
        text = f"unknown field '{path[-1]}'{hint}"
        return Problem(document.source, text, *document.key_place(path))
    return document.problem(_say(error), path)


def _say(error: Any) -> str:
    """Return what is wrong with a value: what is allowed, what was given, and a hint."""
    label, given, allowed = _label(error["loc"]), error["input"], error["msg"]
    if error["type"] == "missing":
        return f"'{error['loc'][-1]}' is missing"
    said = f"{label} {re.sub(r'^[A-Z][a-z]+ should', 'must', allowed)}"
    if ", not " in said:
        return said.replace(" after validation", "")
    hint = ""
    if error["type"] in ("literal_error", "enum") and isinstance(given, str):
        hint = did_you_mean(given, re.findall(r"'([^']*)'", allowed))
    elif error["type"] == "string_type" and not isinstance(given, (dict, list, type(None))):
        hint = "; put it in quotes"
    return f"{said}, not {_shown(given)}{hint}"


def _label(path: Steps) -> str:
    """Return the last field of ``path``, with the indexes behind it."""
    names = [at for at, step in enumerate(path) if isinstance(step, str) and "[" not in step]
    last = names[-1] if names else 0
    return f"{path[last]}{''.join(f'[{s}]' for s in path[last + 1 :] if isinstance(s, int))}"


def _shown(value: Any) -> str:
    words = {None: "null", True: "true", False: "false"}
    return words[value] if value is None or isinstance(value, bool) else _SHORT.repr(value)


def _fields_at(model: Any, path: Steps) -> list[str]:
    """Return the names of the fields of the model that ``path`` leads to."""
    for step in path:
        model = next((m for kind in _options(model) if (m := _member(kind, step))), model)
    return [name for kind in _options(model) for name in getattr(kind, "model_fields", ())]


def _options(kind: Any) -> list[Any]:
    """Return the types that a hint allows, one by one."""
    if get_origin(kind) is Annotated:
        return _options(get_args(kind)[0])
    if get_origin(kind) in (dict, list, tuple, None):
        return [kind]
    return [option for part in get_args(kind) for option in _options(part)]


def _member(kind: Any, step: str | int) -> Any:
    """Return the type of a field, value or element of ``kind``; None if it has none such."""
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        found = kind.model_fields.get(str(step))
        return found and found.annotation
    inner = [part for part in get_args(kind) if part is not Ellipsis]
    return inner[-1] if inner else None
