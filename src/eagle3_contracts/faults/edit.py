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


def trained_with(subject: ResolvedSubject, **values: Any) -> ResolvedSubject:
    """Return ``subject`` with values of the training's config added or replaced."""
    assert subject.training is not None
    return edited_training(subject, config={**subject.training.config, **values})


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


def without_draft(subject: ResolvedSubject) -> ResolvedSubject:
    """Return ``subject`` without its draft."""
    return subject.model_copy(update={"draft": None})


def relaunched(subject: ResolvedSubject, args: str, **env: str) -> ResolvedSubject:
    """Return ``subject`` launched with nothing but the flags ``args`` and the environment."""
    launch = (subject.launch or Launch()).model_copy(update={"args": args, "env": env})
    return subject.model_copy(update={"launch": launch})


def draft_config(**changes: Any) -> Callable[[ResolvedSubject], ResolvedSubject]:
    """Return an edit of top-level fields of the draft's config; None takes a field away."""
    return _config_edit("draft", (), changes)


def nested_config(key: str, **changes: Any) -> Callable[[ResolvedSubject], ResolvedSubject]:
    """Return an edit of the fields below ``key`` of the draft's config, as :func:`draft_config`."""
    return _config_edit("draft", (key,), changes)


def target_config(*keys: str, **changes: Any) -> Callable[[ResolvedSubject], ResolvedSubject]:
    """Return an edit of the fields below ``keys`` of the target's config."""
    return _config_edit("target", keys, changes)


def with_flags(text: str) -> Callable[[ResolvedSubject], ResolvedSubject]:
    """Return an edit that sets flags; each stands with its value, switches at the end alone."""
    words = text.split()
    pairs = dict(zip(words[::2], words[1::2], strict=False))

    def edit(subject: ResolvedSubject) -> ResolvedSubject:
        for flag, value in pairs.items():
            subject = edited_flag(subject, flag, value)
        if len(words) % 2:
            args = subject.launch.args if subject.launch else ""
            env = subject.launch.env if subject.launch else {}
            return relaunched(subject, f"{args} {words[-1]}", **env)
        return subject

    return edit


def without_flag(flag: str) -> Callable[[ResolvedSubject], ResolvedSubject]:
    """Return an edit that takes a flag and its value away."""

    def edit(subject: ResolvedSubject) -> ResolvedSubject:
        words = subject.launch.args.split() if subject.launch else []
        at = words.index(flag)
        return relaunched(subject, " ".join(words[:at] + words[at + 2 :]))

    return edit


def in_turn(
    *edits: Callable[[ResolvedSubject], ResolvedSubject],
) -> Callable[[ResolvedSubject], ResolvedSubject]:
    """Return the edit that makes all ``edits`` one after the other."""

    def edit(subject: ResolvedSubject) -> ResolvedSubject:
        for one in edits:
            subject = one(subject)
        return subject

    return edit


def tensor(
    name: str, shape: tuple[int, ...] | None, dtype: str = "BF16"
) -> Callable[[ResolvedSubject], ResolvedSubject]:
    """Return an edit that sets one tensor of the draft's header; no shape takes it away."""

    def edit(tensors: dict[str, Tensor]) -> None:
        if shape is None:
            del tensors[name]
        else:
            tensors[name] = Tensor(dtype=dtype, shape=shape)

    return lambda subject: edited_tensors(subject, edit)


def target_tensors(
    *names: str, dtype: str = "BF16"
) -> Callable[[ResolvedSubject], ResolvedSubject]:
    """Return an edit that adds tensors to the target's header, as matrices whatever they are."""

    def edit(subject: ResolvedSubject) -> ResolvedSubject:
        new = {name: Tensor(dtype=dtype, shape=(1, 1)) for name in names}
        return _with_model(
            subject, "target", tensors={**(_model(subject, "target").tensors or {}), **new}
        )

    return edit


def values(**changes: Any) -> Callable[[ResolvedSubject], ResolvedSubject]:
    """Return an edit of small tensors by value; each change is a function of the old values."""

    def edit(subject: ResolvedSubject) -> ResolvedSubject:
        draft = _model(subject, "draft")
        new = {name: tuple(change(draft.values[name])) for name, change in changes.items()}
        return edited_draft(subject, values={**draft.values, **new})

    return edit


def _config_edit(
    role: Role, keys: tuple[str, ...], changes: dict[str, Any]
) -> Callable[[ResolvedSubject], ResolvedSubject]:
    def edit(config: dict[str, Any]) -> None:
        for key in keys:
            config = config.setdefault(key, {})
        config.update(changes)
        for key in [key for key, value in changes.items() if value is None]:
            del config[key]

    return lambda subject: edited_config(subject, role, edit)


def _model(subject: ResolvedSubject, role: Role) -> ResolvedModel:
    model: ResolvedModel | None = getattr(subject, role)
    assert model is not None, f"{subject.name} has no {role}"
    return model


def _with_model(subject: ResolvedSubject, role: Role, **changes: Any) -> ResolvedSubject:
    model = _model(subject, role).model_copy(update=changes)
    return subject.model_copy(update={role: model})
