"""Facts of the static tier about one part of a subject each; :mod:`facts` names their groups.

Everything here follows from configs, safetensors headers, small integer tensors and launch flags.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated


@dataclass(frozen=True, slots=True)
class VocabFacts:
    """The draft's vocabulary: its size, its head, and the maps d2t and t2d by value.

    Draft id i stands for target id i + d2t[i]; t2d is true for the target ids that have a draft id.
    """

    target_size: Annotated[int | None, "vocab_size of the target, else of the draft's config"]
    own_size: Annotated[int | None, "vocab_size of the draft's config"]
    is_whole: Annotated[bool, "the header lists whole layers, so that absent maps are absent"]
    draft_size: Annotated[int | None, "draft_vocab_size as declared, else the draft's vocab_size"]
    head_rows: Annotated[int | None, "rows of the draft's lm_head; null: none, or packed"]
    is_reduced: Annotated[
        bool | None, "the draft has fewer ids than the target; null: a size is unknown"
    ]
    d2t_size: Annotated[int | None, "elements of d2t; null: the checkpoint has none"]
    d2t_dtype: Annotated[str | None, "dtype of d2t"]
    t2d_size: Annotated[int | None, "elements of t2d; null: the checkpoint has none"]
    t2d_dtype: Annotated[str | None, "dtype of t2d"]
    t2d_true: Annotated[int | None, "true bits of t2d; null: its values are unknown"]
    out_of_range: Annotated[
        list[int] | None, "target ids that the target lacks, the first eight; null: unknown"
    ]
    repeated: Annotated[
        int | None, "draft ids whose target id another one has already; null: unknown"
    ]
    maps_differ: Annotated[
        int | None, "target ids that only one of d2t and t2d names; null: one is unknown by value"
    ]
    d2t_is_zero: Annotated[bool | None, "every offset of d2t is 0; null: its values are unknown"]
    d2t_is_absolute: Annotated[
        bool | None, "d2t is strictly increasing and makes sense only as target ids; null: unknown"
    ]
    last_target: Annotated[
        int | None, "largest target id that a draft id stands for; null: no map is known by value"
    ]
    trained_otherwise: Annotated[list[str], "vocabulary sizes that training.config has otherwise"]


@dataclass(frozen=True, slots=True)
class HeadFacts:
    """Who owns the draft's lm_head and embed_tokens."""

    has_head: Annotated[bool | None, "the checkpoint has an lm_head; null: unknown"]
    head_width: Annotated[int | None, "columns of lm_head; null: none, or packed"]
    has_embed: Annotated[bool | None, "the checkpoint has embed_tokens; null: unknown"]
    embed_rows: Annotated[int | None, "rows of embed_tokens"]
    embed_width: Annotated[int | None, "columns of embed_tokens"]
    is_tied: Annotated[bool, "the draft's config sets tie_word_embeddings"]
    states_target_width: Annotated[bool, "the draft's config sets target_hidden_size"]
    target_has_head: Annotated[bool | None, "the target's checkpoint has an lm_head; null: unknown"]
    target_is_tied: Annotated[bool | None, "tie_word_embeddings of the target; null: not stated"]
    unknown_keys: Annotated[
        list[str],
        "names of embedding or head by which training.config calls no tensor of the target",
    ]
    target_is_rotated: Annotated[bool, "the target's quantization rotates its residual stream"]
    trained_is_rotated: Annotated[bool | None, "is_rot_used of training.config; null: not stated"]


@dataclass(frozen=True, slots=True)
class ArchFacts:
    """Architecture-changing fields of the draft's config beside the tensors they belong to.

    What a header does not name is absent only if the header is whole, and unknown otherwise.
    """

    kind: Annotated[
        str | None,
        "eagle3, eagle, dflash, dspark, mtp, or plain (the class of a language model); null: "
        "nothing says",
    ]
    has_plain_class: Annotated[bool, "its class name is that of a language model, not of a draft"]
    model_type: Annotated[str | None, "model_type of the draft's layers"]
    num_layers: Annotated[int | None, "num_hidden_layers of the draft"]
    layers_found: Annotated[int | None, "decoder layers in the checkpoint; null: none by name"]
    is_whole: Annotated[
        bool, "the header lists whole layers, so that what it does not name is not there"
    ]
    fc_norm: Annotated[bool, "the config asks for a norm on each aux state (fc_norm, use_aux_norm)"]
    has_fc_norm: Annotated[bool | None, "the checkpoint has such norms; null: unknown"]
    norm_before_fc: Annotated[bool, "the config asks for one norm before the fc"]
    has_input_norm: Annotated[bool | None, "the checkpoint has such a norm; null: unknown"]
    attention_bias: Annotated[bool | None, "attention_bias of the config; null: not stated"]
    has_attention_bias: Annotated[bool | None, "it has biases of q, k or v; null: unknown"]
    fc_bias: Annotated[bool | None, "`bias` of the config; null: not stated"]
    has_fc_bias: Annotated[bool | None, "the checkpoint has fc.bias; null: unknown"]
    misnamed: Annotated[
        list[str], "tensors named midlayer, under a config of speculators, which says layers.0"
    ]
    missing: Annotated[list[str], "weights that every whole EAGLE-3 checkpoint has and this lacks"]
    is_latent: Annotated[bool, "its attention is multi-head latent attention (kv_lora_rank)"]
    wrong_shapes: Annotated[list[str], "weights whose shape is not the one of the config's sizes"]
    trained_otherwise: Annotated[list[str], "fields that training.config has otherwise"]


