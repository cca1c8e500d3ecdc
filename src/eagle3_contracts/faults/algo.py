"""Faults of the family algo-match: algorithm, draft and target do not go together."""

from __future__ import annotations

from eagle3_contracts.faults import Fault
from eagle3_contracts.faults.edit import (
    draft_config,
    edited_config,
    in_turn,
    target_config,
    with_flags,
    without_draft,
    without_flag,
)

_ALGORITHM = "--speculative-algorithm"

FAULTS = (
    Fault(
        "launched-as-nextn",
        "the server is started with --speculative-algorithm NEXTN",
        on="llama-eagle3",
        edit=with_flags(f"{_ALGORITHM} NEXTN"),
    ),
    Fault(
        "eagle-draft-as-eagle3",
        "an EAGLE draft is launched as EAGLE-3",
        on="llama-eagle3",
        edit=draft_config(architectures=["LlamaForCausalLMEagle"], eagle_config=None),
        suspected=("a draft of kind eagle ",),
    ),
    Fault(
        "block-draft-as-eagle3",
        "a DFlash draft is launched as EAGLE-3",
        on="qwen3-dflash",
        edit=with_flags(f"{_ALGORITHM} EAGLE3"),
        suspected=("a draft of kind dflash",),
    ),
    Fault(
        "algorithm-misspelt",
        "the algorithm's name is misspelt",
        on="llama-eagle3",
        edit=with_flags(f"{_ALGORITHM} EAGEL3"),
    ),
    Fault(
        "algorithm-not-given",
        "the launch has flags for a draft and no algorithm",
        on="llama-eagle3",
        edit=without_flag(_ALGORITHM),
    ),
    Fault(
        "class-of-the-target",
        "the draft's config names the target's class",
        on="llama-eagle3",
        edit=draft_config(architectures=["LlamaForCausalLM"]),
    ),
    Fault(
        "class-of-a-later-release",
        "the draft's class is not in this release",
        on="llama-eagle3",
        edit=draft_config(architectures=["LlamaForCausalLMEagle3Plus"]),
    ),
    Fault(
        "draft-not-given",
        "the launch has no draft path",
        on="llama-eagle3",
        edit=without_draft,
        suspected=("EAGLE3 without a draft",),
    ),
    Fault(
        "bundled-head-missing",
        "the target is launched to draft for itself, and its config says it has no head",
        on="deepseek-v3-eagle3",
        edit=in_turn(
            without_draft,
            with_flags(f"{_ALGORITHM} NEXTN"),
            target_config(num_nextn_predict_layers=0),
        ),
        suspected=("config describes no head",),
    ),
    Fault(
        "nextn-without-head",
        "a target without a head is launched to draft for itself",
        on="llama-eagle3",
        edit=in_turn(without_draft, with_flags(f"{_ALGORITHM} NEXTN")),
    ),
    Fault(
        "markov-head-undescribed",
        "a DSpark draft's config does not describe its head",
        on="qwen3-dflash",
        edit=lambda s: edited_config(
            s, "draft", lambda c: c.update(architectures=["Qwen3DSparkModel"])
        ),
    ),
)
