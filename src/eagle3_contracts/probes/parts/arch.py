"""Architecture-changing fields of the draft's config, and the tensors that belong to them."""

from __future__ import annotations

import re
from collections.abc import Iterator

from eagle3_contracts import modelconfig
from eagle3_contracts.facts import Gap
from eagle3_contracts.modelconfig import Config
from eagle3_contracts.probes.parts import kinds, shapes
from eagle3_contracts.probes.parts.reading import (
    Tensors,
    draft_config,
    draft_tensors,
    flat,
    integer,
    is_whole,
    named,
    nested,
    otherwise,
    present,
    trained_config,
)
from eagle3_contracts.static_facts import ArchFacts
from eagle3_contracts.subject import ResolvedSubject

_LAYER = re.compile(r"(?:^|\.)(?:layers\.(\d+)|(midlayer))\.")
_NORM = re.compile(r"(?:^|\.)(?:fc_norm\.\d+|aux_norm_\w+)\.weight$")
_BIASES = ("q_proj.bias", "k_proj.bias", "v_proj.bias", "qkv_proj.bias")
_FUSED = ((("q_proj", "k_proj", "v_proj"), "qkv_proj"), (("gate_proj", "up_proj"), "gate_up_proj"))
"""Weights that come together, and the name under which they come as one."""
TRAINED = (
    "hidden_size",
    "intermediate_size",
    "num_hidden_layers",
    "num_attention_heads",
    "num_key_value_heads",
    "head_dim",
    "hidden_act",
    "rms_norm_eps",
    "attention_bias",
    "mlp_bias",
    "bias",
    "norm_before_fc",
    "norm_before_residual",
    "fc_norm",
    "use_aux_norm",
    "use_aux_hidden_state",
    "num_aux_hidden_states",
    "target_hidden_size",
    "block_size",
    "mask_token_id",
    "markov_rank",
    "markov_head_type",
    "sliding_window",
    "layer_types",
    "kv_lora_rank",
    "q_lora_rank",
)
"""Fields that change what a draft computes; those of other families are left to them."""


def read(subject: ResolvedSubject) -> ArchFacts | Gap:
    """Return fields and tensors side by side; a gap without a usable draft."""
    config = draft_config(subject)
    if isinstance(config, Gap):
        return config
    layers = modelconfig.draft_layers(config)[0]
    tensors = draft_tensors(subject)
    kind = kinds.kind_of(config)
    return ArchFacts(
        kind=kind,
        has_plain_class=kinds.is_plain(config),
        model_type=str(layers.get("model_type") or config.get("model_type") or "") or None,
        num_layers=integer(layers, "num_hidden_layers"),
        layers_found=_layers(tensors),
        is_whole=is_whole(tensors),
        fc_norm=_is_set(config, "fc_norm") or _is_set(config, "use_aux_norm"),
        has_fc_norm=present(tensors, any(_NORM.search(name) for name in tensors or ())),
        norm_before_fc=_is_set(config, "norm_before_fc"),
        has_input_norm=present(tensors, any(named(tensors or {}, "input_norm.weight"))),
        attention_bias=_stated(layers, "attention_bias"),
        has_attention_bias=present(tensors, any(named(tensors or {}, *_BIASES))),
        fc_bias=_stated(config, "bias"),
        has_fc_bias=present(tensors, any(named(tensors or {}, "fc.bias"))),
        misnamed=_misnamed(config, tensors or {}),
        missing=list(_missing(tensors or {})) if kind == "eagle3" and is_whole(tensors) else [],
        is_latent=integer(layers, "kv_lora_rank") is not None,
        wrong_shapes=shapes.wrong(layers, tensors or {}) if kind in ("eagle3", "dflash") else [],
        trained_otherwise=otherwise(flat(config), flat(trained_config(subject)), TRAINED),
    )


def _is_set(config: Config, key: str) -> bool:
    """Return whether a switch is on, nested or at the top."""
    return nested(config, "eagle_config").get(key) is True or config.get(key) is True


def _stated(config: Config, key: str) -> bool | None:
    value = config.get(key)
    return value if isinstance(value, bool) else None


def _layers(tensors: Tensors | None) -> int | None:
    """Return how many decoder layers the names of the tensors tell apart."""
    found = {m[1] or "0" for name in tensors or () if (m := _LAYER.search(name))}
    return len(found) or None


def _misnamed(config: Config, tensors: Tensors) -> list[str]:
    """Return tensors under the name that a conversion to the speculators format takes away."""
    if "speculators_model_type" not in config:
        return []
    return [name for name in tensors if "midlayer" in name.split(".")]


def _missing(tensors: Tensors) -> Iterator[str]:
    """Yield the weights that a whole EAGLE-3 checkpoint must have and this one has not."""
    modules = {module for name in tensors for module in name.split(".")}
    if "fc" not in modules:
        yield "fc"
    for parts, fused in _FUSED:
        if fused not in modules and modules.intersection(parts):
            yield from (part for part in parts if part not in modules)
