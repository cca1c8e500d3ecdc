"""Facts: what probes find out about a subject, as plain records that rules can name.

A rule says ``draft.fc_in`` and means field ``fc_in`` of :class:`DraftFacts`, so the classes below
are the vocabulary of the contract files. No tensors and no code: every record turns into JSON. A
field is None when the subject does not say; a whole group is a :class:`Gap` when nothing could be
found out, with the reason.

Boundary k is the residual stream after k decoder layers: boundary 0 is the output of the
embedding, boundary n the output of the last of n layers before the final norm.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Annotated, Any, get_args, get_type_hints

from eagle3_contracts.class_facts import LendingFacts, ReadingFacts, StepFacts
from eagle3_contracts.engine_facts import CanaryFacts, EngineFacts, MemoryFacts
from eagle3_contracts.static_facts import (
    AlgoFacts,
    ArchFacts,
    BlockFacts,
    BundledFacts,
    ContextFacts,
    HeadFacts,
    PlaceholderFacts,
    QuantFacts,
    ReleaseFacts,
    RopeFacts,
    SemanticsFacts,
    ServingFacts,
    VocabFacts,
)


class Tier(StrEnum):
    """How much has to run, cheapest first."""

    STATIC = "static"
    LOAD = "load"
    MODEL = "model"
    ENGINE = "engine"
    LIVE = "live"

    @property
    def cost(self) -> int:
        """Position in the order of cost; 0 is the cheapest."""
        return _COSTS[self]


_COSTS = {tier: cost for cost, tier in enumerate(Tier)}


@dataclass(frozen=True, slots=True)
class SubjectFacts:
    """What the subject as a whole is about."""

    name: Annotated[str, "name of the subject"]
    engine: Annotated[str | None, "serving engine of the launch: sglang, vllm; null: no launch"]
    algorithm: Annotated[str | None, "value of --speculative-algorithm, upper case; null: none"]
    has_draft: Annotated[bool, "a draft is part of the subject"]
    has_target: Annotated[bool, "a target is part of the subject"]
    captures: Annotated[
        bool,
        "the target has to hand aux hidden states to the draft: an EAGLE-3 draft whose config does "
        "not switch use_aux_hidden_state off",
    ]


@dataclass(frozen=True, slots=True)
class TargetFacts:
    """The target's config.json, the language model's part of it where it is nested."""

    architecture: Annotated[str | None, "first of `architectures`"]
    model_type: Annotated[str | None, "model_type of the outermost config"]
    hidden_size: Annotated[int | None, "width of the residual stream"]
    num_layers: Annotated[int | None, "number of decoder layers, n"]
    vocab_size: Annotated[int | None, "number of token ids"]
    is_nested: Annotated[
        bool,
        "the language model's config lies in thinker_config, llm_config, language_config or "
        "text_config",
    ]


@dataclass(frozen=True, slots=True)
class DraftFacts:
    """The draft's config.json, wherever its writer put the values (nested or top level)."""

    architecture: Annotated[str | None, "first of `architectures`"]
    hidden_size: Annotated[int | None, "width of the draft's own layers"]
    target_hidden_size: Annotated[
        int | None, "width of one aux state: target_hidden_size, else the target's, else its own"
    ]
    layer_ids: Annotated[list[int] | None, "declared ids of the layers to capture; null: none"]
    layer_ids_key: Annotated[
        str | None,
        "where the ids stand: eagle_config.eagle_aux_hidden_state_layer_ids, from which SGLang "
        "captures, or eagle_aux_hidden_state_layer_ids, which only sets widths; null: no ids",
    ]
    use_aux_hidden_state: Annotated[
        bool, "false only where the config switches it off (eagle_config first, then the top level)"
    ]
    num_aux: Annotated[
        int, "aux states the draft takes: num_aux_hidden_states, else the declared ids, else 3"
    ]
    aux_width: Annotated[
        int | None, "width that the fc has to take: num_aux x target_hidden_size (1 x without aux)"
    ]
    vocab_size: Annotated[int | None, "vocab_size of the config"]
    draft_vocab_size: Annotated[int | None, "rows of the draft's lm_head as declared"]


