"""Ownership of the draft's lm_head and embed_tokens."""

from __future__ import annotations

from collections.abc import Iterator

from eagle3_contracts.facts import Gap
from eagle3_contracts.modelconfig import Config
from eagle3_contracts.probes.parts.reading import (
    Tensors,
    draft_config,
    draft_tensors,
    integer,
    matrix,
    nested,
    present,
    target_config,
    target_text,
    trained_config,
)
from eagle3_contracts.static_facts import HeadFacts
from eagle3_contracts.subject import ResolvedModel, ResolvedSubject

_KEYS = ("embedding_key", "lm_head_key")
"""Options of trainers that take embedding and head out of the target's checkpoint by name."""


def read(subject: ResolvedSubject) -> HeadFacts | Gap:
    """Return which of the two the checkpoint holds, and in which shape."""
    config = draft_config(subject)
    if isinstance(config, Gap):
        return config
    tensors = draft_tensors(subject)
    embed_rows, embed_width = matrix(tensors, "embed_tokens.weight")
    return HeadFacts(
        has_head=_has(tensors, "lm_head"),
        head_width=matrix(tensors, "lm_head.weight")[1],
        has_embed=_has(tensors, "embed_tokens"),
        embed_rows=embed_rows,
        embed_width=embed_width,
        is_tied=config.get("tie_word_embeddings") is True,
        states_target_width=integer(config, "target_hidden_size") is not None,
        target_has_head=_has(_tensors(subject.target), "lm_head"),
        target_is_tied=_is_tied(subject),
        unknown_keys=list(_unknown_keys(subject)),
        target_is_rotated=_is_rotated(subject.target),
        trained_is_rotated=_stated(trained_config(subject), "is_rot_used"),
    )


def _has(tensors: Tensors | None, module: str) -> bool | None:
    """Return whether a module has tensors of any name: ``weight``, or packed ones."""
    return present(tensors, any(module in name.split(".") for name in tensors or ()))


def _tensors(target: ResolvedModel | None) -> Tensors | None:
    """Return the target's header; None when it is unknown or incomplete."""
    if target is None or target.missing_shards or target.missing_tensors:
        return None
    return target.tensors


def _is_tied(subject: ResolvedSubject) -> bool | None:
    """Return what the target says of its head: of the whole model, else of its language model."""
    stated = _stated(target_config(subject), "tie_word_embeddings")
    return _stated(target_text(subject), "tie_word_embeddings") if stated is None else stated


def _unknown_keys(subject: ResolvedSubject) -> Iterator[str]:
    """Yield the names that training was given for the target's embedding or head in vain."""
    tensors = _tensors(subject.target) or {}
    for key in _KEYS:
        name = trained_config(subject).get(key)
        if isinstance(name, str) and present(tensors, name in tensors) is False:
            yield f"{key} {name}"


def _is_rotated(target: ResolvedModel | None) -> bool:
    """Return whether the quantization rotates the residual stream, as msmodelslim writes it."""
    if target is None:
        return False
    places = (target.quant_config or {}, nested(target.config, "quantization_config"))
    return any(
        place.get("is_rot_used") is True or nested(nested(place, "optional"), "quarot")
        for place in places
    )


def _stated(config: Config, key: str) -> bool | None:
    value = config.get(key)
    return value if isinstance(value, bool) else None
