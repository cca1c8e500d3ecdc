"""Shapes of a draft layer's weights, as the sizes of its config give them."""

from __future__ import annotations

from collections.abc import Iterator

from eagle3_contracts.modelconfig import Config
from eagle3_contracts.probes.parts.reading import FLOATS, Tensors, integer, named

_GATED = ("attn_output_gate", "use_output_gate", "attention_output_gate")
"""Switches with which q_proj has twice the rows."""


def wrong(config: Config, tensors: Tensors) -> list[str]:
    """Return texts for the weights of attention and mlp whose size is not that of the config.

    Only what is sure is compared: rows of q, k and v, columns of o, rows of gate and up, columns of
    down. Packed weights are passed over.
    """
    return [
        f"{name} has {given} {side}, {formula} = {size} expected"
        for suffix, side, formula, size in _sizes(config)
        for name, tensor in named(tensors, f"{suffix}.weight")
        if len(tensor.shape) == 2 and tensor.dtype in FLOATS
        for given in [tensor.shape[side == "columns"]]
        if given != size
    ]


def _sizes(config: Config) -> Iterator[tuple[str, str, str, int]]:
    heads = integer(config, "num_attention_heads")
    hidden = integer(config, "hidden_size")
    width = integer(config, "head_dim")
    if width is None and heads and hidden and not hidden % heads:
        width = hidden // heads
    is_latent = integer(config, "kv_lora_rank") is not None
    if heads and width and not is_latent and not any(config.get(key) for key in _GATED):
        key_heads = integer(config, "num_key_value_heads") or heads
        yield "q_proj", "rows", f"{heads} heads x {width}", heads * width
        yield "k_proj", "rows", f"{key_heads} key-value heads x {width}", key_heads * width
        yield "v_proj", "rows", f"{key_heads} key-value heads x {width}", key_heads * width
        yield "o_proj", "columns", f"{heads} heads x {width}", heads * width
    inner = integer(config, "intermediate_size")
    has_experts = integer(config, "num_experts", "n_routed_experts", "num_local_experts")
    if inner and not has_experts and config.get("model_type") != "llama4_text":
        yield "mlp.gate_proj", "rows", "intermediate_size", inner
        yield "mlp.up_proj", "rows", "intermediate_size", inner
        yield "mlp.down_proj", "columns", "intermediate_size", inner
