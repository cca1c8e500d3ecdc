"""Facts that follow from files and flags alone."""

from __future__ import annotations

import subprocess
import sys
import time
from typing import Any

import pytest

from eagle3_contracts.facts import (
    CheckpointFacts,
    DraftFacts,
    EnvironmentFacts,
    Gap,
    GapKind,
    LaunchFacts,
    SubjectFacts,
    TargetFacts,
    Tier,
    TrainingFacts,
    as_variables,
)
from eagle3_contracts.probes import Request
from eagle3_contracts.probes.static import StaticProbe
from eagle3_contracts.subject import Launch, ResolvedModel, ResolvedSubject, Tensor, Training

IDS = "eagle_aux_hidden_state_layer_ids"
EAGLE3 = ["LlamaForCausalLMEagle3"]


def _facts(**parts: Any) -> dict[str, Any]:
    subject = ResolvedSubject(name="one", origin="one.yaml", **parts)
    return dict(StaticProbe().run(subject, Request()))


def _draft(config: dict[str, Any], **parts: Any) -> DraftFacts:
    facts = _facts(draft=ResolvedModel(config=config), **parts)["draft"]
    assert isinstance(facts, DraftFacts)
    return facts


def _captures(config: dict[str, Any]) -> bool:
    return bool(_facts(draft=ResolvedModel(config=config))["subject"].captures)


def _checkpoint(tensors: dict[str, Tensor]) -> CheckpointFacts:
    facts = _facts(draft=ResolvedModel(config={}, tensors=tensors))["checkpoint"]
    assert isinstance(facts, CheckpointFacts)
    return facts


def _training(config: dict[str, Any] | None = None, **fields: Any) -> TrainingFacts:
    draft = None if config is None else ResolvedModel(config=config)
    facts = _facts(draft=draft, training=Training(**fields))["training"]
    assert isinstance(facts, TrainingFacts)
    return facts


def test_a_whole_subject_yields_every_static_group() -> None:
    facts = _facts(
        target=ResolvedModel(
            config={
                "architectures": ["KimiK25ForConditionalGeneration"],
                "model_type": "kimi_k25",
                "text_config": {
                    "hidden_size": 7168,
                    "num_hidden_layers": 61,
                    "vocab_size": 163840,
                },
            }
        ),
        draft=ResolvedModel(
            config={
                "architectures": EAGLE3,
                "hidden_size": 7168,
                "vocab_size": 163840,
                "draft_vocab_size": 32000,
                "eagle_config": {IDS: [2, 30, 58], "use_aux_hidden_state": True},
            },
            tensors={"fc.weight": Tensor(dtype="BF16", shape=(7168, 21504))},
            missing_shards=("b.safetensors",),
            missing_tensors=("norm.weight",),
        ),
        launch=Launch(args="--speculative-algorithm eagle3 --speculative-draft-model-path d --x"),
        training=Training(layer_ids=(1, 29, 57), convention="output-of", tool="specforge"),
    )
    environment = facts.pop("environment")
    assert isinstance(environment, EnvironmentFacts)
    assert facts == {
        "subject": SubjectFacts(
            name="one",
            engine="sglang",
            algorithm="EAGLE3",
            has_draft=True,
            has_target=True,
            captures=True,
        ),
        "target": TargetFacts(
            architecture="KimiK25ForConditionalGeneration",
            model_type="kimi_k25",
            hidden_size=7168,
            num_layers=61,
            vocab_size=163840,
            is_nested=True,
        ),
        "draft": DraftFacts(
            architecture="LlamaForCausalLMEagle3",
            hidden_size=7168,
            target_hidden_size=7168,
            layer_ids=[2, 30, 58],
            layer_ids_key="eagle_config.eagle_aux_hidden_state_layer_ids",
            use_aux_hidden_state=True,
            num_aux=3,
            aux_width=21504,
            vocab_size=163840,
            draft_vocab_size=32000,
        ),
        "launch": LaunchFacts(
            algorithm="EAGLE3",
            draft_path="d",
            flags={
                "speculative-algorithm": "eagle3",
                "speculative-draft-model-path": "d",
                "x": "true",
            },
        ),
        "training": TrainingFacts(
            layer_ids=[1, 29, 57],
            convention="output-of",
            boundaries=[2, 30, 58],
            tool="specforge",
            shift_to_draft=1,
        ),
        "checkpoint": CheckpointFacts(
            num_tensors=1,
            missing_shards=["b.safetensors"],
            missing_tensors=["norm.weight"],
            fc_in=21504,
            fc_out=7168,
        ),
    }


