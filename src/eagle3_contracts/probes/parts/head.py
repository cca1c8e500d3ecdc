"""Ownership of the draft's lm_head and embed_tokens."""

from __future__ import annotations

from eagle3_contracts.facts import Gap
from eagle3_contracts.probes.parts.reading import (
    Tensors,
    draft_config,
    draft_tensors,
    integer,
    matrix,
    present,
)
from eagle3_contracts.static_facts import HeadFacts
from eagle3_contracts.subject import ResolvedSubject


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
    )


def _has(tensors: Tensors | None, module: str) -> bool | None:
    """Return whether a module has tensors of any name: ``weight``, or packed ones."""
    return present(tensors, any(module in name.split(".") for name in tensors or ()))
