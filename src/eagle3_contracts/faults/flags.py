"""Faults of the families launch-flags and extraction: what is written on command lines."""

from __future__ import annotations

from eagle3_contracts.faults import Fault
from eagle3_contracts.faults.edit import edited_training, with_flags, without_flag

_ON = "llama-eagle3"

FAULTS = (
    Fault(
        "flag-misspelt",
        "a flag is misspelt",
        on=_ON,
        edit=with_flags("--speculative-num-drafts-tokens 4"),
    ),
    Fault(
        "steps-as-a-word",
        "the number of steps is no number",
        on=_ON,
        edit=with_flags("--speculative-num-steps three"),
        suspected=("-num-steps three: an integer",),
    ),
    Fault(
        "backend-misspelt",
        "the attention backend is misspelt",
        on=_ON,
        edit=with_flags("--attention-backend flash-infer"),
    ),
    Fault("no-steps", "no steps are drafted", on=_ON, edit=with_flags("--speculative-num-steps 0")),
    Fault(
        "topk-not-given",
        "steps are given, and top-k is not",
        on=_ON,
        edit=without_flag("--speculative-eagle-topk"),
        suspected=("top-k none",),
    ),
    Fault(
        "steps-not-given",
        "top-k and draft tokens are given, and steps are not",
        on=_ON,
        edit=without_flag("--speculative-num-steps"),
        suspected=("steps none",),
    ),
    Fault(
        "chain-too-short",
        "a chain is to verify as many tokens as it has steps",
        on=_ON,
        edit=with_flags("--speculative-num-draft-tokens 3"),
    ),
    Fault(
        "tree-too-small",
        "a tree has fewer nodes than tokens are to be verified",
        on=_ON,
        edit=with_flags(
            "--speculative-num-steps 1 --speculative-eagle-topk 4 --speculative-num-draft-tokens 8"
        ),
    ),
    Fault(
        "sink-without-window",
        "a sink is given without a window",
        on=_ON,
        edit=with_flags("--speculative-draft-sink-size 4"),
    ),
    Fault(
        "rejection-sampling-on-a-tree",
        "rejection sampling is asked for on a tree",
        on=_ON,
        edit=with_flags("--speculative-eagle-topk 4 --speculative-use-rejection-sampling"),
    ),
    Fault(
        "tree-on-trtllm",
        "a tree is to be verified by a backend without trees",
        on=_ON,
        edit=with_flags("--speculative-eagle-topk 4 --attention-backend trtllm_mha"),
    ),
    Fault(
        "draft-on-flex-attention",
        "the draft inherits a backend that cannot decode it",
        on=_ON,
        edit=with_flags("--attention-backend flex_attention"),
    ),
    Fault(
        "latent-backend-inherited",
        "a draft with ordinary attention inherits a backend for latent attention",
        on="kimi-k2.5-eagle3",
        edit=with_flags("--attention-backend trtllm_mla"),
    ),
    Fault(
        "flag-of-another-algorithm",
        "a flag of DFlash is given to EAGLE-3",
        on=_ON,
        edit=with_flags("--speculative-dflash-block-size 8"),
    ),
    Fault(
        "capture-only-with-draft",
        "a launch that only captures names a draft",
        on=_ON,
        edit=with_flags(
            "--speculative-draft-model-path owner/draft --enable-return-aux-hidden-states"
        ),
    ),
    Fault(
        "extracted-past-the-end",
        "the launcher counted a boundary as a layer",
        on=_ON,
        edit=lambda s: edited_training(s, layer_ids=(2, 15, 32)),
    ),
    Fault(
        "extracted-twice",
        "a layer was extracted twice",
        on=_ON,
        edit=lambda s: edited_training(s, layer_ids=(2, 2, 27)),
    ),
    Fault(
        "extracted-after-the-norm",
        "the last state is the last entry of hidden_states",
        on=_ON,
        edit=lambda s: edited_training(s, layer_ids=(3, 16, 32), convention="hf-index"),
    ),
    Fault(
        "eagle3-in-a-pipeline",
        "an EAGLE-3 draft is launched with pipeline parallelism",
        on=_ON,
        edit=with_flags("--pp-size 2"),
        suspected=("EAGLE3 on 2 pipeline stages",),
    ),
    Fault(
        "dp-attention-without-dp-head",
        "a DFlash draft is launched with attention in parallel over data, and the head is not",
        on="qwen3-dflash",
        edit=with_flags("--enable-dp-attention"),
    ),
)
