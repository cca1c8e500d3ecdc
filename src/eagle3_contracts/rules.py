"""Rules: CEL expressions over facts, and texts with such expressions in them.

The library that evaluates CEL gives no syntax tree. So that a contract file with an unknown name
or a wrong type is refused before anything runs, each expression that it accepts is read here a
second time, against the types of the facts.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.machinery import PathFinder
from importlib.util import find_spec, module_from_spec
from types import GenericAlias, NoneType, UnionType
from typing import Any, Union, get_args, get_origin

from eagle3_contracts.errors import did_you_mean
from eagle3_contracts.facts import GROUPS, field_types

Variables = Mapping[str, Mapping[str, Any]]
"""Facts by group and field; see :func:`eagle3_contracts.facts.as_variables`."""
Found = tuple[int, str]
"""A mistake in an expression: offset of a character, and what is wrong there."""

MAX_LENGTH = 4000
"""Characters of one expression; longer ones are better split into two contracts."""

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
_PIECE = re.compile(r"""\{\{((?:'[^']*'|"[^"]*"|[^'"])*?)\}\}""")
_UNEXPECTED = re.compile(
    r"(?:mismatched input|extraneous input|token recognition error at:"
    r"|no viable alternative at input) (.*)"
)
_SLIPS = {"and": "&&", "or": "||", "not": "!", "=": "=="}


class RuleError(Exception):
    """An expression that these facts do not allow to evaluate: a null, an absent key."""


class RuleSyntaxError(Exception):
    """A text that is not an expression; ``offset`` is the index of the character where."""

    def __init__(self, text: str, offset: int) -> None:
        super().__init__(text)
        self.text = text
        self.offset = offset


def shown(value: Any) -> str:
    """Return a value as reports print it: ``none``, ``true``, ``[2, 30, 58]``, ``0.03125``."""
    if value is None or isinstance(value, bool):
        return {None: "none", True: "true", False: "false"}[value]
    if isinstance(value, float):
        return f"{value:.7g}"
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(shown, value))}]"
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{key}: {shown(v)}' for key, v in value.items())}}}"
    return str(value)


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


_TEXTS = ((str,), (str,))
_ANYTHING = (Any,)
FUNCTIONS: Mapping[str, Function] = {
    "size": Function("number of elements, keys or characters", ((str, list, dict),), int),
    "int": Function("as a whole number", ((int, float, str),), int),
    "double": Function("as a number with a fraction", ((int, float, str),), float),
    "contains": Function("x.contains(y): y is part of the string x", _TEXTS, bool),
    "startsWith": Function("x.startsWith(y): the string x begins with y", _TEXTS, bool),
    "endsWith": Function("x.endsWith(y): the string x ends with y", _TEXTS, bool),
    "matches": Function("x.matches(y): the regular expression y is found in x", _TEXTS, bool),
    "string": Function("as messages print it", (_ANYTHING,), str, shown),
    "distinct": Function(
        "without repetitions, in order", ((list,),), None, lambda items: list(dict.fromkeys(items))
    ),
    "sorted": Function("in ascending order", ((list,),), None, sorted),
    "first": Function(
        "the first n elements", ((list,), (int,)), None, lambda items, n: items[: max(n, 0)]
    ),
    "join": Function(
        "elements with a separator between them",
        ((list,), (str,)),
        str,
        lambda items, separator: separator.join(map(shown, items)),
    ),
}
"""All functions by name; the documentation of rules is made from this table."""


@dataclass(frozen=True, slots=True)
class Rule:
    """One expression, compiled once."""

    source: str
    groups: frozenset[str]
    """Groups of facts that it names."""
    names: tuple[tuple[int, str, str], ...]
    """Offset, group and field of everything it names."""
    gives: Any
    """Type of its value as far as known; Any: unknown."""
    unknown: tuple[Found, ...]
    mistyped: tuple[Found, ...]
    _program: Any
    _calls: Mapping[str, Callable[..., Any]]

    def holds(self, variables: Variables) -> bool:
        """Return whether the rule holds; RuleError if that cannot be said."""
        value = self.value(variables)
        if not isinstance(value, bool):
            raise RuleError(f"rule `{self.source}` gives {shown(value)}, neither true nor false")
        return value

    def value(self, variables: Variables) -> Any:
        """Return the value of the expression as plain Python; RuleError if it has none."""
        context = {group: variables[group] for group in self.groups if group in variables}
        try:
            return self._program.execute({**context, **self._calls})
        except (ArithmeticError, LookupError, RuntimeError, TypeError, ValueError) as error:
            reason = self._absent(variables) or _reason(error)
            raise RuleError(f"rule `{self.source}` cannot be evaluated: {reason}") from error

    def _absent(self, variables: Variables) -> str:
        """Return which facts that the rule names are not there, in words."""
        gone = sorted(self.groups - variables.keys())
        there = [(group, field) for _, group, field in self.names if group in variables]
        nulls = [f"{g}.{f}" for g, f in dict.fromkeys(there) if variables[g].get(f, 0) is None]
        said = [f"there are no facts '{group}'" for group in gone]
        if nulls:
            verb = "is" if len(nulls) == 1 else "are"
            said.append(f"{' and '.join(nulls)} {verb} null; rule that out in `applies`")
        return "; ".join(said)


