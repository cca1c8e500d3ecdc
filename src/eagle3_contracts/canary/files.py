"""Writing the canary as two ordinary checkpoint directories."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save_file

from eagle3_contracts.canary import matrices
from eagle3_contracts.canary.draft import draft_weights, vocabulary_map
from eagle3_contracts.canary.target import target_weights
from eagle3_contracts.canary.tokens import BOUNDARIES, DRAFT_VOCAB, NUM_LAYERS, VOCAB, token_ids

MAX_POSITIONS = 1024


@dataclass(frozen=True, slots=True)
class Canary:
    """The directories of a target and its draft."""

    target: Path
    draft: Path


def write_canary(folder: Path) -> Canary:
    """Write ``target`` and ``draft`` below ``folder``: config.json and model.safetensors, float32.

    The bytes are always the same. Raises OSError as writing files does.
    """
    canary = Canary(folder / "target", folder / "draft")
    _save(canary.target, target_config(), _float32(target_weights()))
    _save(canary.draft, draft_config(), {**_float32(draft_weights()), **vocabulary_map()})
    return canary


def target_config() -> dict[str, Any]:
    """Return the target's config.json."""
    own = {"architectures": ["LlamaForCausalLM"], "num_hidden_layers": NUM_LAYERS}
    return {**_config(), **own}


def draft_config() -> dict[str, Any]:
    """Return the draft's config.json; SGLang's id of a layer is one less than its boundary."""
    return {
        **_config(),
        "architectures": ["LlamaForCausalLMEagle3"],
        "num_hidden_layers": 1,
        "draft_vocab_size": DRAFT_VOCAB,
        "eagle_config": {
            "eagle_aux_hidden_state_layer_ids": [boundary - 1 for boundary in BOUNDARIES],
            "use_aux_hidden_state": True,
        },
    }


def _config() -> dict[str, Any]:
    none = int(token_ids()[-1])
    return {
        "model_type": "llama",
        "hidden_size": matrices.HIDDEN,
        "intermediate_size": matrices.INTERMEDIATE,
        "num_attention_heads": matrices.HEADS,
        "num_key_value_heads": matrices.KV_HEADS,
        "head_dim": matrices.HEAD_DIM,
        "vocab_size": VOCAB,
        "hidden_act": "silu",
        "rms_norm_eps": matrices.EPS,
        "max_position_embeddings": MAX_POSITIONS,
        "rope_theta": matrices.ROPE_BASE,
        "tie_word_embeddings": False,
        "attention_bias": False,
        "dtype": "float32",
        "bos_token_id": none,
        "eos_token_id": none,
    }


def _save(folder: Path, config: Mapping[str, Any], weights: Mapping[str, Any]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps(config, indent=2) + "\n"
    (folder / "config.json").write_text(text, encoding="utf-8")
    save_file(dict(weights), folder / "model.safetensors", metadata={"format": "pt"})


def _float32(weights: Mapping[str, matrices.Array]) -> dict[str, Any]:
    return {name: weight.astype(np.float32) for name, weight in weights.items()}