def test_what_a_subject_lacks_is_a_gap_with_the_reason() -> None:
    facts = _facts()
    gaps = {name: facts[name] for name in facts if isinstance(facts[name], Gap)}
    assert gaps == {
        "target": Gap(GapKind.ABSENT, "the subject names no target"),
        "draft": Gap(GapKind.ABSENT, "the subject names no draft"),
        "launch": Gap(GapKind.ABSENT, "the subject names no launch section"),
        "training": Gap(GapKind.ABSENT, "the subject names no training section"),
        "checkpoint": Gap(GapKind.ABSENT, "the subject names no draft"),
    }
    assert facts["subject"] == SubjectFacts("one", None, None, False, False, False)


def test_a_draft_whose_tensors_are_unknown_has_no_checkpoint() -> None:
    facts = _facts(draft=ResolvedModel(config={}))
    assert facts["checkpoint"] == Gap(GapKind.ABSENT, "the subject names no tensors of its draft")


def test_a_draft_path_in_the_flags_is_a_draft_of_which_nothing_is_known() -> None:
    facts = _facts(launch=Launch(args="--speculative-draft-model owner/name"))
    assert facts["subject"].has_draft
    assert facts["draft"] == Gap(
        GapKind.ABSENT, "the subject names no draft but its path owner/name"
    )


@pytest.mark.parametrize(
    ("config", "is_nested"),
    [
        ({"hidden_size": 8}, False),
        ({"text_config": {"hidden_size": 8}, "hidden_size": 1}, True),
        ({"language_config": {"hidden_size": 8}, "text_config": {"hidden_size": 1}}, True),
        ({"llm_config": {"hidden_size": 8}, "language_config": {"hidden_size": 1}}, True),
        ({"thinker_config": {"text_config": {"hidden_size": 8}}}, True),
        ({"thinker_config": {"hidden_size": 8}, "text_config": {"hidden_size": 1}}, True),
        (
            {
                "architectures": ["LlavaLlamaForCausalLM"],
                "hidden_size": 8,
                "text_config": {"hidden_size": 1},
            },
            False,
        ),
    ],
)
def test_the_language_model_of_a_target_is_found_where_sglang_finds_it(
    config: dict[str, Any], is_nested: bool
) -> None:
    facts = _facts(target=ResolvedModel(config=config))["target"]
    assert (facts.hidden_size, facts.is_nested) == (8, is_nested)


@pytest.mark.parametrize(
    ("config", "ids", "key"),
    [
        ({"eagle_config": {IDS: [1, 2]}}, [1, 2], f"eagle_config.{IDS}"),
        ({"eagle_config": {IDS: [1, 2]}, IDS: [3]}, [1, 2], f"eagle_config.{IDS}"),
        ({"eagle_config": {}, IDS: [3]}, [3], IDS),
        ({"eagle_config": {IDS: None}, IDS: [3]}, [3], IDS),
        ({"eagle_config": {IDS: []}, IDS: [3]}, [], f"eagle_config.{IDS}"),
        ({"eagle_config": None, IDS: None}, None, None),
    ],
)
def test_layer_ids_are_looked_for_nested_first(
    config: dict[str, Any], ids: list[int] | None, key: str | None
) -> None:
    draft = _draft(config)
    assert (draft.layer_ids, draft.layer_ids_key) == (ids, key)


