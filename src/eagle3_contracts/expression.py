"""Reading a CEL expression against the types of the facts.

The library that evaluates CEL gives no syntax tree. So that a contract file with an unknown name
or a wrong type is refused before anything runs, each expression that it accepts is read here a
second time.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from types import GenericAlias, NoneType, UnionType
from typing import Any, Union, get_args, get_origin

from eagle3_contracts.errors import did_you_mean
from eagle3_contracts.facts import GROUPS, field_types

Found = tuple[int, str]
"""A mistake in an expression: offset of a character, and what is wrong there."""

_WORDS: Mapping[Any, str] = {
    **{bool: "bool", int: "int", float: "double", str: "string", list: "list", dict: "map"},
    **{NoneType: "null", Any: "any"},
}
_NUMBERS = {int, float}
_ORDERED = (int, float, str, bool)
_OPERATORS: Mapping[str, tuple[int, tuple[Any, ...], Any]] = {
    "||": (0, (bool,), bool),
    "&&": (1, (bool,), bool),
    **dict.fromkeys(("==", "!="), (2, (), bool)),
    **dict.fromkeys(("<", "<=", ">", ">="), (2, _ORDERED, bool)),
    "in": (2, (list, dict), bool),
    "+": (3, (int, float, str, list), None),
    **{sign: (rank, (int, float), None) for sign, rank in (("-", 3), ("*", 4), ("/", 4))},
    "%": (4, (int,), None),
}
"""Rank of each operator, the types it takes (none: all) and gives (None: that of its operands)."""
_UNARY: Mapping[str, tuple[Any, ...]] = {"!": (bool,), "-": (int, float)}
_MACROS = {"all": (1,), "exists": (1,), "exists_one": (1,), "filter": (1,), "map": (1, 2)}
_LITERALS = {"text": str, "float": float, "int": int}
_CONSTANTS = {"true": bool, "false": bool, "null": NoneType}
_TOKEN = re.compile(
    r"""[ \t\r\n\f]+ | //[^\n]*
    | (?P<text>[rR](?:'[^']*'|"[^"]*")|\'{3}.*?\'{3}|"{3}.*?"{3}
              |'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*")
    | (?P<float>\d*\.\d+(?:[eE][-+]?\d+)?|\d+[eE][-+]?\d+)
    | (?P<int>0x[0-9a-fA-F]+|\d+)
    | (?P<name>[A-Za-z_]\w*)
    | (?P<sign>&&|\|\||[=!<>]=|.)""",
    re.VERBOSE | re.DOTALL,
)


class RuleSyntaxError(Exception):
    """A text that is not an expression; ``offset`` is the index of the character where."""

    def __init__(self, text: str, offset: int) -> None:
        super().__init__(text)
        self.text = text
        self.offset = offset


@dataclass(frozen=True, slots=True)
class Function:
    """A function that expressions may call, as ``f(x, y)`` or as ``x.f(y)``."""

    doc: str
    takes: tuple[tuple[Any, ...], ...]
    """Types that each argument may have."""
    gives: Any
    """Type of the result; None: that of the first argument."""
    call: Callable[..., Any] | None = None
    """What computes it; None: CEL itself."""
    is_method: bool = False
    """It is called as ``x.f(y)`` only."""


@dataclass(frozen=True, slots=True)
class Reading:
    """What an expression names and calls, and of what type its value is."""

    names: tuple[tuple[int, str, str], ...]
    """Offset, group and field of everything it names."""
    called: frozenset[str]
    """Functions that it calls."""
    gives: Any
    """Type of its value as far as known; Any: unknown."""
    unknown: tuple[Found, ...]
    """Unknown groups, fields and functions."""
    mistyped: tuple[Found, ...]
    """Operations on values of the wrong type."""


def read_expression(source: str, functions: Mapping[str, Function]) -> Reading:
    """Read an expression that the library has accepted and that may call ``functions``.

    Raises RuleSyntaxError for CEL that contracts do not use.
    """
    reader = _Reader(source, functions)
    gives = reader.read()
    return Reading(
        names=tuple(reader.names),
        called=frozenset(reader.called),
        gives=gives,
        unknown=tuple(reader.unknown),
        mistyped=tuple(reader.mistyped),
    )


def alike(left: Any, right: Any) -> bool:
    """Return whether values of the two types can be equal."""
    if Any in (left, right) or NoneType in (left, right) or {left, right} == {int, float}:
        return True
    if _base(left) is _base(right) is list:
        return alike(_inner(left)[0], _inner(right)[0])
    return left == right or _base(left) is _base(right) is dict


def type_name(kind: Any) -> str:
    """Return a type as contracts name it: ``int``, ``list of string``."""
    inner = [type_name(part) for part in get_args(kind)]
    return _WORDS[_base(kind)] + (f" of {inner[-1]}" if inner and inner[-1] != "any" else "")


class _Reader:
    """Reads an expression that the library has accepted: which facts it names, of what type.

    Every method that reads a part returns the type of its value; Any where it is not known, which
    fits everywhere.
    """

    def __init__(self, source: str, functions: Mapping[str, Function]) -> None:
        self.names: list[tuple[int, str, str]] = []
        self.unknown: list[Found] = []
        self.mistyped: list[Found] = []
        self.called: set[str] = set()
        self._functions = functions
        self._bound: list[tuple[str, Any]] = []
        self._tokens = [
            (m.lastgroup, m[0], m.start()) for m in _TOKEN.finditer(source) if m.lastgroup
        ]
        self._tokens.append(("end", "", len(source)))
        self._tokens.reverse()

    def read(self) -> Any:
        """Read all of the expression; RuleSyntaxError for CEL that contracts do not use."""
        gives = self._expression()
        self._expect("")
        return gives

    @property
    def _text(self) -> str:
        return self._tokens[-1][1]

    def _take(self) -> tuple[str | None, str, int]:
        return self._tokens.pop() if len(self._tokens) > 1 else self._tokens[0]

    def _accept(self, text: str) -> bool:
        return self._text == text and bool(self._take())

    def _expect(self, text: str) -> None:
        _, found, at = self._take()
        if found != text:
            raise RuleSyntaxError(f"contracts do not use '{found}' in this way", at)

    def _expression(self) -> Any:
        at = self._tokens[-1][2]
        kind = self._binary(0)
        if not self._accept("?"):
            return kind
        self._fit(alike(kind, bool), at, f"'?' needs bool, not {type_name(kind)}")
        first = self._binary(0)
        self._expect(":")
        return self._common([first, self._expression()], at)

    def _binary(self, floor: int) -> Any:
        left = self._unary()
        while self._text in _OPERATORS and _OPERATORS[self._text][0] >= floor:
            _, sign, at = self._take()
            rank, takes, gives = _OPERATORS[sign]
            right = self._binary(rank + 1)
            if not _operable(sign, takes, left, right):
                self.mistyped.append((at, _misfit(sign, left, right)))
            left = gives or (right if left is Any else left)
        return left

    def _unary(self) -> Any:
        signs = []
        while self._text in _UNARY:
            signs.append(self._take())
        kind = self._member()
        for _, sign, at in reversed(signs):
            fits = kind in (*_UNARY[sign], Any)
            self._fit(fits, at, f"'{sign}' does not go with {type_name(kind)}")
        return kind

    def _member(self) -> Any:
        kind = self._primary()
        while self._text in (".", "["):
            if self._accept("."):
                _, name, at = self._take()
                called = self._text == "("
                kind = self._call(name, at, [kind]) if called else self._field(kind, name, at)
            else:
                _, _, at = self._take()
                kind = self._item(kind, self._expression(), at)
                self._expect("]")
        return kind

    def _primary(self) -> Any:
        token, text, at = self._take()
        if token in _LITERALS:
            return _LITERALS[token]
        if text in _CONSTANTS:
            return _CONSTANTS[text]
        if token == "name":
            return self._call(text, at, []) if self._text == "(" else self._variable(text, at)
        if text == "(":
            kind = self._expression()
            self._expect(")")
            return kind
        if text == "[":
            return GenericAlias(list, (self._common(self._list("]"), at),))
        if text == "{":
            pairs = self._list("}", pairs=True)
            inner = (self._common(pairs[::2], at), self._common(pairs[1::2], at))
            return GenericAlias(dict, inner)
        raise RuleSyntaxError(f"contracts do not use '{text}' in this way", at)

    def _list(self, end: str, pairs: bool = False) -> list[Any]:
        kinds = []
        while not self._accept(end):
            kinds.append(self._expression())
            if pairs:
                self._expect(":")
                kinds.append(self._expression())
            if self._text != end:
                self._expect(",")
        return kinds

    def _common(self, kinds: Sequence[Any], at: int) -> Any:
        first = next((kind for kind in kinds if kind not in (Any, NoneType)), Any)
        fits = all(alike(kind, first) and {kind, first} != _NUMBERS for kind in kinds)
        words = " and ".join(dict.fromkeys(map(type_name, kinds)))
        self._fit(fits, at, f"one value is of the types {words}")
        return first if fits else Any

    def _variable(self, name: str, at: int) -> Any:
        for bound, kind in reversed(self._bound):
            if bound == name:
                return kind
        if name not in GROUPS:
            known = [*GROUPS, "true", "false", "null"]
            hint = did_you_mean(name, known) or f"; known are {', '.join(sorted(GROUPS))}"
            self.unknown.append((at, f"unknown name '{name}'{hint}"))
            return Any
        if self._accept("."):
            return self._fact(name, at)
        self.mistyped.append((at, f"'{name}' is a group of facts; name one of its fields"))
        return Any

    def _fact(self, group: str, at: int) -> Any:
        _, name, place = self._take()
        known = _kinds(group)
        self.names.append((at, group, name))
        if name not in known:
            hint = did_you_mean(name, known) or f"; known are {', '.join(sorted(known))}"
            self.unknown.append((place, f"unknown fact '{group}.{name}'{hint}"))
        return known.get(name, Any)

    def _field(self, kind: Any, name: str, at: int) -> Any:
        self._fit(_base(kind) in (dict, Any), at, f"{type_name(kind)} has no field '{name}'")
        return _inner(kind)[-1]

    def _item(self, kind: Any, key: Any, at: int) -> Any:
        keys = {list: (int, Any), dict: (str, Any), Any: (key,)}.get(_base(kind), ())
        self._fit(key in keys, at, f"{type_name(kind)} has no element by {type_name(key)}")
        return _inner(kind)[-1]

    def _call(self, name: str, at: int, receiver: list[Any]) -> Any:
        self._expect("(")
        if receiver and name in _MACROS:
            return self._macro(name, at, receiver[0])
        function = self._functions.get(name)
        if function is None:
            hint = did_you_mean(name, [*self._functions, *_MACROS])
            self.unknown.append((at, f"unknown function '{name}'{hint}"))
        kinds = receiver + self._list(")")
        if function is None:
            return Any
        self.called.add(name)
        self._check_arguments(name, at, function, kinds)
        is_right = bool(receiver) or not function.is_method
        self._fit(is_right, at, f"write x.{name}(y), not {name}(x, y)")
        return function.gives or next(iter(kinds), Any)

    def _check_arguments(self, name: str, at: int, function: Function, kinds: list[Any]) -> None:
        fits = len(kinds) == len(function.takes) and all(
            _base(kind) in (*takes, Any) or Any in takes
            for kind, takes in zip(kinds, function.takes, strict=True)
        )
        if not fits:
            wants = ", ".join(" or ".join(map(type_name, takes)) for takes in function.takes)
            given = ", ".join(map(type_name, kinds)) or "nothing"
            self.mistyped.append((at, f"{name}() takes {wants}, not {given}"))

    def _macro(self, name: str, at: int, over: Any) -> Any:
        self._fit(_base(over) in (list, dict, Any), at, f"{type_name(over)} has no {name}()")
        _, variable, _ = self._take()
        self._expect(",")
        self._bound.append((variable, _inner(over)[0]))
        kinds = self._list(")")
        self._bound.pop()
        conditions = kinds[:-1] if name == "map" else kinds
        fits = len(kinds) in _MACROS[name] and all(alike(kind, bool) for kind in conditions)
        self._fit(fits, at, f"{name}() takes a name and a condition of type bool")
        if name == "map":
            return GenericAlias(list, (kinds[-1] if kinds else Any,))
        return GenericAlias(list, (_inner(over)[0],)) if name == "filter" else bool

    def _fit(self, fits: bool, at: int, text: str) -> None:
        if not fits:
            self.mistyped.append((at, text))


@cache
def _kinds(group: str) -> dict[str, Any]:
    """Return the type of every field of ``group``, null left out."""
    return {name: _not_null(hint) for name, hint in field_types(group).items()}


def _not_null(hint: Any) -> Any:
    if _base(hint) in (UnionType, Union):
        rest = [part for part in get_args(hint) if part is not NoneType]
        return _not_null(rest[0]) if len(rest) == 1 else Any
    return hint if _base(hint) in _WORDS else Any


def _base(kind: Any) -> Any:
    return get_origin(kind) or kind


def _inner(kind: Any) -> tuple[Any, ...]:
    return get_args(kind) or (Any,)


def _operable(sign: str, takes: tuple[Any, ...], left: Any, right: Any) -> bool:
    if sign == "in":
        inner = _inner(right)[0]
        return _base(right) in (*takes, Any) and alike(left, inner) and {left, inner} != _NUMBERS
    if takes and not all(_base(kind) in (*takes, Any) for kind in (left, right)):
        return False
    is_arithmetic = sign in "+-*/%"
    return alike(left, right) and not (is_arithmetic and {left, right} == _NUMBERS)


def _misfit(sign: str, left: Any, right: Any) -> str:
    hint = "; write double(x)" if {left, right} == _NUMBERS else ""
    return f"'{sign}' does not go with {type_name(left)} and {type_name(right)}{hint}"
