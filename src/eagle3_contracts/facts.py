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
from dataclasses import asdict, dataclass, fields
from enum import StrEnum
from typing import Annotated, Any, get_args, get_type_hints


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
        return list(Tier).index(self)


@dataclass(frozen=True, slots=True)
class SubjectFacts:
    """What the subject as a whole is about."""

    name: Annotated[str, "name of the subject"]
    engine: Annotated[str | None, "serving engine of the launch: sglang, vllm; null: no launch"]
    algorithm: Annotated[str | None, "value of --speculative-algorithm, upper case; null: not given"]
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
    is_nested: Annotated[bool, "the language model's config lies in text_config or llm_config"]


@dataclass(frozen=True, slots=True)
class DraftFacts:
    """The draft's config.json, wherever its writer put the values (nested or top level)."""

    architecture: Annotated[str | None, "first of `architectures`"]
    hidden_size: Annotated[int | None, "width of the draft's own layers"]
    target_hidden_size: Annotated[
        int | None, "width of one aux state: target_hidden_size, else the target's, else its own"
    ]
    layer_ids: Annotated[list[int] | None, "declared ids of the layers to capture; null: none"]
    use_aux_hidden_state: Annotated[bool, "false only where the config switches it off"]
    num_aux: Annotated[
        int, "aux states the draft takes: the declared ids, else num_aux_hidden_states, else 3"
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
    fc_in: Annotated[int | None, "second dimension of the tensor `fc.weight`; null: no such tensor"]
    fc_out: Annotated[int | None, "first dimension of the tensor `fc.weight`; null: no such tensor"]


@dataclass(frozen=True, slots=True)
class LoadFacts:
    """The real draft class at its real size, filled by its real ``load_weights`` from headers."""

    draft_class: Annotated[str, "class that the registry gave for the draft"]
    ignored: Annotated[list[str], "checkpoint tensors that no parameter took"]
    ignored_weights: Annotated[
        list[str], "ignored tensors that hold weights of the draft; maps and derived buffers left out"
    ]
    unfilled: Annotated[list[str], "parameters that no tensor filled and that nothing shares"]
    shared: Annotated[list[str], "parameters that the engine takes from the target"]
    wrong_shapes: Annotated[list[str], "tensors that the loader refused for their shape, with both"]
    refusal: Annotated[str | None, "the exception with which the class or its loader refused"]
    fc_in: Annotated[int | None, "in_features of the draft's fc; null: it has none"]
    fc_out: Annotated[int | None, "out_features of the draft's fc; null: it has none"]
    embed_width: Annotated[int | None, "width at which the draft class skips its fc: the embedding's"]


@dataclass(frozen=True, slots=True)
class HookFacts:
    """Which hooks the real target class offers to an EAGLE-3 draft."""

    target_class: Annotated[str, "class that the registry gave for the target"]
    sets_capture: Annotated[bool, "it has set_eagle3_layers_to_capture"]
    gives_embed_and_head: Annotated[bool, "it has get_embed_and_head"]


@dataclass(frozen=True, slots=True)
class CaptureFacts:
    """What the target's twin captured when the real class ran: once extended, once decoded.

    The twin has the target's own config with widths shrunk and depth kept.
    """

    target_class: Annotated[str, "class that ran"]
    requested: Annotated[list[int] | None, "ids given to set_eagle3_layers_to_capture; null: none"]
    refusal: Annotated[str | None, "the exception with which configuring or running was refused"]
    before: Annotated[bool, "states arrived although capture had not been configured"]
    enabled: Annotated[bool, "states arrived at the logits processor after configuring"]
    inner_flag: Annotated[bool | None, "capture_aux_hidden_states of the module that has the layers' owner"]
    inner_layers: Annotated[list[int] | None, "layers that the decoder marked for capture, sorted"]
    count: Annotated[int, "states that arrived in the extend"]
    width: Annotated[int, "numbers per token that arrived, all states together"]
    hidden_size: Annotated[int, "width of one state in the twin"]
    num_layers: Annotated[int, "decoder layers of the twin, equal to the target's"]
    boundaries: Annotated[list[int], "nearest boundary of each captured state, in order"]
    max_abs_error: Annotated[float, "largest difference of a state from its nearest boundary"]
    runner_up_error: Annotated[
        float, "smallest largest-difference of a state from its second nearest boundary"
    ]
    tolerance: Annotated[float, "largest difference that the dtype allows for equal states"]
    exact: Annotated[bool, "every state equals its nearest boundary within the tolerance"]
    reference: Annotated[str, "what the boundaries were read from: hooks, or hooks and transformers"]
    reference_error: Annotated[
        float | None, "largest difference of SGLang's boundaries from transformers'; null: no reference"
    ]
    decode_count: Annotated[int, "states that arrived in the decode step"]
    decode_boundaries: Annotated[list[int], "nearest boundary of each state of the decode step"]
    decode_exact: Annotated[bool, "every state of the decode step equals its boundary"]
    expected: Annotated[
        list[int] | None, "boundaries of training; null: unknown"
    ]


@dataclass(frozen=True, slots=True)
class FusionFacts:
    """What the real draft class did with the states that its target's twin handed over."""

    draft_class: Annotated[str, "class that ran"]
    refusal: Annotated[str | None, "the exception with which the draft refused the states"]
    input_width: Annotated[int, "numbers per token handed to the draft"]
    fc_in: Annotated[int | None, "in_features of the twin's fc; null: it has none"]
    fc_calls: Annotated[int, "times the fc ran in one forward of the draft"]
    embed_width: Annotated[int, "width of the draft's embedding: at this input width fc is skipped"]


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
    | HookFacts
    | LoadFacts
    | CaptureFacts
    | FusionFacts
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
    "hooks": (HookFacts, Tier.LOAD),
    "load": (LoadFacts, Tier.LOAD),
    "capture": (CaptureFacts, Tier.MODEL),
    "fusion": (FusionFacts, Tier.MODEL),
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
    return {name: asdict(record) for name, record in facts.items() if not isinstance(record, Gap)}


def from_json(group: str, data: Mapping[str, Any]) -> Record:
    """Rebuild the record of ``group`` from its JSON object; TypeError on missing fields."""
    kind = GROUPS[group][0]
    return kind(**{field.name: data[field.name] for field in fields(kind)})