@dataclass(frozen=True, slots=True)
class Template:
    """A text with ``{{expression}}`` pieces, compiled once."""

    source: str
    groups: frozenset[str]
    pieces: tuple[str | tuple[int, Rule], ...]
    """Texts, and expressions with the offset at which each begins."""

    def render(self, variables: Variables) -> str:
        """Return the text with the values in it; RuleError if one has none.

        A piece about a group that is not there reads ``unknown``: a failure must be readable
        also where a fact that only its text wants could not be had.
        """
        return "".join(_rendered(piece, variables) for piece in self.pieces)


@cache
def compile_rule(source: str) -> Rule:
    """Return the compiled expression; RuleSyntaxError if it is none."""
    if len(source) > MAX_LENGTH:
        raise RuleSyntaxError(f"{len(source)} characters; at most {MAX_LENGTH} are read", 0)
    try:
        program = _cel().compile(source)
    except ValueError as error:
        raise _syntax_error(source, str(error)) from error
    reader = _Reader(source)
    gives = reader.read()
    calls = {name: call for name in reader.called if (call := FUNCTIONS[name].call)}
    return Rule(
        source=source,
        groups=frozenset(group for _, group, _ in reader.names),
        names=tuple(reader.names),
        gives=gives,
        unknown=tuple(reader.unknown),
        mistyped=tuple(reader.mistyped),
        _program=program,
        _calls=calls,
    )


def compile_template(source: str) -> Template:
    """Return the compiled text; RuleSyntaxError if a piece of it is no expression."""
    pieces: list[str | tuple[int, Rule]] = []
    end = 0
    while (begin := source.find("{{", end)) >= 0:
        found = _PIECE.match(source, begin)
        if found is None:
            raise RuleSyntaxError("'{{' without '}}'; write {{expression}}", begin)
        pieces += [source[end:begin], (begin + 2, _piece(found[1], begin + 2))]
        end = found.end()
    pieces.append(source[end:])
    rules = [piece[1] for piece in pieces if not isinstance(piece, str)]
    return Template(source, frozenset().union(*(r.groups for r in rules)), tuple(pieces))


def check_names(text: Rule | Template) -> list[Found]:
    """Return every unknown group, field and function, with the nearest known name."""
    return [(at + offset, said) for at, rule in _rules(text) for offset, said in rule.unknown]


def check_types(text: Rule | Template, wants: Any = bool) -> list[Found]:
    """Return every operation on values of the wrong type, and a rule that gives no ``wants``.

    Null is let pass everywhere: whether a fact is null is known only when the rule runs.
    """
    found = [(at + offset, said) for at, rule in _rules(text) for offset, said in rule.mistyped]
    if isinstance(text, Rule) and not (found or text.unknown) and not _alike(text.gives, wants):
        found.append((0, f"must give {_word(wants)}, and gives {_word(text.gives)}"))
    return found


def named_groups(text: Rule | Template) -> list[tuple[int, str]]:
    """Return every group that is named, once, with the offset of the first mention."""
    first: dict[str, int] = {}
    for begin, rule in _rules(text):
        for at, group, _ in rule.names:
            first.setdefault(group, begin + at)
    return [(at, group) for group, at in first.items()]


def _rules(text: Rule | Template) -> list[tuple[int, Rule]]:
    if isinstance(text, Rule):
        return [(0, text)]
    return [piece for piece in text.pieces if not isinstance(piece, str)]


def _piece(source: str, begin: int) -> Rule:
    try:
        return compile_rule(source)
    except RuleSyntaxError as error:
        raise RuleSyntaxError(error.text, begin + error.offset) from error


def _rendered(piece: str | tuple[int, Rule], variables: Variables) -> str:
    if isinstance(piece, str):
        return piece
    rule = piece[1]
    return shown(rule.value(variables)) if rule.groups <= variables.keys() else "unknown"


def _reason(error: Exception) -> str:
    """Return the library's first sentence; the others explain CEL in general."""
    if isinstance(error, KeyError):
        return f"there is no key {error}"
    return str(error).split(". ")[0]


@cache
def _cel() -> Any:
    """Return the extension module of the CEL library.

    Importing the package imports its command line as well, which takes longer than all of a
    static check; the extension needs none of it.
    """
    if "cel" not in sys.modules and "cel.cel" not in sys.modules:
        package = find_spec("cel")
        places = package.submodule_search_locations if package else None
        spec = PathFinder.find_spec("cel.cel", places)
        if spec is not None and spec.loader is not None:
            module = sys.modules["cel.cel"] = module_from_spec(spec)
            spec.loader.exec_module(module)
    return import_module("cel.cel")


