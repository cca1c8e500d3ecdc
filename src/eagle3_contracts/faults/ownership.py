"""Faults of the family head-embed: lm_head and embed_tokens."""

from __future__ import annotations

from typing import Any

from eagle3_contracts.faults import Fault
from eagle3_contracts.faults.edit import (
    draft_config,
    edited_config,
    in_turn,
    target_config,
    target_tensors,
    tensor,
    trained_with,
)
from eagle3_contracts.subject import ResolvedSubject

_TARGET = ("layers.0.self_attn.o_proj.weight", "layers.0.mlp.down_proj.weight")
"""What a whole header has beside a norm, an embedding and a head."""


def _head_of_all_ids(subject: ResolvedSubject) -> ResolvedSubject:
    """Give the draft a head for the whole vocabulary, and null for its draft_vocab_size."""

    def edit(config: dict[str, Any]) -> None:
        config["draft_vocab_size"] = None

    whole = tensor("lm_head.weight", (128256, 4096))(subject)
    return edited_config(whole, "draft", edit)


FAULTS = (
    Fault(
        "head-missing",
        "lm_head was not exported",
        on="llama-eagle3",
        edit=tensor("lm_head.weight", None),
    ),
    Fault(
        "head-tied",
        "the draft's config ties its head to the embedding",
        on="llama-eagle3",
        edit=draft_config(tie_word_embeddings=True),
    ),
    Fault(
        "head-tied-beside-its-own",
        "a draft with the whole vocabulary is tied, and has a head",
        on="llama-eagle3",
        edit=in_turn(
            draft_config(tie_word_embeddings=True, draft_vocab_size=128256),
            tensor("lm_head.weight", (128256, 4096)),
        ),
    ),
    Fault(
        "head-of-another-width",
        "lm_head is that of another model",
        on="llama-eagle3",
        edit=tensor("lm_head.weight", (32000, 2048)),
    ),
    Fault(
        "embedding-cut-down",
        "embed_tokens was cut down to the draft's vocabulary",
        on="kimi-k2.5-eagle3-mla",
        edit=tensor("embed_tokens.weight", (32000, 7168)),
    ),
    Fault(
        "target-of-another-width",
        "the target is twice as wide as the draft",
        on="llama-eagle3",
        edit=target_config(hidden_size=8192),
    ),
    Fault(
        "width-of-target-not-stated",
        "the target is wider than the draft, which does not say so",
        on="kimi-k2.5-eagle3-mla",
        edit=target_config("text_config", hidden_size=8192),
    ),
    Fault(
        "target-class-without-hooks",
        "the target's class has nothing for a draft",
        on="llama-eagle3",
        edit=target_config(architectures=["BertModel"]),
    ),
    Fault(
        "head-not-announced",
        "draft_vocab_size is null, although the draft has a head",
        on="llama-eagle3",
        edit=_head_of_all_ids,
    ),
    Fault(
        "head-nowhere",
        "the head was left out of the target's checkpoint, and of the draft's",
        on="llama-eagle3",
        edit=in_turn(tensor("lm_head.weight", None), target_tensors("model.norm.weight", *_TARGET)),
    ),
    Fault(
        "embedding-key-of-a-plain-target",
        "training was told the name that the embedding has in a plain language model",
        on="gemma3-mm-eagle3",
        edit=lambda s: trained_with(
            target_tensors("language_model.model.norm.weight", *_TARGET)(s),
            embedding_key="model.embed_tokens.weight",
        ),
    ),
    Fault(
        "target-rotated",
        "the target was rotated when it was quantized, after the draft was trained",
        on="llama-eagle3",
        edit=lambda s: trained_with(
            target_config("quantization_config", is_rot_used=True)(s), is_rot_used=False
        ),
    ),
)