@dataclass(frozen=True, slots=True)
class BlockFacts:
    """The config of a draft that drafts a block at once (DFlash, DSpark)."""

    layer_ids: Annotated[
        list[int] | None,
        "target_layer_ids, else aux_hidden_state_layer_ids of speculators; null: not declared",
    ]
    layer_ids_key: Annotated[
        str | None, "key of these ids; SGLang reads target_layer_ids only; null: no ids"
    ]
    input_ids: Annotated[
        list[int] | None,
        "ids of layers whose inputs are taken, given beside target_layer_ids: "
        "aux_hidden_state_layers, else eagle_aux_hidden_state_layer_ids; null: none",
    ]
    num_features: Annotated[
        int | None, "states that its fc takes: the declared ids, else one per draft layer"
    ]
    num_target_layers: Annotated[int | None, "layers of the target that it was trained for"]
    block_sizes: Annotated[list[int], "block sizes by place in the config, without repetitions"]
    is_size_flagged: Annotated[bool, "the launch's flags give a block size or draft tokens"]
    proposals: Annotated[
        list[int],
        "tokens to propose at once: speculative_tokens of speculators_config, and "
        "num_speculative_tokens of vLLM's --speculative-config",
    ]
    max_proposal: Annotated[
        int | None,
        "new tokens in a block: all of it for a draft that samples from the token in front of it "
        "(DSpark, sample_from_anchor), one fewer for others; null: there is no one block size",
    ]
    mask_token_id: Annotated[int | None, "id of the token that stands for what is to be drafted"]
    markov_rank: Annotated[int | None, "rank of DSpark's Markov head; null: not stated"]
    shift_to_training: Annotated[
        int | None, "the one number that turns the training ids into these; null: there is none"
    ]


@dataclass(frozen=True, slots=True)
class RopeFacts:
    """The draft's rotary schedule, from the old schema (rope_theta, rope_scaling) or the new."""

    theta: Annotated[float | None, "base of the draft; null: not stated"]
    scaling: Annotated[str, "type and parameters of the draft's scaling; default: none"]
    is_stated: Annotated[bool, "the draft's config states a base or a scaling at all"]
    problems: Annotated[list[str], "why the schedule cannot be read"]
    target_theta: Annotated[float | None, "base of the target; null: not stated"]
    target_scaling: Annotated[str | None, "scaling of the target; null: its rope is not stated"]
    is_mrope: Annotated[bool, "the draft has mrope_section: positions in three axes"]
    target_is_mrope: Annotated[bool | None, "the target has; null: there is no target"]
    trained_otherwise: Annotated[list[str], "values that training.config has otherwise"]
    is_trained_known: Annotated[bool, "training.config states a base or a scaling"]


@dataclass(frozen=True, slots=True)
class QuantFacts:
    """Quantization and dtype of the draft, as declared and as its tensors are."""

    method: Annotated[str | None, "weight quantization of the draft's config; null: none declared"]
    quantized: Annotated[list[str], "tensors of weights that are packed, scaled or of 8 bits"]
    is_whole: Annotated[bool, "the header lists whole layers"]
    is_all_excluded: Annotated[bool, "the declared quantization leaves out every layer"]
    requested: Annotated[str | None, "--speculative-draft-model-quantization"]
    target_method: Annotated[str | None, "weight quantization that the target declares"]
    dtype: Annotated[str | None, "bfloat16, float16 or float32 as the draft's config says"]
    target_dtype: Annotated[str | None, "the same of the target"]
    other_dtypes: Annotated[
        list[str], "dtypes of unquantized weight matrices that are not the declared one"
    ]


@dataclass(frozen=True, slots=True)
class BundledFacts:
    """The draft head that the target's checkpoint bundles: MTP layers after its own layers."""

    num_tensors: Annotated[int, "tensors of the head; 0: the target bundles none"]
    num_quantized: Annotated[int, "tensors of the head that are packed, scaled or of 8 bits"]
    plain: Annotated[
        list[str],
        "unquantized matrices of the head of a kind that is quantized in the target's layers and "
        "that the target's config does not leave out",
    ]
    method: Annotated[str | None, "weight quantization that the target declares"]


@dataclass(frozen=True, slots=True)
class SemanticsFacts:
    """What training and inference do alike beside the draft's module: labels, masks, feedback."""

    trained_otherwise: Annotated[
        list[str],
        "values that training.config and the draft's config both state, with another value, and "
        "that belong to no other family",
    ]


