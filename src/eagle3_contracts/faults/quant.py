"""Faults of the family quant-dtype: quantization and dtype of the draft."""

from __future__ import annotations

from eagle3_contracts.faults import Fault
from eagle3_contracts.faults.edit import draft_config, edited_tensors, in_turn, tensor, with_flags
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
)