def _syntax_error(source: str, said: str) -> RuleSyntaxError:
    """Return the first of the library's messages in plain words, with its offset."""
    if "Recursion limit" in said:
        return RuleSyntaxError("not an expression: its parts are nested too deeply", 0)
    found = re.search(r"<input>:(\d+):(\d+): Syntax error: (.*)", said)
    found = found or re.search(r"<input>:(\d+):(\d+): (.*)", said)
    if found is None:
        return RuleSyntaxError(f"not an expression: {said}", 0)
    lines = source.split("\n")[: int(found[1]) - 1]
    offset = min(sum(len(line) + 1 for line in lines) + int(found[2]) - 1, len(source))
    text = _UNEXPECTED.sub(r"\1 is not expected here", found[3].split(" expecting ")[0])
    text = text.replace("'<EOF>'", "its end")
    word = re.match(r"\w+|=", source[offset:])
    hint = f"; write {_SLIPS[word[0]]}" if word and word[0] in _SLIPS else ""
    return RuleSyntaxError(f"not an expression: {text}{hint}", offset)


class _Reader:
    """Reads an expression that the library has accepted: which facts it names, of what type.

    Every method that reads a part returns the type of its value; Any where it is not known, which
    fits everywhere.
    """

    def __init__(self, source: str) -> None:
        self.names: list[tuple[int, str, str]] = []
        self.unknown: list[Found] = []
        self.mistyped: list[Found] = []
        self.called: set[str] = set()
        self._bound: list[tuple[str, Any]] = []
        tokens = (m for m in _TOKEN.finditer(source) if m.lastgroup)
        self._tokens = [
            (m.lastgroup, m[m.lastgroup or 0], m.start(m.lastgroup or 0)) for m in tokens
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
        self._fit(_alike(kind, bool), at, f"'?' needs bool, not {_word(kind)}")
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
            self._fit(fits, at, f"'{sign}' does not go with {_word(kind)}")
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
        fits = all(_alike(kind, first) and {kind, first} != _NUMBERS for kind in kinds)
        words = " and ".join(dict.fromkeys(map(_word, kinds)))
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
        self._fit(_base(kind) in (dict, Any), at, f"{_word(kind)} has no field '{name}'")
        return _inner(kind)[-1]

    def _item(self, kind: Any, key: Any, at: int) -> Any:
        keys = {list: (int, Any), dict: (str, Any), Any: (key,)}.get(_base(kind), ())
        self._fit(key in keys, at, f"{_word(kind)} has no element by {_word(key)}")
        return _inner(kind)[-1]

    def _call(self, name: str, at: int, receiver: list[Any]) -> Any:
        self._expect("(")
        if receiver and name in _MACROS:
            return self._macro(name, at, receiver[0])
        function = FUNCTIONS.get(name)
        if function is None and name != "has":
            hint = did_you_mean(name, [*FUNCTIONS, *_MACROS, "has"])
            self.unknown.append((at, f"unknown function '{name}'{hint}"))
        kinds = receiver + self._list(")")
        if function is None:
            return bool if name == "has" else Any
        self.called.add(name)
        fits = len(kinds) == len(function.takes) and all(
            _base(kind) in (*takes, Any) or Any in takes
            for kind, takes in zip(kinds, function.takes, strict=True)
        )
        if not fits:
            wants = ", ".join(" or ".join(map(_word, takes)) for takes in function.takes)
            given = ", ".join(map(_word, kinds)) or "nothing"
            self.mistyped.append((at, f"{name}() takes {wants}, not {given}"))
        only_method = function.takes is _TEXTS and not receiver
        self._fit(not only_method, at, f"write x.{name}(y), not {name}(x, y)")
        return function.gives or next(iter(kinds), Any)

    def _macro(self, name: str, at: int, over: Any) -> Any:
        self._fit(_base(over) in (list, dict, Any), at, f"{_word(over)} has no {name}()")
        _, variable, _ = self._take()
        self._expect(",")
        self._bound.append((variable, _inner(over)[0]))
        kinds = self._list(")")
        self._bound.pop()
        conditions = kinds[:-1] if name == "map" else kinds
        fits = len(kinds) in _MACROS[name] and all(_alike(kind, bool) for kind in conditions)
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


def _alike(left: Any, right: Any) -> bool:
    """Return whether values of the two types can be equal."""
    if Any in (left, right) or NoneType in (left, right) or {left, right} == {int, float}:
        return True
    if _base(left) is _base(right) is list:
        return _alike(_inner(left)[0], _inner(right)[0])
    return left == right or _base(left) is _base(right) is dict


def _operable(sign: str, takes: tuple[Any, ...], left: Any, right: Any) -> bool:
    if sign == "in":
        inner = _inner(right)[0]
        return _base(right) in (*takes, Any) and _alike(left, inner) and {left, inner} != _NUMBERS
    if takes and not all(_base(kind) in (*takes, Any) for kind in (left, right)):
        return False
    is_arithmetic = sign in "+-*/%"
    return _alike(left, right) and not (is_arithmetic and {left, right} == _NUMBERS)


def _misfit(sign: str, left: Any, right: Any) -> str:
    hint = "; write double(x)" if {left, right} == _NUMBERS else ""
    return f"'{sign}' does not go with {_word(left)} and {_word(right)}{hint}"


def _word(kind: Any) -> str:
    inner = [_word(part) for part in get_args(kind)]
    return _WORDS[_base(kind)] + (f" of {inner[-1]}" if inner and inner[-1] != "any" else "")
