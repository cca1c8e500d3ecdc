"""Faults of the families rope, context and mm-tokens: positions and placeholders."""

from __future__ import annotations

from eagle3_contracts.faults import Fault
from eagle3_contracts.faults.edit import (
    draft_config,
    edited_training,
    in_turn,
    relaunched,
    target_config,
    with_flags,
)
from eagle3_contracts.subject import ResolvedSubject


def _at_full_length(subject: ResolvedSubject) -> ResolvedSubject:
    """Serve the target's whole context with the draft's limit overridden."""
    args = subject.launch.args if subject.launch else ""
    longer = {"SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN": "1"}
    return relaunched(subject, args.replace("--context-length 2048", ""), **longer)


FAULTS = (
    Fault(
        "rope-nested-by-layer-type",
        "rope_parameters has an entry for each type of layer",
        on="llama-eagle3",
        edit=draft_config(
            rope_theta=None,
            rope_parameters={"full_attention": {"rope_type": "default", "rope_theta": 10000.0}},
        ),
        suspected=("nested by layer type",),
    ),
    Fault(
        "rope-scaling-incomplete",
        "the scaling lacks its factor",
        on="llama-eagle3",
        edit=draft_config(rope_scaling={"type": "yarn", "beta_fast": 32.0}),
        suspected=("scaling without factor",),
    ),
    Fault(
        "rope-bases-contradict",
        "the two schemas name two bases",
        on="llama-eagle3",
        edit=draft_config(rope_parameters={"rope_type": "default", "rope_theta": 5000000.0}),
        suspected=("at the top and",),
    ),
    Fault(
        "rope-not-stated",
        "the export lost the rotary base",
        on="llama-eagle3",
        edit=draft_config(rope_theta=None),
    ),
    Fault(
        "rope-theta-not-exported",
        "the draft was trained with a base that the export does not state",
        on="llama-eagle3",
        edit=lambda s: edited_training(s, config={"rope_theta": 500000.0}),
        suspected=("rope_theta 10000, trained with",),
    ),
    Fault(
        "rope-scaling-dropped",
        "the export kept the base and dropped the scaling",
        on="kimi-k2.5-eagle3-mla",
        edit=draft_config(rope_scaling=None),
        suspected=("scaling default, trained with yarn",),
    ),
    Fault(
        "rope-of-training-unknown",
        "nobody wrote down which rotary schedule the draft was trained with",
        on="llama-eagle3",
        edit=lambda s: edited_training(s, config={}),
    ),
    Fault(
        "mrope-on-text",
        "mrope_section was copied from a multimodal verifier",
        on="llama-eagle3",
        edit=draft_config(rope_scaling={"rope_type": "default", "mrope_section": [16, 24, 24]}),
    ),
    Fault(
        "context-longer-than-draft",
        "the server is started with more positions than the draft has",
        on="llama-eagle3",
        edit=with_flags("--context-length 8192"),
    ),
    Fault(
        "context-longer-than-target",
        "the server is started with more positions than the target has",
        on="llama-eagle3",
        edit=with_flags("--context-length 262144"),
    ),
    Fault(
        "limit-overridden",
        "the draft's limit is overridden by the environment",
        on="llama-eagle3",
        edit=_at_full_length,
    ),
    Fault(
        "placeholder-outside",
        "the target's image token lies past the draft's vocabulary",
        on="gemma3-mm-eagle3",
        edit=target_config(image_token_index=262208),
    ),
    Fault(
        "placeholders-unguarded",
        "the draft's class looks every input id up in its embedding",
        on="gemma3-mm-eagle3",
        edit=in_turn(draft_config(architectures=["LlamaForCausalLMEagle"], eagle_config=None)),
    ),
)