@dataclass(frozen=True, slots=True)
class ContextFacts:
    """How many positions each side is made for, and how many are served."""

    draft_limit: Annotated[int | None, "positions of the draft, its rope scaling included"]
    target_limit: Annotated[int | None, "positions of the target, its rope scaling included"]
    served: Annotated[int | None, "--context-length, else the target's limit"]
    requested: Annotated[int | None, "--context-length"]
    allows_longer: Annotated[bool, "SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN is on"]


@dataclass(frozen=True, slots=True)
class PlaceholderFacts:
    """Ids that stand for images, videos and sound in the target's input."""

    ids: Annotated[dict[str, int], "ids by their key in the target's config"]
    draft_ids: Annotated[int | None, "vocab_size of the draft's config: ids that it can embed"]
    outside: Annotated[list[str], "keys of ids that the draft cannot embed"]


@dataclass(frozen=True, slots=True)
class AlgoFacts:
    """What the launch's algorithm expects."""

    serves: Annotated[list[str] | None, "kinds of drafts it is for; null: any, or unknown"]
    needs_draft: Annotated[bool, "it cannot do without a draft of its own"]
    takes_bundled: Annotated[bool, "it also serves a head that is part of the target"]
    captures_only: Annotated[
        bool, "--enable-return-aux-hidden-states: the algorithm only names how to capture"
    ]
    bundled: Annotated[
        bool | None, "the target's config or tensors hold a draft head; null: nothing says"
    ]


@dataclass(frozen=True, slots=True)
class ServingFacts:
    """Launch flags as values; null: not given, or of another type (see `release.bad_values`)."""

    num_steps: Annotated[int | None, "--speculative-num-steps"]
    topk: Annotated[int | None, "--speculative-eagle-topk"]
    num_draft_tokens: Annotated[int | None, "--speculative-num-draft-tokens"]
    dflash_block_size: Annotated[int | None, "--speculative-dflash-block-size"]
    dspark_block_size: Annotated[int | None, "--speculative-dspark-block-size"]
    window_size: Annotated[int | None, "--speculative-draft-window-size"]
    sink_size: Annotated[int | None, "--speculative-draft-sink-size"]
    page_size: Annotated[int | None, "--page-size"]
    pp_size: Annotated[int | None, "--pp-size"]
    disaggregation: Annotated[str | None, "--disaggregation-mode"]
    drafts_in_pipeline: Annotated[bool, "SGLANG_ENABLE_PP_SPEC is on"]
    attention_backend: Annotated[str | None, "--decode-attention-backend, else --attention-backend"]
    draft_backend: Annotated[str | None, "--speculative-draft-attention-backend"]
    dtype: Annotated[str | None, "--dtype; auto counts as not given"]
    quantization: Annotated[str | None, "--quantization"]
    draft_quantization: Annotated[str | None, "--speculative-draft-model-quantization"]
    is_adaptive: Annotated[bool, "--speculative-adaptive"]
    samples_rejection: Annotated[bool, "--speculative-use-rejection-sampling"]
    verifies_blocks: Annotated[bool, "--speculative-use-block-verification"]
    accepts_less: Annotated[bool, "an accept threshold below 1 is given"]
    has_dp_attention: Annotated[bool, "--enable-dp-attention, or --attn-dp-size above 1"]
    has_dp_head: Annotated[bool, "--enable-dp-lm-head"]
    tunes: Annotated[list[str], "given --speculative-* flags"]
    ignored: Annotated[list[str], "given flags that belong to another algorithm"]


@dataclass(frozen=True, slots=True)
class ReleaseFacts:
    """What the installed SGLang's sources say about the subject; nothing of it is imported."""

    algorithms: Annotated[list[str], "names that --speculative-algorithm takes"]
    unknown_flags: Annotated[list[str], "flags that the server does not have, with a suggestion"]
    bad_values: Annotated[list[str], "flags with a value that the server refuses"]
    draft_backends: Annotated[list[str], "attention backends that can decode an EAGLE draft"]
    target_known: Annotated[bool | None, "the target's architecture is registered; null: no name"]
    draft_known: Annotated[
        bool | None, "the draft's architecture is registered; null: it has no name"
    ]
    draft_class: Annotated[str | None, "class that a draft of this architecture is loaded with"]
    target_bundles: Annotated[bool, "the target's architecture is one that bundles a draft head"]
    capture_hook: Annotated[str | None, "method by which the target is told what to capture"]
    sets_capture: Annotated[bool | None, "the target's class has that method; null: unknown"]
    gives_embed_and_head: Annotated[bool | None, "it has get_embed_and_head; null: unknown"]
    passed_over: Annotated[
        list[str], "fields of the draft's config that its class does not read where they stand"
    ]
    guards_placeholders: Annotated[
        bool | None, "the draft's class takes embeddings of images from the target; null: unknown"
    ]
