"""The twin: a target's or draft's own config, shrunk in width and kept in depth.

The number of layers, the layer pattern, the wrapper class and every flag stay, so that layer ids
mean what they mean for the real model; widths, head counts, experts and the vocabulary shrink
until the whole model fits into a megabyte or two.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

HIDDEN = 64
"""Width of the twin's residual stream."""

VOCAB = 256
"""Number of token ids of the twin."""

_TEXT = ("text_config", "llm_config", "language_config")
_VISION = ("vision_config", "audio_config")

_WIDTHS = {
    "intermediate_size": 96,
    "intermediate_size_mlp": 96,
    "moe_intermediate_size": 32,
    "shared_expert_intermediate_size": 32,
    "moe_shared_expert_intermediate_size": 32,
    "head_dim": 16,
    "q_lora_rank": 32,
    "kv_lora_rank": 32,
    "qk_nope_head_dim": 16,
    "qk_rope_head_dim": 16,
    "v_head_dim": 16,
    "linear_key_head_dim": 16,
    "linear_value_head_dim": 16,
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 4,
    "num_attention_heads": 4,
    "query_pre_attn_scalar": 16,
}
_EXPERTS = {
    "num_experts": 2,
    "n_routed_experts": 2,
    "num_local_experts": 2,
    "num_experts_per_tok": 2,
    "n_group": 1,
    "topk_group": 1,
}
_VISION_SIZES = {
    "hidden_size": 32,
    "intermediate_size": 32,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "mm_hidden_size": 32,
    "projector_input_dim": 32,
    "projector_output_dim": 32,
    "vision_output_dim": 32,
    "image_size": 56,
    "patch_size": 14,
}


def target_twin(config: Mapping[str, Any], dtype: str | None = None) -> dict[str, Any]:
    """Return the twin's config.json for a target's config.json; both may be nested.

    With ``dtype`` the twin says that it is stored in it: some classes, as gpt-oss, allocate by
    what the config says and not by how the server is started.
    """
    twin = {key: value for key, value in config.items() if key != "quantization_config"}
    nested = [key for key in _TEXT if isinstance(config.get(key), Mapping)]
    for key in nested:
        twin[key] = target_twin(config[key], dtype)
    for key in _VISION:
        if isinstance(config.get(key), Mapping):
            twin[key] = _vision(config[key])
    if not nested:
        twin.update(_decoder(config, HIDDEN))
    for key in ("dtype", "torch_dtype"):
        if dtype is not None and key in config:
            twin[key] = dtype
    return _bounded_ids(twin)


def draft_twin(config: Mapping[str, Any], *, target_hidden: int | None) -> dict[str, Any]:
    """Return the twin's config.json for a draft of a target that is ``target_hidden`` wide.

    Equal widths stay equal and different ones stay different, because a draft decides by its
    width whether it fuses the aux states.
    """
    same = target_hidden is None or config.get("hidden_size") in (target_hidden, None)
    twin = {key: value for key, value in config.items() if key != "quantization_config"}
    twin.update(_decoder(config, HIDDEN if same else HIDDEN // 2))
    if "target_hidden_size" in config:
        known = target_hidden is None or config["target_hidden_size"] == target_hidden
        twin["target_hidden_size"] = HIDDEN if known else HIDDEN + 16
    if "draft_vocab_size" in config:
        full = config["draft_vocab_size"] in (config.get("vocab_size"), None)
        twin["draft_vocab_size"] = VOCAB if full else VOCAB // 2
    return _bounded_ids(twin)


def _decoder(config: Mapping[str, Any], hidden: int) -> dict[str, Any]:
    sizes = {**_WIDTHS, **_EXPERTS}
    twin: dict[str, Any] = {
        k: v for k, v in sizes.items() if isinstance(config.get(k), int | float)
    }
    if isinstance(config.get("num_experts_per_tok"), int):
        twin["num_experts_per_tok"] = min(2, config["num_experts_per_tok"])
    if isinstance(config.get("num_key_value_heads"), int):
        grouped = config["num_key_value_heads"] != config.get("num_attention_heads")
        twin["num_key_value_heads"] = 2 if grouped else 4
    if "hidden_size" in config:
        twin["hidden_size"] = hidden
    if "vocab_size" in config:
        twin["vocab_size"] = VOCAB
    if "head_dim" not in config and "qk_nope_head_dim" not in config:
        twin["head_dim"] = _WIDTHS["head_dim"]
    if config.get("initializer_range") is not None or "hidden_size" in config:
        # With the usual 0.02 a layer of this width would hardly change the residual stream.
        twin["initializer_range"] = 0.1
    return {**twin, **_positions(config, twin)}


def _positions(config: Mapping[str, Any], twin: Mapping[str, Any]) -> dict[str, Any]:
    """Return what says how positions are encoded, for heads as wide as the twin's."""
    sizes = {}
    if isinstance(config.get("max_position_embeddings"), int):
        # The rope's table has a row for each position: ten million for some models.
        sizes["max_position_embeddings"] = min(config["max_position_embeddings"], 8192)
    if isinstance(config.get("rotary_dim"), int) and isinstance(config.get("head_dim"), int):
        # A part of each head, said as a number and not as a fraction.
        sizes["rotary_dim"] = config["rotary_dim"] * twin["head_dim"] // config["head_dim"]
    return sizes


def _vision(config: Mapping[str, Any]) -> dict[str, Any]:
    twin = dict(config)
    for key, size in _VISION_SIZES.items():
        # Kimi's files say vt_hidden_size where its config class reads hidden_size.
        if f"vt_{key}" in config:
            twin[key] = twin[f"vt_{key}"] = size
        elif isinstance(config.get(key), int):
            twin[key] = size
    if "text_hidden_size" in config:
        twin["text_hidden_size"] = HIDDEN
    return twin


def _bounded_ids(config: dict[str, Any]) -> dict[str, Any]:
    """Move token ids that the shrunk vocabulary lacks to its end, each to a place of its own."""
    last = VOCAB
    for key, value in sorted(config.items()):
        is_id = key.endswith(("_token_id", "_token_index"))
        if is_id and isinstance(value, int) and value >= VOCAB:
            last -= 1
            config[key] = last
    return config
