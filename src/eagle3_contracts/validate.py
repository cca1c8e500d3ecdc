"""What pydantic refuses in a document, in plain words and at the place where it stands."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import Annotated, Any, TypeVar, get_args, get_origin

from pydantic import BaseModel, ValidationError

from eagle3_contracts.errors import Problem, did_you_mean
from eagle3_contracts.locate import MAX_REPORTED, Document, Steps, collector_paused, has, shown

M = TypeVar("M", bound=BaseModel)


def validate(model: type[M], document: Document) -> tuple[M | None, list[Problem]]:
    """Return the document as a ``model``, or None and every mistake with its place."""
    try:
        with collector_paused():
            return model.model_validate(document.data), []
    except ValidationError as error:
        errors = _best_branches(error.errors(include_url=False), document.data)
    first = errors[:MAX_REPORTED]
    problems = [_problem(model, document, error) for error in first]
    if len(errors) > len(first):
        problems.append(Problem(document.source, f"and {len(errors) - len(first)} more mistakes"))
    return None, problems


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
        if not has(data, step):
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
    return f"{said}, not {shown(given)}{hint}"


def _label(path: Steps) -> str:
    """Return the last field of ``path``, with the indexes behind it."""
    names = [at for at, step in enumerate(path) if isinstance(step, str) and "[" not in step]
    last = names[-1] if names else 0
    return f"{path[last]}{''.join(f'[{s}]' for s in path[last + 1 :] if isinstance(s, int))}"


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
