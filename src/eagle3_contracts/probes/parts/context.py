"""Positions that draft and target are made for, and positions that are served."""

from __future__ import annotations

from eagle3_contracts import modelconfig
from eagle3_contracts.facts import Gap
from eagle3_contracts.modelconfig import Config
from eagle3_contracts.probes.parts.reading import (
    draft_config,
    integer,
    is_on,
    launch_flags,
    nested,
    number,
    target_text,
)
from eagle3_contracts.static_facts import ContextFacts
from eagle3_contracts.subject import ResolvedSubject

_KEYS = ("max_sequence_length", "seq_length", "max_seq_len", "model_max_length")
_LIMITS = (*_KEYS, "max_position_embeddings")
"""Keys of SGLang's ``get_context_length``, in its order."""
_ALLOWS = "SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN"


def read(subject: ResolvedSubject) -> ContextFacts | Gap:
    """Return the limits; a gap without a usable draft."""
    config = draft_config(subject)
    if isinstance(config, Gap):
        return config
    target = limit_of(target_text(subject))
    requested = launch_flags(subject).get("context-length", "")
    wanted = int(requested) if requested.isdecimal() and len(requested) < 12 else None
    return ContextFacts(
        draft_limit=limit_of(modelconfig.draft_layers(config)[0]),
        target_limit=target,
        served=wanted or target,
        requested=wanted,
        allows_longer=is_on(subject, _ALLOWS),
    )


def limit_of(config: Config) -> int | None:
    """Return the positions that a config is made for; None when it does not say.

    A scaling multiplies them unless it names the original length, as in SGLang's
    ``get_context_length``.
    """
    limit = integer(config, *_LIMITS)
    if limit is None:
        return None
    scaling = nested(config, "rope_scaling")
    if "original_max_position_embeddings" in scaling or scaling.get("rope_type") == "llama3":
        return limit
    factor = number(scaling.get("factor"))
    return int(limit * factor) if factor is not None and 0 < factor < 1e6 else limit
