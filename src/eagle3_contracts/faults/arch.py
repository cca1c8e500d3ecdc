"""Faults of the family arch-flags: the config and the tensors tell of two modules."""

from __future__ import annotations

from eagle3_contracts.faults import Fault
from eagle3_contracts.faults.edit import (
    draft_config,
    in_turn,
    nested_config,
    tensor,
    trained_with,
)

_NORMS = in_turn(*(tensor(f"fc_norm.{i}.weight", (4096,)) for i in range(3)))
_INPUT_NORM = tensor("input_norm.weight", (12288,))


FAULTS = (
    Fault(
        "layers-of-the-target",
        "num_hidden_layers is that of the template",
        on="llama-eagle3",
        edit=draft_config(num_hidden_layers=4),
        suspected=("num_hidden_layers 4 expected",),
    ),
    Fault(
        "layer-too-many",
        "the checkpoint has a layer that the config does not count",
        on="qwen3-dflash",
        edit=draft_config(num_hidden_layers=1),
        suspected=("2 decoder layers",),
    ),
    Fault(
        "fc-norm-without-tensors",
        "fc_norm is on, and its norms were not trained",
        on="llama-eagle3",
        edit=draft_config(fc_norm=True),
        suspected=("fc_norm is on",),
    ),
    Fault(
        "fc-norm-unannounced",
        "the norms on the aux states are in the checkpoint only",
        on="llama-eagle3",
        edit=_NORMS,
        suspected=("fc_norm is off",),
    ),
    Fault(
        "norm-before-fc-without-tensor",
        "norm_before_fc is on, and its norm was not trained",
        on="llama-eagle3",
        edit=nested_config("eagle_config", norm_before_fc=True),
        suspected=("norm_before_fc is on",),
    ),
    Fault(
        "input-norm-unannounced",
        "the norm before the fc is in the checkpoint only",
        on="llama-eagle3",
        edit=_INPUT_NORM,
        suspected=("norm_before_fc is off",),
    ),
    Fault(
        "both-norms",
        "norm_before_fc and fc_norm are both on",
        on="llama-eagle3",
        edit=in_turn(draft_config(fc_norm=True, norm_before_fc=True), _NORMS, _INPUT_NORM),
    ),
    Fault(
        "fc-norm-nested",
        "fc_norm stands in eagle_config, where the class does not look for it",
        on="llama-eagle3",
        edit=in_turn(nested_config("eagle_config", fc_norm=True), _NORMS),
    ),
    Fault(
        "norm-before-residual",
        "the draft was trained with a residual that the class does not have",
        on="llama-eagle3",
        edit=draft_config(norm_before_residual=True),
        suspected=("does not read norm_before_residual",),
    ),
    Fault(
        "attention-bias-without-tensors",
        "attention_bias is on, and no biases were trained",
        on="llama-eagle3",
        edit=draft_config(attention_bias=True),
        suspected=("attention_bias is true",),
    ),
    Fault(
        "fc-bias-unannounced",
        "the bias of the fc is in the checkpoint only",
        on="llama-eagle3",
        edit=tensor("fc.bias", (4096,)),
    ),
    Fault(
        "head-dim-inferred",
        "head_dim was inferred from the hidden size, as in training it was not",
        on="llama-eagle3",
        edit=draft_config(head_dim=64),
        suspected=("32 heads x 64",),
    ),
    Fault(
        "intermediate-size-wrong",
        "intermediate_size is that of another draft",
        on="llama-eagle3",
        edit=draft_config(intermediate_size=16384),
        suspected=("intermediate_size = 16384",),
    ),
    Fault(
        "trained-with-another-mask-token",
        "training took the tokenizer's mask token, and the config names another",
        on="qwen3-dflash",
        edit=lambda s: trained_with(s, mask_token_id=151643),
        suspected=("mask_token_id 151669, trained with",),
    ),
    Fault(
        "trained-with-other-heads",
        "the attention that was trained has more key-value heads",
        on="llama-eagle3",
        edit=lambda s: trained_with(s, num_key_value_heads=16),
        suspected=("num_key_value_heads 8, trained with 16",),
    ),
)