@dataclass(frozen=True, slots=True)
class LaunchFacts:
    """How the subject is served, as its flags say."""

    algorithm: Annotated[str | None, "value of --speculative-algorithm, upper case"]
    draft_path: Annotated[str | None, "value of --speculative-draft-model-path"]
    flags: Annotated[dict[str, str], "every flag without its dashes; a switch is 'true'"]


@dataclass(frozen=True, slots=True)
class TrainingFacts:
    """What is known of the hidden states that the draft was trained on."""

    layer_ids: Annotated[list[int] | None, "ids as the training tool was given them"]
    convention: Annotated[str | None, "output-of, input-of, hf-index; null: unknown"]
    boundaries: Annotated[list[int] | None, "boundaries meant by ids and convention, in order"]
    tool: Annotated[str | None, "specforge, speculators, modelopt, hf or other"]
    shift_to_draft: Annotated[
        int | None,
        "the one number that turns the training ids into the draft's ids; null: there is none, or "
        "one of the lists is unknown",
    ]


@dataclass(frozen=True, slots=True)
class CheckpointFacts:
    """The draft's safetensors headers; no weights are read."""

    num_tensors: Annotated[int, "tensors named in the headers"]
    missing_shards: Annotated[list[str], "files that the index names and the directory lacks"]
    missing_tensors: Annotated[list[str], "tensors that the index names and the shards lack"]
    fc_in: Annotated[
        int | None,
        "second dimension of the tensor `fc.weight`, or of the only `*.fc.weight`; null: no such "
        "matrix, or its numbers are packed",
    ]
    fc_out: Annotated[int | None, "first dimension of that tensor"]


@dataclass(frozen=True, slots=True)
class WeightFacts:
    """The values of the draft's weights, read on request only (--weights)."""

    num_read: Annotated[int, "tensors that were looked at; packed ones and integers are not"]
    not_finite: Annotated[list[str], "tensors with values that are infinite or not a number"]
    constant: Annotated[list[str], "matrices whose values are all the same, and norms of zeros"]
    initializer_range: Annotated[float, "initializer_range of the draft's config, else 0.02"]
    is_initial: Annotated[
        bool, "all norms are exactly one and all matrices spread as initializer_range says"
    ]


@dataclass(frozen=True, slots=True)
class HookFacts:
    """Which hooks the real target class offers to an EAGLE-3 draft."""

    target_class: Annotated[str, "class that the registry gave for the target"]
    sets_capture: Annotated[bool, "it has set_eagle3_layers_to_capture"]
    gives_embed_and_head: Annotated[bool, "it has get_embed_and_head"]


@dataclass(frozen=True, slots=True)
class ParserFacts:
    """What SGLang's own parser says of the launch's flags; nothing is resolved or started."""

    refusal: Annotated[str | None, "the error with which the parser refused; null: it took them"]


@dataclass(frozen=True, slots=True)
class LoadFacts:
    """The real draft class at its real size, filled by its real ``load_weights`` from headers."""

    draft_class: Annotated[str, "class that the registry gave for the draft"]
    refusal: Annotated[str | None, "the exception with which the loader refused"]
    ignored: Annotated[list[str], "checkpoint tensors that the loader did nothing with"]
    ignored_weights: Annotated[
        list[str], "ignored tensors of floating dtype; vocabulary maps and rope tables left out"
    ]
    unfilled: Annotated[
        list[str], "parameters that got nothing, or a part only, and that the target does not share"
    ]
    shared: Annotated[list[str], "parameters that the engine takes from the target"]
    replaced: Annotated[list[str], "shared parameters that the checkpoint had filled"]
    wrong_shapes: Annotated[list[str], "tensors that the loader refused for their shape"]
    fc_in: Annotated[int | None, "inputs of the draft's fc; null: it has none"]
    fc_out: Annotated[int | None, "outputs of the draft's fc; null: it has none"]
    embed_width: Annotated[
        int | None, "width of the draft's embedding: states of this width are not fused"
    ]


