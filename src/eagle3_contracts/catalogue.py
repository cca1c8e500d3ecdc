"""The catalogue: reading contract files, and checking them before anything runs.

``python -m eagle3_contracts.catalogue`` prints the JSON Schema of a contract file.
"""

from __future__ import annotations

import ast
import inspect
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from eagle3_contracts.contract import Cause, Contract, ContractFile
from eagle3_contracts.data import contracts_dir
from eagle3_contracts.errors import ContractError, Problem, did_you_mean, raise_if_any
from eagle3_contracts.expression import Found, RuleSyntaxError
from eagle3_contracts.facts import GROUPS, Tier
from eagle3_contracts.files import is_directory
from eagle3_contracts.locate import Document, Steps, read_yaml
from eagle3_contracts.rules import (
    Rule,
    Template,
    check_names,
    check_types,
    compile_rule,
    compile_template,
    named_groups,
)
from eagle3_contracts.validate import validate

T = TypeVar("T", Rule, Template)


@dataclass(frozen=True, slots=True)
class Entry:
    """A contract ready to be judged, and where it stands."""

    contract: Contract
    applies: Rule
    rule: Rule
    message: Template
    causes: tuple[tuple[Rule, Template], ...]
    """Conditions of suspected causes, and what to say then."""
    fix: Template
    source: str
    """The file as given."""
    line: int
    """Line of the contract's first field, counted from 1."""

    @property
    def groups(self) -> frozenset[str]:
        """The groups of facts without which the contract cannot be judged."""
        return self.applies.groups | self.rule.groups


def read_catalogue(paths: Sequence[Path] | None = None) -> tuple[Entry, ...]:
    """Return the contracts of the files, and of the ``*.yaml`` files of the directories, by id.

    None stands for the built-in catalogue. Raises ContractError with every mistake of every file:
    whatever :func:`~eagle3_contracts.locate.read_yaml` refuses, unknown fields and values,
    expressions that cannot be read or name unknown facts or have the wrong type, facts of a tier
    dearer than the contract's, ids used twice, ``depends`` that are unknown, circular or dearer.
    """
    problems: list[Problem] = []
    found: list[_Found] = []
    files = _files([contracts_dir()] if paths is None else paths, problems)
    documents = [document for path in files if (document := _document(path, problems))]
    for document in documents:
        found += _entries(document, problems)
    problems += _check_ids(found)
    if len(documents) == len(files):  # else any unknown id may stand in a file that is not read
        problems += _check_depends(found)
    entries = [entry for place in found if (entry := _compile(place, problems))]
    raise_if_any(ContractError, problems)
    return tuple(sorted(entries, key=lambda entry: entry.contract.id))


def schema() -> dict[str, Any]:
    """Return the JSON Schema of a contract file, for editors and other tools."""
    made = ContractFile.model_json_schema()
    for model in (ContractFile, Contract, Cause):
        fields = made["$defs"].get(model.__name__, made)["properties"]
        for name, text in _docstrings(model):
            fields[name] = dict(sorted({**fields[name], "description": text}.items()))
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **made}


def _docstrings(model: type[BaseModel]) -> Iterator[tuple[str, str]]:
    """Yield the fields of a model and what the strings below them say.

    pydantic can do so as well, but at every start of the program.
    """
    body = ast.parse(inspect.getsource(model)).body[0]
    for field, below in pairwise(body.body if isinstance(body, ast.ClassDef) else ()):
        match field, below:
            case ast.AnnAssign(ast.Name(name)), ast.Expr(ast.Constant(str(text))):
                yield name, inspect.cleandoc(text)


@dataclass(frozen=True, slots=True)
class _Found:
    """An entry of a file; ``contract`` is None where the entry itself is not valid."""

    document: Document
    index: int
    contract: Contract | None

    @property
    def id(self) -> str | None:
        """The id as written, also of an entry that is otherwise not valid."""
        raw = self.document.data["contracts"][self.index]
        name = raw.get("id") if isinstance(raw, dict) else None
        return name if isinstance(name, str) else None

    def problem(self, text: str, *steps: str | int, offset: int = 0) -> Problem:
        """Return a problem with the place of a field of the entry."""
        return self.document.problem(text, ("contracts", self.index, *steps), offset)

    def where(self) -> str:
        """Return the place of the id, to name it in a problem elsewhere."""
        line, column = self.document.place(("contracts", self.index, "id"))
        return f"{self.document.source}:{line}:{column}"


def _files(paths: Iterable[Path], problems: list[Problem]) -> list[Path]:
    files: list[Path] = []
    for path in paths:
        inside = sorted(path.glob("*.yaml")) if is_directory(path) else [path]
        if not inside:
            problems.append(Problem(str(path), "the directory holds no *.yaml file"))
        files += inside
    return list(dict.fromkeys(files))


def _document(path: Path, problems: list[Problem]) -> Document | None:
    try:
        return read_yaml(path, ContractError)
    except ContractError as error:
        problems += error.problems
        return None


def _entries(document: Document, problems: list[Problem]) -> list[_Found]:
    """Return the entries of a file; those that are not valid too, so that their ids are known."""
    model, mistakes = validate(ContractFile, document)
    problems += mistakes
    if model is not None:
        return [_Found(document, at, contract) for at, contract in enumerate(model.contracts)]
    raw = document.data.get("contracts")
    items = raw if isinstance(raw, list) else []
    return [_Found(document, at, _valid(item)) for at, item in enumerate(items)]


