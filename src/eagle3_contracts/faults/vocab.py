"""Faults of the family vocab-map: sizes and maps of the draft's vocabulary."""

from __future__ import annotations

from collections.abc import Sequence

from eagle3_contracts.faults import Fault
from eagle3_contracts.faults.edit import (
    draft_config,
    edited_training,
    in_turn,
    nested_config,
    tensor,
    values,
)

_MAPS = "tiny-maps"


def _moved(bits: Sequence[bool]) -> list[bool]:
    """Mark the id before the last one that is marked, instead of it."""
    last = len(bits) - 1 - list(bits)[::-1].index(True)
    return [*bits[: last - 1], True, False, *bits[last + 1 :]]


FAULTS = (
    Fault(
        "draft-vocab-size-wrong",
        "draft_vocab_size is that of another draft",
        on="llama-eagle3",
        edit=draft_config(draft_vocab_size=16000),
    ),
    Fault(
        "head-of-whole-vocabulary",
        "lm_head was exported with all rows",
        on="llama-eagle3",
        edit=tensor("lm_head.weight", (128256, 4096)),
    ),
    Fault(
        "draft-vocab-too-large",
        "draft_vocab_size is larger than the target's vocabulary",
        on="llama-eagle3",
        edit=draft_config(draft_vocab_size=151936),
    ),
    Fault(
        "tokenizer-of-another-family",
        "the draft was trained with the tokenizer of another target",
        on="llama-eagle3",
        edit=draft_config(vocab_size=151936),
    ),
    Fault(
        "maps-missing",
        "the maps were not exported",
        on="llama-eagle3",
        edit=in_turn(tensor("d2t", None), tensor("t2d", None)),
    ),
    Fault(
        "d2t-too-short",
        "d2t was made from a corpus of few different tokens",
        on="llama-eagle3",
        edit=tensor("d2t", (6054,), "I64"),
    ),
    Fault(
        "t2d-too-short",
        "t2d was made for another target",
        on="llama-eagle3",
        edit=tensor("t2d", (32000,), "BOOL"),
    ),
    Fault(
        "t2d-bit-missing",
        "t2d marks one id fewer than the draft has",
        on=_MAPS,
        edit=values(t2d=lambda bits: [False] * 8 + list(bits[8:])),
    ),
    Fault(
        "d2t-absolute",
        "d2t holds target ids instead of offsets",
        on=_MAPS,
        edit=values(d2t=lambda offsets: [i + offset for i, offset in enumerate(offsets)]),
    ),
    Fault(
        "d2t-past-the-end",
        "d2t was made for a larger vocabulary",
        on=_MAPS,
        edit=values(d2t=lambda offsets: [*offsets[:-1], 100]),
    ),
    Fault(
        "d2t-repeats",
        "two draft ids have the same target id",
        on=_MAPS,
        edit=values(d2t=lambda offsets: [*offsets[:-1], offsets[-2] - 1]),
    ),
    Fault(
        "maps-differ",
        "d2t and t2d come from two runs",
        on=_MAPS,
        edit=values(t2d=_moved),
    ),
    Fault(
        "d2t-zero",
        "d2t was allocated and never filled in",
        on=_MAPS,
        edit=values(d2t=lambda offsets: [0] * len(offsets)),
    ),
    Fault(
        "d2t-as-float",
        "the export changed the dtype of d2t with that of the weights",
        on="llama-eagle3",
        edit=tensor("d2t", (32000,), "BF16"),
    ),
    Fault(
        "trained-with-another-vocabulary",
        "the draft was trained with a draft vocabulary of another size",
        on="llama-eagle3",
        edit=lambda s: edited_training(s, config={"draft_vocab_size": 16000}),
    ),
    Fault(
        "mask-token-added",
        "the mask token was added to the embedding for training",
        on="qwen3-dflash",
        edit=nested_config("dflash_config", mask_token_id=151936),
    ),
    Fault(
        "vocab-size-overwritten",
        "vocab_size was set to the draft's vocabulary",
        on=_MAPS,
        edit=draft_config(vocab_size=16),
    ),
)