@pytest.mark.parametrize(
    ("config", "uses_aux"),
    [
        ({}, True),
        ({"use_aux_hidden_state": False}, False),
        ({"eagle_config": {"use_aux_hidden_state": False}}, False),
        ({"eagle_config": {"use_aux_hidden_state": None}}, False),
        ({"eagle_config": {"use_aux_hidden_state": True}, "use_aux_hidden_state": False}, True),
    ],
)
def test_aux_states_are_on_unless_the_config_switches_them_off(
    config: dict[str, Any], uses_aux: bool
) -> None:
    assert _draft({"architectures": EAGLE3, **config}).use_aux_hidden_state is uses_aux
    assert _captures({"architectures": EAGLE3, **config}) is uses_aux


@pytest.mark.parametrize(
    ("config", "count"),
    [
        ({}, 3),
        ({IDS: []}, 3),
        ({IDS: [1, 2, 3, 4, 5]}, 5),
        ({"num_aux_hidden_states": 4}, 4),
        ({"num_aux_hidden_states": 4, IDS: [1, 2]}, 4),
        ({"num_aux_hidden_states": None, IDS: [1, 2]}, 2),
    ],
)
def test_the_number_of_aux_states_is_the_one_sglang_takes(
    config: dict[str, Any], count: int
) -> None:
    assert _draft(config).num_aux == count


def test_one_aux_state_has_the_width_of_the_target() -> None:
    target = ResolvedModel(config={"hidden_size": 16})
    assert _draft({"hidden_size": 8}).aux_width == 3 * 8
    assert _draft({"hidden_size": 8}, target=target).aux_width == 3 * 16
    assert _draft({"hidden_size": 8, "target_hidden_size": 32}, target=target).aux_width == 3 * 32
    assert _draft({}).aux_width is None


def test_a_draft_without_aux_states_takes_one_state() -> None:
    config = {"hidden_size": 8, "eagle_config": {"use_aux_hidden_state": False}}
    assert _draft(config).aux_width == 8


def test_a_speculators_config_is_read_through_its_nested_layer() -> None:
    draft = _draft(
        {
            "architectures": ["Eagle3Speculator"],
            "speculators_model_type": "eagle3",
            "draft_vocab_size": 32000,
            "target_hidden_size": None,
            IDS: None,
            "transformer_layer_config": {"hidden_size": 4096, "vocab_size": 128256},
        }
    )
    assert (draft.hidden_size, draft.vocab_size, draft.draft_vocab_size) == (4096, 128256, 32000)
    assert (draft.layer_ids, draft.aux_width) == (None, 3 * 4096)


@pytest.mark.parametrize(
    ("config", "captures"),
    [
        ({"architectures": EAGLE3}, True),
        ({"architectures": ["Eagle3DeepseekV2ForCausalLM"]}, True),
        ({"architectures": ["Eagle3Speculator"]}, True),
        ({"architectures": ["LlamaForCausalLM"], "eagle_config": {IDS: [1, 2, 3]}}, True),
        ({IDS: [1, 2, 3]}, True),
        ({"architectures": ["LlamaForCausalLM"]}, False),
        ({"architectures": ["LlamaForCausalLMEagle"], "eagle_config": {}}, False),
        ({"architectures": ["DFlashDraftModel"], IDS: [1, 2, 3]}, False),
        ({}, False),
    ],
)
def test_only_an_eagle3_draft_makes_the_target_capture(
    config: dict[str, Any], captures: bool
) -> None:
    assert _captures(config) is captures


@pytest.mark.parametrize(
    ("convention", "boundaries"),
    [
        ("output-of", [2, 18, 33]),
        ("input-of", [1, 17, 32]),
        ("hf-index", [1, 17, 32]),
        (None, None),
    ],
)
def test_training_ids_mean_boundaries_by_their_convention(
    convention: str | None, boundaries: list[int] | None
) -> None:
    assert _training(layer_ids=(1, 17, 32), convention=convention).boundaries == boundaries