@dataclass(frozen=True, slots=True)
class CaptureFacts:
    """What the target's twin captured when the real class ran: one extend, then one decode.

    The twin has the target's own config with widths shrunk and depth kept. Errors are largest
    absolute differences, as a fraction of the boundary's largest absolute value.
    """

    target_class: Annotated[str, "class that ran"]
    ids: Annotated[list[int] | None, "ids that SGLang read from the draft's config; null: none"]
    refusal: Annotated[str | None, "the exception with which the class refused to capture"]
    enabled: Annotated[bool, "aux hidden states arrived at the logits processor"]
    inner_flag: Annotated[bool | None, "capture_aux_hidden_states of the innermost model with it"]
    inner_layers: Annotated[list[int] | None, "layers marked in the decoder, sorted; null: unknown"]
    count: Annotated[int, "aux states that arrived"]
    width: Annotated[int, "numbers per token that the engine hands to the draft"]
    hidden_size: Annotated[int, "width of one state in the twin"]
    num_layers: Annotated[int, "decoder layers of the twin: as many as the target's"]
    boundaries: Annotated[list[int], "nearest boundary of each aux state, in order"]
    error: Annotated[float, "largest error of an aux state against its nearest boundary"]
    runner_up: Annotated[float, "smallest error of an aux state against any other boundary"]
    exact: Annotated[bool, "every aux state equals its nearest boundary within the tolerance"]
    reference: Annotated[str | None, "transformers class that ran the same weights; null: none has"]
    reference_error: Annotated[float, "largest error of SGLang's boundaries against transformers'"]
    agrees: Annotated[bool, "SGLang's boundaries equal transformers' within the tolerance"]
    decode_boundaries: Annotated[list[int], "nearest boundary of each aux state of the decode step"]
    decode_exact: Annotated[bool, "every aux state of the decode step equals its boundary"]


@dataclass(frozen=True, slots=True)
class FusionFacts:
    """What the real draft class did with the states that its target's twin handed over."""

    draft_class: Annotated[str, "class that ran"]
    refusal: Annotated[
        str | None,
        "the exception with which the target lent nothing or the draft refused the states",
    ]
    input_width: Annotated[int, "numbers per token handed to the draft"]
    hidden_size: Annotated[int, "width of one aux state in the twin"]
    fc_in: Annotated[int | None, "inputs of the twin's fc; null: it has none"]
    fc_calls: Annotated[int, "times the fc ran in one forward of the draft"]
    embed_width: Annotated[int, "width of the draft's embedding: states of this width skip the fc"]


@dataclass(frozen=True, slots=True)
class EnvironmentFacts:
    """Where the probes ran."""

    device: Annotated[str, "cpu or cuda"]
    python: Annotated[str, "version of Python"]
    sglang: Annotated[str | None, "installed version of SGLang; null: not installed"]
    torch: Annotated[str | None, "installed version of torch"]
    transformers: Annotated[str | None, "installed version of transformers"]


Record = (
    SubjectFacts
    | TargetFacts
    | DraftFacts
    | LaunchFacts
    | TrainingFacts
    | CheckpointFacts
    | AlgoFacts
    | ArchFacts
    | BlockFacts
    | BundledFacts
    | ContextFacts
    | HeadFacts
    | PlaceholderFacts
    | QuantFacts
    | ReleaseFacts
    | RopeFacts
    | SemanticsFacts
    | ServingFacts
    | VocabFacts
    | WeightFacts
    | HookFacts
    | ParserFacts
    | LoadFacts
    | CaptureFacts
    | FusionFacts
    | ReadingFacts
    | StepFacts
    | LendingFacts
    | EngineFacts
    | CanaryFacts
    | MemoryFacts
    | EnvironmentFacts
)

