"""Rules: CEL expressions over facts, and texts with such expressions in them."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.machinery import PathFinder
from importlib.util import find_spec, module_from_spec
from typing import Any

from eagle3_contracts.expression import (
    Found,
    Function,
    Reading,
    RuleSyntaxError,
    alike,
    read_expression,
    type_name,
)

Variables = Mapping[str, Mapping[str, Any]]
"""Facts by group and field; see :func:`eagle3_contracts.facts.as_variables`."""
MAX_LENGTH = 4000
"""Characters of one expression; longer ones are better split into two contracts."""

_PIECE = re.compile(r"""\{\{((?:'[^']*'|"[^"]*"|[^'"])*?)\}\}""")
_UNEXPECTED = (
    r"(?:mismatched input|extraneous input|token recognition error at:"
    r"|no viable alternative at input) (.*)"
)
_SLIPS = {"and": "&&", "or": "||", "not": "!", "=": "=="}


class RuleError(Exception):
    """An expression that these facts do not allow to evaluate: a null, an absent key."""


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


_TEXTS = ((str,), (str,))
_ANYTHING = (Any,)
FUNCTIONS: Mapping[str, Function] = {
    "has": Function("has(x.key): the map x has the key", (_ANYTHING,), bool),
    "size": Function("number of elements, keys or characters", ((str, list, dict),), int),
    "int": Function("as a whole number", ((int, float, str),), int),
    "double": Function("as a number with a fraction", ((int, float, str),), float),
    **{
        name: Function(f"x.{name}(y): {doc}", _TEXTS, bool, is_method=True)
        for name, doc in (
            ("contains", "y is part of the string x"),
            ("startsWith", "the string x begins with y"),
            ("endsWith", "the string x ends with y"),
            ("matches", "the regular expression y is found in x"),
        )
    },
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
    reading: Reading
    _program: Any
    _calls: Mapping[str, Callable[..., Any]]

    @property
    def names(self) -> tuple[tuple[int, str, str], ...]:
        """Offset, group and field of everything it names."""
        return self.reading.names

    def holds(self, variables: Variables) -> bool:
        """Return whether the rule holds; RuleError if that cannot be said."""
        value = self.value(variables)
        if not isinstance(value, bool):
            raise RuleError(f"rule `{self.source}` gives {shown(value)}, neither true nor false")
        return value

    def value(self, variables: Variables) -> Any:
        """Return the value of the expression as plain Python; RuleError if it has none."""
        try:
            return self._program.execute({**self._named(variables), **self._calls})
        except (ArithmeticError, LookupError, RuntimeError, TypeError, ValueError) as error:
            reason = self._absent(variables) or _reason(error)
            raise RuleError(f"rule `{self.source}` cannot be evaluated: {reason}") from error

    def _named(self, variables: Variables) -> dict[str, dict[str, Any]]:
        """Return the facts that the rule names; to convert all of them takes CEL far longer."""
        named: dict[str, dict[str, Any]] = {group: {} for group in self.groups & variables.keys()}
        for _, group, field in self.names:
            if group in named and field in variables[group]:
                named[group][field] = variables[group][field]
        return named

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
    reading = read_expression(source, FUNCTIONS)
    calls = {name: call for name in reading.called if (call := FUNCTIONS[name].call)}
    groups = frozenset(group for _, group, _ in reading.names)
    return Rule(source, groups, reading, program, calls)


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
    return [(at + offset, said) for at, r in _rules(text) for offset, said in r.reading.unknown]


def check_types(text: Rule | Template) -> list[Found]:
    """Return every operation on values of the wrong type, and a rule that gives no bool.

    Null is let pass everywhere: whether a fact is null is known only when the rule runs.
    """
    found = [(at + offset, said) for at, r in _rules(text) for offset, said in r.reading.mistyped]
    if isinstance(text, Rule) and not (found or text.reading.unknown):
        gives = text.reading.gives
        if not alike(gives, bool):
            found.append((0, f"must give bool, and gives {type_name(gives)}"))
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
    text = re.sub(_UNEXPECTED, r"\1 is not expected here", found[3].split(" expecting ")[0])
    text = text.replace("'<EOF>'", "its end")
    word = re.match(r"\w+|=", source[offset:])
    hint = f"; write {_SLIPS[word[0]]}" if word and word[0] in _SLIPS else ""
    return RuleSyntaxError(f"not an expression: {text}{hint}", offset)
