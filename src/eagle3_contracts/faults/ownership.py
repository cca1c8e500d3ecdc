"""Faults of the family head-embed: lm_head and embed_tokens."""

from __future__ import annotations

from eagle3_contracts.faults import Fault
from eagle3_contracts.faults.edit import draft_config, in_turn, target_config, tensor

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
)
