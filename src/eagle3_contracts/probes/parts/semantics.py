"""Values that decide what training and inference do alike, beside the draft's module."""

from __future__ import annotations

from eagle3_contracts.facts import Gap
from eagle3_contracts.probes.parts import arch
from eagle3_contracts.probes.parts.reading import draft_config, flat, otherwise, trained_config
from eagle3_contracts.static_facts import SemanticsFacts
from eagle3_contracts.subject import ResolvedSubject

_ROPE = ("rope_theta", "rope_scaling", "rope_parameters", "rope_type", "partial_rotary_factor")
_LENGTHS = ("max_position_embeddings", "max_sequence_length", "seq_length", "model_max_length")
_SIZES = ("vocab_size", "draft_vocab_size")
_LAYERS = ("target_layer_ids", "aux_hidden_state_layer_ids", "eagle_aux_hidden_state_layer_ids")
_STORED = ("dtype", "torch_dtype", "quantization_config", "tie_word_embeddings")
_PAPERS = (
    "architectures",
    "auto_map",
    "model_type",
    "transformers_version",
    "speculators_model_type",
    "speculators_version",
    "speculators_config",
    "use_cache",
)
_NESTED = ("eagle_config", "dflash_config", "transformer_layer_config")
OTHERS = {*arch.TRAINED, *_ROPE, *_LENGTHS, *_SIZES, *_LAYERS, *_STORED, *_PAPERS, *_NESTED}
"""Fields that other families compare, or that change nothing that is computed."""


def read(subject: ResolvedSubject) -> SemanticsFacts | Gap:
    """Return where training and the draft's config differ; a gap without a usable draft."""
    config = draft_config(subject)
    if isinstance(config, Gap):
        return config
    served, trained = flat(config), flat(trained_config(subject))
    keys = tuple(key for key in trained if key not in OTHERS and not key.startswith("_"))
    return SemanticsFacts(trained_otherwise=otherwise(served, trained, keys))
