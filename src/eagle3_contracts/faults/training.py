"""Faults of the family train-semantics: served otherwise than trained."""

from __future__ import annotations

from eagle3_contracts.faults import Fault
from eagle3_contracts.faults.edit import draft_config, nested_config, trained_with

FAULTS = (
    Fault(
        "trained-with-shifted-labels",
        "the labels of training were one token ahead",
        on="qwen3-dflash",
        edit=lambda s: trained_with(
            nested_config("dflash_config", shift_label=False)(s),
            dflash_config={"shift_label": True},
        ),
        suspected=("shift_label",),
    ),
    Fault(
        "trained-with-a-causal-mask",
        "the tokens of a block did not see one another in training",
        on="qwen3-dflash",
        edit=lambda s: trained_with(draft_config(is_causal=False)(s), is_causal=True),
        suspected=("is_causal",),
    ),
    Fault(
        "trained-with-norm-output",
        "norm_output was on in training, and is off in the export",
        on="llama-eagle3",
        edit=lambda s: trained_with(draft_config(norm_output=False)(s), norm_output=True),
        suspected=("norm_output",),
    ),
)
