"""Faults of the family quant-dtype: quantization and dtype of the draft."""

from __future__ import annotations

from eagle3_contracts.faults import Fault
from eagle3_contracts.faults.edit import (
    draft_config,
    edited_tensors,
    in_turn,
    target_config,
    target_tensors,
    tensor,
    with_flags,
)
from eagle3_contracts.subject import Tensor

_Q = "midlayer.self_attn.q_proj.weight"


def _as_float32(tensors: dict[str, Tensor]) -> None:
    for name, old in tensors.items():
        if old.dtype == "BF16":
            tensors[name] = Tensor(dtype="F32", shape=old.shape)


FAULTS = (
    Fault(
        "quantization-not-declared",
        "the draft is FP8, and its config does not say so",
        on="llama-eagle3",
        edit=in_turn(tensor(_Q, (4096, 8192), "F8_E4M3"), tensor(f"{_Q}_scale", (1,), "F32")),
    ),
    Fault(
        "quantization-of-the-target-copied",
        "the draft's config was copied from a quantized target",
        on="llama-eagle3",
        edit=draft_config(
            quantization_config={"quant_method": "fp8", "weight_block_size": [128, 128]}
        ),
    ),
    Fault(
        "quantization-inherited",
        "the target is launched as AWQ, and the draft inherits it",
        on="llama-eagle3",
        edit=with_flags("--quantization awq"),
    ),
    Fault(
        "stored-as-float32",
        "the export wrote all weights as float32",
        on="llama-eagle3",
        edit=lambda subject: edited_tensors(subject, _as_float32),
    ),
    Fault(
        "draft-of-another-dtype",
        "the draft's dtype is not the target's",
        on="llama-eagle3",
        edit=draft_config(dtype="float16"),
    ),
    Fault(
        "embedding-in-float32",
        "the embedding was saved as it was made, in float32",
        on="kimi-k2.5-eagle3-mla",
        edit=tensor("embed_tokens.weight", (163840, 7168), "F32"),
    ),
    Fault(
        "bundled-head-not-quantized",
        "the target's quantization passed its draft head over, and its config does not say so",
        on="deepseek-v3-eagle3",
        edit=in_turn(
            target_config("quantization_config", quant_method="fp8"),
            target_tensors("model.layers.60.mlp.gate_proj.weight", dtype="F8_E4M3"),
            target_tensors("model.layers.61.mlp.gate_proj.weight"),
        ),
    ),
)