def _valid(item: Any) -> Contract | None:
    try:
        return Contract.model_validate(item)
    except ValidationError:
        return None


def _compile(found: _Found, problems: list[Problem]) -> Entry | None:
    """Return the entry with its expressions compiled, or None and what is wrong with them."""
    contract = found.contract
    if contract is None:
        return None
    compiler = _Compiler(found, contract, problems)
    before = len(problems)
    applies, rule = compiler.rule("applies"), compiler.rule("rule")
    message, fix = compiler.template("message"), compiler.template("fix")
    causes = [
        (compiler.rule("causes", at, "when"), compiler.template("causes", at, "says"))
        for at in range(len(contract.causes))
    ]
    if len(problems) > before or not (applies and rule and message and fix):
        return None
    return Entry(
        contract=contract,
        applies=applies,
        rule=rule,
        message=message,
        causes=tuple((when, says) for when, says in causes if when and says),
        fix=fix,
        source=found.document.source,
        line=found.document.place(("contracts", found.index))[0],
    )


@dataclass(frozen=True, slots=True)
class _Compiler:
    """Compiles the texts of one entry, and notes what is wrong with them where it stands."""

    found: _Found
    contract: Contract
    problems: list[Problem]

    def rule(self, *steps: str | int) -> Rule | None:
        """Return the compiled expression at ``steps``; None if it is none."""
        return self._compiled(compile_rule, steps)

    def template(self, *steps: str | int) -> Template | None:
        """Return the compiled text at ``steps``; None if a piece of it is no expression."""
        return self._compiled(compile_template, steps)

    def _compiled(self, compiler: Callable[[str], T], steps: Steps) -> T | None:
        try:
            text = compiler(_text(self.contract, steps))
        except RuleSyntaxError as error:
            self._note(steps, [(error.offset, error.text)])
            return None
        self._note(steps, check_names(text) + check_types(text) + self._too_dear(text))
        return text

    def _too_dear(self, text: Rule | Template) -> list[Found]:
        """Return the facts that a run of the contract's own tier does not gather."""
        tier = self.contract.tier
        dear = _dearer(tier)
        return [
            (at, f"'{group}' is known from tier {dear[group]} on; the contract is of tier {tier}")
            for at, group in named_groups(text)
            if group in dear
        ]

    def _note(self, steps: Steps, mistakes: Iterable[Found]) -> None:
        self.problems.extend(
            self.found.problem(f"{steps[-1]}: {said}", *steps, offset=at) for at, said in mistakes
        )


@cache
def _dearer(tier: Tier) -> dict[str, Tier]:
    """Return the groups that a run of ``tier`` does not gather, with the tier of each."""
    return {group: its for group, (_, its) in GROUPS.items() if its.cost > tier.cost}


def _text(contract: Contract, steps: Steps) -> str:
    value: Any = contract
    for step in steps:
        value = getattr(value, step) if isinstance(step, str) else value[step]
    return str(value)


def _check_ids(found: Sequence[_Found]) -> list[Problem]:
    first: dict[str, _Found] = {}
    problems = []
    for place in found:
        if place.id is not None and first.setdefault(place.id, place) is not place:
            earlier = first[place.id].where()
            problems.append(place.problem(f"id '{place.id}' is already used at {earlier}", "id"))
    return problems


def _check_depends(found: Sequence[_Found]) -> list[Problem]:
    ids = {place.id: place for place in found if place.id is not None}
    problems = []
    for place in found:
        for at, name in enumerate(place.contract.depends if place.contract else ()):
            said = _wrong_dependency(place, ids.get(name), name, ids)
            if said:
                problems.append(place.problem(said, "depends", at))
    return problems + _check_cycles(ids)


def _wrong_dependency(
    place: _Found, other: _Found | None, name: str, ids: Mapping[str, _Found]
) -> str:
    if other is None:
        hint = did_you_mean(name, ids) or f"; known are {', '.join(sorted(ids))}"
        return f"depends on the unknown contract '{name}'{hint}"
    mine, its = (p.contract.tier if p.contract else None for p in (place, other))
    if mine is None or its is None or its.cost <= mine.cost:
        return ""
    return (
        f"{place.id} of tier {mine} depends on {name} of tier {its}, which a run of tier {mine} "
        f"does not judge; give {place.id} the tier {its}, or leave the dependency out"
    )


def _check_cycles(ids: Mapping[str, _Found]) -> list[Problem]:
    """Return one problem for each circle of dependencies, at the first contract in it."""
    graph = {
        name: set(place.contract.depends if place.contract else ()) for name, place in ids.items()
    }
    problems = []
    while circle := _circle(graph):
        first = min(circle)
        turn = circle.index(first)
        ring = [*circle[turn:], *circle[:turn], first]
        said = f"{first} depends on itself: {' -> '.join(ring)}; leave one of these out"
        problems.append(ids[first].problem(said, "depends"))
        graph[first].discard(ring[1])
    return problems


def _circle(graph: Mapping[str, set[str]]) -> list[str]:
    """Return the contracts of one circle, each before one that it depends on; empty if none."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(reversed(error.args[1][1:]))
    return []


if __name__ == "__main__":
    sys.stdout.write(json.dumps(schema(), indent=2) + "\n")
