"""Editing a subject: copies with one thing changed."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any, Literal

from eagle3_contracts.subject import Launch, ResolvedModel, ResolvedSubject, Tensor

Role = Literal["target", "draft"]


def edited_config(
    subject: ResolvedSubject, role: Role, edit: Callable[[dict[str, Any]], None]
) -> ResolvedSubject:
    """Return ``subject`` with ``edit`` applied to a copy of the model's config.json."""
    config = deepcopy(_model(subject, role).config)
    edit(config)
    return _with_model(subject, role, config=config)


def edited_tensors(
    subject: ResolvedSubject, edit: Callable[[dict[str, Tensor]], None]
) -> ResolvedSubject:
    """Return ``subject`` with ``edit`` applied to a copy of the draft's safetensors header."""
    tensors = dict(_model(subject, "draft").tensors or {})
    edit(tensors)
    return _with_model(subject, "draft", tensors=tensors)


def edited_draft(subject: ResolvedSubject, **changes: Any) -> ResolvedSubject:
    """Return ``subject`` with fields of its draft replaced."""
    return _with_model(subject, "draft", **changes)


def edited_training(subject: ResolvedSubject, **changes: Any) -> ResolvedSubject:
    """Return ``subject`` with fields of its training section replaced."""
    assert subject.training is not None
    training = subject.training.model_copy(update=changes)
    return subject.model_copy(update={"training": training})


def edited_flag(subject: ResolvedSubject, flag: str, value: str) -> ResolvedSubject:
    """Return ``subject`` launched with ``flag value`` in place of what it was launched with."""
    launch = subject.launch or Launch()
    words = launch.args.split()
    if flag in words:
        words[words.index(flag) + 1] = value
    else:
        words += [flag, value]
    launch = launch.model_copy(update={"args": " ".join(words)})
    return subject.model_copy(update={"launch": launch})


def _model(subject: ResolvedSubject, role: Role) -> ResolvedModel:
    model: ResolvedModel | None = getattr(subject, role)
    assert model is not None, f"{subject.name} has no {role}"
    return model


def _with_model(subject: ResolvedSubject, role: Role, **changes: Any) -> ResolvedSubject:
    model = _model(subject, role).model_copy(update=changes)
    return subject.model_copy(update={role: model})
