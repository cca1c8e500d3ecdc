"""Quantization and dtype of the draft."""

from __future__ import annotations

from typing import Any

from eagle3_contracts import modelconfig
from eagle3_contracts.facts import Gap
from eagle3_contracts.modelconfig import Config
from eagle3_contracts.probes.parts.reading import (
    FLOATS,
    Tensors,
    draft_config,
    draft_tensors,
    is_whole,
    launch_flags,
    nested,
    target_config,
    target_text,
)
from eagle3_contracts.static_facts import QuantFacts
from eagle3_contracts.subject import ResolvedModel, ResolvedSubject, Tensor

_SCALES = (
    "weight_scale",
    "weight_scale_inv",
    "weight_scale_2",
    "weight_packed",
    "qweight",
    "qzeros",
    "scales",
    "blocks",
)
"""Last parts of names that only quantized weights have; those of the KV cache are others."""
_LISTS = ("ignore", "exclude", "exclude_modules", "modules_to_not_convert", "ignored_layers")
"""Keys of the modules that are not quantized."""
_ROUTERS = ("gate", "router")
_NARROW = ("F8_E4M3", "F8_E5M2", "F8_E4M3FNUZ", "F8_E5M2FNUZ", "U8", "I8", "F4", "I32")
_DTYPES = {"half": "float16", "float": "float32", "bf16": "bfloat16", "fp16": "float16"}
_STORED = {"bfloat16": "BF16", "float16": "F16", "float32": "F32"}


def read(subject: ResolvedSubject) -> QuantFacts | Gap:
    """Return what is declared and what the tensors are; a gap without a usable draft."""
    config = draft_config(subject)
    if isinstance(config, Gap):
        return config
    tensors = draft_tensors(subject)
    dtype = dtype_of(config) or dtype_of(modelconfig.draft_layers(config)[0])
    target = target_config(subject)
    return QuantFacts(
        method=method_of(subject.draft),
        quantized=quantized(tensors or {}),
        is_whole=is_whole(tensors),
        is_all_excluded=_is_all_excluded(subject.draft),
        requested=launch_flags(subject).get("speculative-draft-model-quantization"),
        target_method=method_of(subject.target),
        dtype=dtype,
        target_dtype=dtype_of(target_text(subject)) or dtype_of(target),
        other_dtypes=_others(tensors or {}, dtype),
    )


def dtype_of(config: Config) -> str | None:
    """Return the dtype that a config names, by its long name."""
    value = config.get("dtype") or config.get("torch_dtype")
    if not isinstance(value, str):
        return None
    name = value.removeprefix("torch.")
    return _DTYPES.get(name, name)


def method_of(model: ResolvedModel | None) -> str | None:
    """Return how the weights of a model are declared to be quantized; None: they are not.

    Transformers writes ``quantization_config`` into config.json, ModelOpt also writes
    hf_quant_config.json, where only the KV cache may be quantized.
    """
    found = _declared(model)
    method = found.get("quant_algo", found.get("quant_method"))
    return method.lower() if isinstance(method, str) and method.lower() != "none" else None


def _declared(model: ResolvedModel | None) -> dict[str, Any]:
    if model is None:
        return {}
    inner = nested(model.quant_config or {}, "quantization")
    if inner:
        return dict(inner)
    text = modelconfig.draft_layers(model.config)[0]
    places = (model.config, text, modelconfig.language_model(model.config)[0])
    keys = ("quantization_config", "compression_config")
    return next((dict(nested(p, key)) for p in places for key in keys if nested(p, key)), {})


def left_out(model: ResolvedModel | None) -> list[str]:
    """Return the entries by which the declared quantization leaves modules out."""
    declared = _declared(model)
    lists = [declared[key] for key in _LISTS if isinstance(declared.get(key), list)]
    return [entry for entries in lists for entry in entries if isinstance(entry, str)]


def _is_all_excluded(model: ResolvedModel | None) -> bool:
    return bool({"*", "re:.*"}.intersection(left_out(model)))


def quantized(tensors: Tensors) -> list[str]:
    """Return the tensors that only quantized weights have."""
    return [name for name, tensor in tensors.items() if _is_quantized(name, tensor)]


def _is_quantized(name: str, tensor: Tensor) -> bool:
    last = name.rpartition(".")[2]
    return last in _SCALES or (last == "weight" and tensor.dtype in _NARROW)


def _others(tensors: Tensors, dtype: str | None) -> list[str]:
    stored = _STORED.get(dtype or "")
    if stored is None:
        return []
    found = {t.dtype for n, t in tensors.items() if is_matrix(n, t)} - {stored}
    return sorted(found)


def is_matrix(name: str, tensor: Tensor) -> bool:
    """Return whether a tensor is an unquantized weight matrix.

    Norms, scales and routers of experts are often kept in float32, and are none.
    """
    module, _, last = name.rpartition(".")
    is_router = module.rpartition(".")[2] in _ROUTERS
    return last == "weight" and len(tensor.shape) == 2 and tensor.dtype in FLOATS and not is_router
