"""The parts of the static tier: formats of drafts, configs that hold anything, other releases."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from eagle3_contracts.catalogue import read_catalogue
from eagle3_contracts.data import fixtures_dir
from eagle3_contracts.facts import GROUPS, Gap, GapKind, Tier
from eagle3_contracts.faults.edit import edited_config
from eagle3_contracts.probes import Request, probes
from eagle3_contracts.probes.parts import parts
from eagle3_contracts.resolve import load_subjects
from eagle3_contracts.run import Checker
from eagle3_contracts.serving.sglang import release, sources
from eagle3_contracts.subject import Launch, ResolvedModel, ResolvedSubject, Training
from eagle3_contracts.verdict import Verdict

SUBJECTS = {s.name: s for s in load_subjects([str(fixtures_dir() / "subjects")])}
SPECULATORS = {
    "architectures": ["Eagle3DraftModel"],
    "speculators_model_type": "eagle3",
    "draft_vocab_size": 32000,
    "eagle_aux_hidden_state_layer_ids": [2, 16, 29],
    "transformer_layer_config": {
        "model_type": "llama",
        "hidden_size": 64,
        "num_hidden_layers": 1,
        "num_attention_heads": 4,
        "vocab_size": 128256,
        "rope_parameters": {"rope_type": "default", "rope_theta": 500000.0},
        "max_position_embeddings": 4096,
    },
}


def _part(name: str, config: dict[str, Any] | None = None, **fields: Any) -> Any:
    draft = None if config is None else ResolvedModel.model_validate({"config": config})
    whole = {"name": "one", "origin": "one.yaml", "draft": draft, **fields}
    subject = ResolvedSubject.model_validate(whole)
    (probe,) = (part for part in parts() if part.name == name)
    return probe.run(subject, Request())[name]


def _launch(args: str, **fields: Any) -> Launch:
    return Launch.model_validate({"args": args, **fields})


def test_every_static_group_has_one_probe() -> None:
    found = [group for probe in probes() if probe.tier is Tier.STATIC for group in probe.groups]
    assert sorted(found) == sorted(g for g, (_, tier) in GROUPS.items() if tier is Tier.STATIC)


def test_a_speculators_config_is_read_where_it_nests_its_layers() -> None:
    assert _part("arch", SPECULATORS).kind == "eagle3"
    assert _part("arch", SPECULATORS).num_layers == 1
    assert _part("vocab", SPECULATORS).own_size == 128256
    assert _part("rope", SPECULATORS).theta == 500000.0
    assert _part("context", SPECULATORS).draft_limit == 4096


@pytest.mark.parametrize(
    ("config", "kind"),
    [
        ({"architectures": ["LlamaForCausalLMEagle3"]}, "eagle3"),
        ({"architectures": ["LlamaForCausalLM"], "num_aux_hidden_states": 3}, "eagle3"),
        ({"architectures": ["LlamaForCausalLMEagle"]}, "eagle"),
        ({"architectures": ["PEagleDraftModel"]}, "peagle"),
        ({"architectures": ["DFlashDraftModel"]}, "dflash"),
        ({"architectures": ["MuseGlimmerAssistantModel"]}, "dflash"),
        ({"architectures": ["Qwen3DSparkModel"]}, "dspark"),
        ({"architectures": ["Qwen3ForCausalLM"], "dflash_config": {"block_size": 8}}, "dflash"),
        ({"architectures": ["DeepseekV3ForCausalLMNextN"]}, "mtp"),
        ({"architectures": ["Gemma4AssistantForCausalLM"]}, "mtp"),
        ({"architectures": ["LlamaForCausalLM"]}, "plain"),
        ({}, None),
    ],
)
def test_the_kind_of_a_draft_follows_from_its_config(
    config: dict[str, Any], kind: str | None
) -> None:
    assert _part("arch", config).kind == kind


@pytest.mark.parametrize(
    ("fields", "method"),
    [
        ({"quant_config": {"quantization": {"quant_algo": "NVFP4"}}}, "nvfp4"),
        ({"quant_config": {"quantization": {"quant_algo": None}}}, None),
        ({"config": {"quantization_config": {"quant_method": "fp8"}}}, "fp8"),
        ({"config": {"quantization_config": {"quant_method": None}}}, None),
        ({"config": {}}, None),
    ],
)
def test_quantization_is_read_from_both_files(fields: dict[str, Any], method: str | None) -> None:
    draft = ResolvedModel.model_validate({"config": {}, **fields})
    assert _part("quant", draft=draft).method == method


def test_a_scaling_is_read_alike_in_both_schemas() -> None:
    old = {"rope_theta": 5e4, "rope_scaling": {"type": "yarn", "factor": 4.0, "beta_fast": None}}
    new = {"rope_parameters": {"rope_type": "yarn", "rope_theta": 5e4, "factor": 4}}
    schedules = [_part("rope", config) for config in (old, new)]
    assert [(r.theta, r.scaling, r.problems) for r in schedules] == [
        (5e4, "yarn (factor 4)", [])
    ] * 2


@pytest.mark.parametrize(
    ("config", "limit"),
    [
        ({"max_position_embeddings": 2048}, 2048),
        ({"max_position_embeddings": 2048, "rope_scaling": {"factor": 4.0}}, 8192),
        (
            {
                "max_position_embeddings": 8192,
                "rope_scaling": {"factor": 4.0, "original_max_position_embeddings": 2048},
            },
            8192,
        ),
        ({"rope_theta": 10000.0}, None),
    ],
)
def test_the_positions_of_a_draft_are_counted_as_sglang_counts_them(
    config: dict[str, Any], limit: int | None
) -> None:
    assert _part("context", config).draft_limit == limit


def test_values_of_training_are_compared_as_far_as_both_sides_state_them() -> None:
    training = Training.model_validate({"config": {"head_dim": 64, "norm_output": True}})
    arch = _part("arch", {"head_dim": 128.0, "bias": False}, training=training)
    assert arch.trained_otherwise == ["head_dim 128.0, trained with 64"]


CATALOGUE = read_catalogue()
JUNK: tuple[Any, ...] = (
    *(None, True, -1, 0, 10**30, 1e400, float("nan")),
    *("", "x" * 100, [], [None], {}, {"a": []}),
)
KEYS = [
    "architectures",
    "model_type",
    "num_hidden_layers",
    "num_attention_heads",
    "head_dim",
    "hidden_size",
    "rope_theta",
    "rope_scaling",
    "rope_parameters",
    "max_position_embeddings",
    "dtype",
    "torch_dtype",
    "quantization_config",
    "dflash_config",
    "block_size",
    "mask_token_id",
    "markov_rank",
    "fc_norm",
    "norm_before_fc",
    "eagle_config",
    "tie_word_embeddings",
    "attention_bias",
    "bias",
    "vocab_size",
    "draft_vocab_size",
    "target_layer_ids",
    "image_token_id",
    "kv_lora_rank",
    "speculators_model_type",
    "transformer_layer_config",
    "num_nextn_predict_layers",
]
PLACES: tuple[tuple[str, ...], ...] = ((), ("dflash_config",), ("rope_parameters",))


@pytest.mark.parametrize("key", KEYS)
def test_whatever_stands_in_a_config_is_judged_without_an_error_of_the_harness(key: str) -> None:
    checker = Checker(CATALOGUE, tiers={Tier.STATIC})
    for junk in JUNK:
        spoilt = SUBJECTS["qwen3-dflash"]
        for place in PLACES:
            spoilt = edited_config(spoilt, "draft", _with_junk(place, key, junk))
            spoilt = edited_config(spoilt, "target", _with_junk(place, key, junk))
        wrong = [r.message for r in checker.check(spoilt) if r.verdict is Verdict.HARNESS_ERROR]
        assert wrong == [], (key, junk)


def _with_junk(place: tuple[str, ...], key: str, junk: Any) -> Callable[[dict[str, Any]], None]:
    def edit(config: dict[str, Any]) -> None:
        for name in place:
            if not isinstance(config.get(name), dict):
                config[name] = {}
            config = config[name]
        if key not in (name for path in PLACES for name in path) or not place:
            config[key] = junk

    return edit


@pytest.mark.parametrize(
    "args",
    [
        "--speculative-algorithm",
        "--speculative-algorithm EAGLE3 --speculative-num-steps",
        "--speculative-algorithm EAGLE3 --speculative-eagle-topk 4",
        "--speculative-algorithm DSPARK --speculative-num-draft-tokens x",
        "--speculative-algorithm DFLASH --page-size --speculative-draft-sink-size 1",
        "--speculative-algorithm EAGLE3 --speculative-num-steps 3 --speculative-eagle-topk 4",
        "--speculative-algorithm EAGLE3 --context-length " + "9" * 400,
    ],
)
@pytest.mark.parametrize("name", ["llama-eagle3", "qwen3-dflash"])
def test_whatever_stands_in_a_launch_is_judged_without_an_error_of_the_harness(
    name: str, args: str
) -> None:
    whole = SUBJECTS[name]
    checker = Checker(CATALOGUE, tiers={Tier.STATIC})
    for subject in (whole, whole.model_copy(update={"draft": None})):
        results = checker.check(subject.model_copy(update={"launch": _launch(args)}))
        assert [r.message for r in results if r.verdict is Verdict.HARNESS_ERROR] == []


def test_a_launch_for_another_release_is_not_judged_by_the_installed_one() -> None:
    gap = _part("release", launch=_launch("--nonsense", sglang="0.4.1"))
    installed = _part("release", launch=_launch("--nonsense"))
    assert gap == Gap(GapKind.ABSENT, "meant for SGLang 0.4.1; installed is 0.5.23")
    assert installed.unknown_flags == ["--nonsense"]


def test_a_launch_of_another_engine_is_not_judged_by_sglang() -> None:
    launch = _launch("--speculative-config x", engine="vllm")
    for name in ("release", "algo", "serving"):
        gap = Gap(GapKind.ABSENT, "served by vllm, not by SGLang")
        assert _part(name, launch=launch) == gap


@pytest.mark.parametrize(
    ("name", "hook", "answer"),
    [
        ("LlamaForCausalLM", "set_eagle3_layers_to_capture", True),
        ("MistralForCausalLM", "set_eagle3_layers_to_capture", True),  # by its base
        ("GemmaForCausalLM", "set_eagle3_layers_to_capture", False),
        ("MiniCPMV", "set_eagle3_layers_to_capture", None),  # passes everything on
        ("Qwen3ForCausalLM", "set_dflash_layers_to_capture", True),
    ],
)
def test_the_hooks_of_a_class_are_found_in_the_sources(
    name: str, hook: str, answer: bool | None
) -> None:
    assert sources.has_method(name, sources.entries()[name], hook) is answer


def test_a_target_with_a_head_is_renamed_to_the_class_of_that_head() -> None:
    found = release.bundling()
    assert found["DeepseekV3ForCausalLM"] == "DeepseekV3ForCausalLMNextN"
    assert found["MiMoV2ForCausalLM"] == "MiMoV2MTP"
    assert "LlamaForCausalLM" not in found
    assert set(filter(None, found.values())) <= sources.entries().keys()


@pytest.mark.parametrize(
    ("flag", "value", "said"),
    [
        ("speculative-num-steps", "3", None),
        ("speculative-num-steps", "3.5", "--speculative-num-steps 3.5: an integer expected"),
        ("speculative-accept-threshold-acc", "half", "a number expected"),
        ("speculative-attention-mode", "both", "one of prefill, decode expected"),
        ("tp-size", "many", None),
    ],
)
def test_the_value_of_a_flag_is_compared_with_its_declaration(
    flag: str, value: str, said: str | None
) -> None:
    found = release.bad_value(flag, value)
    assert (said in found) if said and found else found is said


@pytest.mark.parametrize(
    "name", ["model-path", "tp", "enable-dp-attention", "speculative-draft", "no-enable-metrics"]
)
def test_flags_aliases_and_beginnings_of_flags_are_known(name: str) -> None:
    assert release.unknown_flag(name) is None


def test_the_sources_of_sglang_are_read_and_not_imported() -> None:
    code = (
        "import sys; from eagle3_contracts.probes.parts import parts; "
        "from eagle3_contracts.probes import Request; "
        "from eagle3_contracts.resolve import load_subjects; "
        f"s = load_subjects([{str(fixtures_dir() / 'subjects')!r}]); "
        "[part.run(one, Request()) for part in parts() for one in s]; "
        "print(sorted({'torch', 'transformers', 'sglang', 'numpy'} & sys.modules.keys()))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