@pytest.mark.parametrize(
    ("training", "draft", "shift"),
    [
        ((1, 29, 57), [2, 30, 58], 1),
        ((2, 30, 58), [2, 30, 58], 0),
        ((2, 30, 58), [1, 29, 57], -1),
        ((2, 30, 58), [2, 30, 59], None),
        ((2, 30), [2, 30, 58], None),
        ((), [], None),
        (None, [2, 30, 58], None),
        ((2, 30, 58), None, None),
    ],
)
def test_one_number_turns_training_ids_into_the_ids_of_the_draft_or_none_does(
    training: tuple[int, ...] | None, draft: list[int] | None, shift: int | None
) -> None:
    assert _training({IDS: draft}, layer_ids=training).shift_to_draft == shift


def test_the_fc_of_a_checkpoint_may_have_one_prefix() -> None:
    fc, other = Tensor(dtype="BF16", shape=(8, 24)), Tensor(dtype="BF16", shape=(8, 16))
    assert _checkpoint({"fc.weight": fc, "x.fc.weight": other}).fc_in == 24
    assert _checkpoint({"model.fc.weight": fc, "norm.weight": other}).fc_in == 24
    assert _checkpoint({"a.fc.weight": fc, "b.fc.weight": other}).fc_in is None
    assert _checkpoint({"my_fc.weight": fc}).fc_in is None


def test_the_width_of_a_packed_or_flat_fc_is_unknown() -> None:
    assert _checkpoint({"fc.weight": Tensor(dtype="U8", shape=(8, 12))}).fc_in is None
    assert _checkpoint({"fc.weight": Tensor(dtype="BF16", shape=(192,))}).fc_in is None


def test_a_config_that_was_broken_after_reading_is_a_gap_not_an_exception() -> None:
    facts = _facts(
        target=ResolvedModel(config={"text_config": [1]}),
        draft=ResolvedModel(config={"eagle_config": "none", IDS: "two", "architectures": 5}),
        training=Training(layer_ids=(1,)),
        launch=Launch(args="--open 'quote"),
    )
    assert facts["target"] == Gap(
        GapKind.UNTESTABLE,
        "the target's config cannot be used: text_config must be an object, got an array",
    )
    assert facts["draft"] == Gap(
        GapKind.UNTESTABLE,
        "the draft's config cannot be used: architectures must be an array of class names, got 5; "
        "eagle_config must be an object, got a string; eagle_aux_hidden_state_layer_ids must be an "
        "array of layer ids, such as [2, 30, 58], got 'two'",
    )
    assert facts["training"].shift_to_draft is None


def test_the_static_probe_states_its_tier_and_groups() -> None:
    probe = StaticProbe()
    assert (probe.name, probe.tier) == ("static", Tier.STATIC)
    assert sorted(probe.groups) == sorted(_facts())


def test_static_facts_need_neither_torch_nor_sglang() -> None:
    code = (
        "import sys; from eagle3_contracts.probes.static import StaticProbe, environment; "
        "import eagle3_contracts.resolve; environment('cpu'); "
        "heavy = {'torch', 'transformers', 'sglang', 'numpy', 'safetensors', 'huggingface_hub'}; "
        "print(sorted(heavy & sys.modules.keys()))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_the_facts_of_one_subject_take_less_than_five_milliseconds() -> None:
    tensors = {f"layers.0.{n}.weight": Tensor(dtype="BF16", shape=(8, 8)) for n in range(200)}
    config = {"architectures": EAGLE3, "hidden_size": 8, "eagle_config": {IDS: [2, 30, 58]}}
    draft = ResolvedModel(config=config, tensors=tensors, values={"d2t": (0,) * 32000})
    parts = {
        "draft": draft,
        "target": ResolvedModel(config={"text_config": {"num_hidden_layers": 61}}),
        "launch": Launch(args="--speculative-algorithm EAGLE3 --speculative-num-steps 3"),
        "training": Training(layer_ids=(1, 29, 57), convention="output-of"),
    }
    subject = ResolvedSubject.model_validate({"name": "one", "origin": "one.yaml", **parts})
    StaticProbe().run(subject, Request())
    start = time.process_time()
    for _ in range(100):
        as_variables(StaticProbe().run(subject, Request()))
    assert (time.process_time() - start) / 100 < 0.005
