"""Reading the parts of a subject: configs and flags that may hold anything, tensors by name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

from eagle3_contracts import modelconfig
from eagle3_contracts.facts import Gap, GapKind
from eagle3_contracts.flags import parse_flags
from eagle3_contracts.modelconfig import Config
from eagle3_contracts.subject import ResolvedSubject, Tensor

FLOATS = ("BF16", "F16", "F32", "F64")
"""Dtypes of weights that are not quantized."""

_INNER = ("eagle_config", "dflash_config", "transformer_layer_config")

Tensors = Mapping[str, Tensor]


def draft_config(subject: ResolvedSubject) -> Config | Gap:
    """Return the draft's config; a gap when there is none, or none that can be used."""
    if subject.draft is None:
        return Gap(GapKind.ABSENT, "the subject names no draft")
    texts = [str(mistake) for mistake in modelconfig.draft_mistakes(subject.draft.config)]
    if texts:
        return Gap(GapKind.UNTESTABLE, f"the draft's config cannot be used: {'; '.join(texts)}")
    return subject.draft.config


def target_config(subject: ResolvedSubject) -> Config:
    """Return the target's config; an empty one when there is none that can be used."""
    if subject.target is None or any(modelconfig.target_mistakes(subject.target.config)):
        return {}
    return subject.target.config


def target_text(subject: ResolvedSubject) -> Config:
    """Return the config of the target's language model; empty like :func:`target_config`."""
    return modelconfig.language_model(target_config(subject))[0]


def draft_tensors(subject: ResolvedSubject) -> Tensors | None:
    """Return the draft's safetensors header; None when it is unknown or incomplete."""
    draft = subject.draft
    if draft is None or draft.tensors is None or draft.missing_shards or draft.missing_tensors:
        return None
    return draft.tensors


def is_whole(tensors: Tensors | None) -> bool:
    """Return whether a header seems to list all weights, so that absence means something.

    A header that was written out by hand may name only what matters to its author; the last parts
    of a decoder layer and a norm are in every whole one.
    """
    modules = {part for name in tensors or () for part in name.split(".")}
    return {"o_proj", "down_proj", "norm"} <= modules


def present(tensors: Tensors | None, found: bool) -> bool | None:
    """Return True for what was found; else False, or None for a header that may not be whole."""
    return True if found else False if is_whole(tensors) else None


def trained_config(subject: ResolvedSubject) -> Config:
    """Return what is known of the draft's config in training."""
    return subject.training.config if subject.training else {}


def launch_flags(subject: ResolvedSubject) -> dict[str, str]:
    """Return the launch's flags; none when it has none or they cannot be told apart."""
    return dict(_flags(subject.launch.args)) if subject.launch else {}


@lru_cache(maxsize=64)  # every part asks for the flags of the same launch
def _flags(args: str) -> dict[str, str]:
    try:
        return parse_flags(args)
    except ValueError:
        return {}


def is_on(subject: ResolvedSubject, variable: str) -> bool:
    """Return whether the launch's environment switches ``variable`` on, as SGLang reads it."""
    value = subject.launch.env.get(variable, "") if subject.launch else ""
    return value.lower() in ("1", "true", "yes", "y")


def algorithm_of(flags: Mapping[str, str]) -> str | None:
    """Return the speculative algorithm of a launch, upper case."""
    name = flags.get("speculative-algorithm")
    return None if name is None else name.upper()


def integer(config: Config, *keys: str) -> int | None:
    """Return the first value among ``keys`` that is an integer above zero."""
    values = (config.get(key) for key in keys)
    return next((value for value in values if type(value) is int and value > 0), None)


def number(value: object) -> float | None:
    """Return a number as float; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return float(value)
    except OverflowError:
        return None


def nested(config: Config, key: str) -> Config:
    """Return the object at ``key``; an empty one for anything else."""
    value = config.get(key)
    return value if isinstance(value, dict) else {}


def flat(config: Config) -> Config:
    """Return the fields of a draft's config, nested ones included; a nested one comes first."""
    fields = dict(config)
    for key in _INNER:
        fields.update(nested(config, key))
    return fields


def named(tensors: Tensors, *suffixes: str) -> Iterator[tuple[str, Tensor]]:
    """Yield the tensors whose dotted name ends with one of ``suffixes``, in order."""
    for name, tensor in tensors.items():
        if any(name == suffix or name.endswith(f".{suffix}") for suffix in suffixes):
            yield name, tensor


def matrix(tensors: Tensors | None, suffix: str) -> tuple[int | None, int | None]:
    """Return rows and columns of the one weight matrix with that suffix; None when packed."""
    found = list(named(tensors or {}, suffix))
    if len(found) != 1:
        return None, None
    tensor = found[0][1]
    whole = len(tensor.shape) == 2 and tensor.dtype in (*FLOATS, "F8_E4M3", "F8_E5M2", "I8")
    return tensor.shape if whole else (None, None)  # type: ignore[return-value]


def otherwise(config: Config, trained: Config, keys: tuple[str, ...]) -> list[str]:
    """Return texts for the keys that both configs state, with different values."""
    both = [key for key in keys if config.get(key) is not None and trained.get(key) is not None]
    return [
        f"{key} {_shown(config[key])}, trained with {_shown(trained[key])}"
        for key in both
        if not _equal(config[key], trained[key])
    ]


def _equal(left: Any, right: Any) -> bool:
    numbers = number(left), number(right)
    if None not in numbers:
        return numbers[0] == numbers[1]
    return bool(left == right)


def _shown(value: Any) -> str:
    return {True: "true", False: "false"}[value] if isinstance(value, bool) else str(value)