GROUPS: Mapping[str, tuple[type[Record], Tier]] = {
    "subject": (SubjectFacts, Tier.STATIC),
    "environment": (EnvironmentFacts, Tier.STATIC),
    "target": (TargetFacts, Tier.STATIC),
    "draft": (DraftFacts, Tier.STATIC),
    "launch": (LaunchFacts, Tier.STATIC),
    "training": (TrainingFacts, Tier.STATIC),
    "checkpoint": (CheckpointFacts, Tier.STATIC),
    "vocab": (VocabFacts, Tier.STATIC),
    "head": (HeadFacts, Tier.STATIC),
    "arch": (ArchFacts, Tier.STATIC),
    "block": (BlockFacts, Tier.STATIC),
    "rope": (RopeFacts, Tier.STATIC),
    "quant": (QuantFacts, Tier.STATIC),
    "bundled": (BundledFacts, Tier.STATIC),
    "semantics": (SemanticsFacts, Tier.STATIC),
    "context": (ContextFacts, Tier.STATIC),
    "placeholder": (PlaceholderFacts, Tier.STATIC),
    "algo": (AlgoFacts, Tier.STATIC),
    "serving": (ServingFacts, Tier.STATIC),
    "release": (ReleaseFacts, Tier.STATIC),
    "weights": (WeightFacts, Tier.STATIC),
    "hooks": (HookFacts, Tier.LOAD),
    "parser": (ParserFacts, Tier.LOAD),
    "load": (LoadFacts, Tier.LOAD),
    "capture": (CaptureFacts, Tier.MODEL),
    "fusion": (FusionFacts, Tier.MODEL),
    "reading": (ReadingFacts, Tier.MODEL),
    "dflash": (ReadingFacts, Tier.MODEL),
    "steps": (StepFacts, Tier.MODEL),
    "lending": (LendingFacts, Tier.MODEL),
    "engine": (EngineFacts, Tier.ENGINE),
    "canary": (CanaryFacts, Tier.ENGINE),
    "memory": (MemoryFacts, Tier.ENGINE),
}
"""Name of each group in rules, its record, and the cheapest tier that yields it."""


class GapKind(StrEnum):
    """Why a group of facts is not there."""

    ABSENT = "absent"  # the subject has no such part: contracts about it do not apply
    UNTESTABLE = "untestable"  # a prerequisite is missing: counts as a failure
    BROKEN = "broken"  # the probe itself went wrong


@dataclass(frozen=True, slots=True)
class Gap:
    """A group of facts that could not be had, and why."""

    kind: GapKind
    reason: str


Facts = Mapping[str, Record | Gap]
"""All groups that were asked for, by name."""


def field_types(group: str) -> dict[str, Any]:
    """Return the plain type of every field of ``group``."""
    return dict(get_type_hints(GROUPS[group][0]))


def field_docs(group: str) -> dict[str, str]:
    """Return the meaning of every field of ``group``."""
    hints = get_type_hints(GROUPS[group][0], include_extras=True)
    return {name: get_args(hint)[1] for name, hint in hints.items()}


def as_variables(facts: Facts) -> dict[str, dict[str, Any]]:
    """Return the groups that are there as the nested mappings that rules are evaluated over."""
    return {name: _fields(record) for name, record in facts.items() if not isinstance(record, Gap)}


def _fields(record: Record) -> dict[str, Any]:
    """Return the fields of a record as they are; ``asdict`` would copy every list and mapping."""
    return {field.name: getattr(record, field.name) for field in fields(record)}


def from_json(group: str, data: Mapping[str, Any]) -> Record:
    """Rebuild the record of ``group`` from its JSON object; TypeError on missing fields."""
    kind = GROUPS[group][0]
    return kind(**{field.name: data[field.name] for field in fields(kind)})
