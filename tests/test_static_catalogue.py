"""What the static contracts say, and what they must not say, about edited built-in subjects."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from eagle3_contracts.catalogue import read_catalogue
from eagle3_contracts.data import fixtures_dir
from eagle3_contracts.facts import Tier
from eagle3_contracts.faults import broken, faults
from eagle3_contracts.faults.edit import (
    draft_config,
    edited_draft,
    edited_training,
    in_turn,
    nested_config,
    relaunched,
    target_config,
    tensor,
    values,
    with_flags,
    without_draft,
)
from eagle3_contracts.probes.static import environment
from eagle3_contracts.resolve import load_subjects
from eagle3_contracts.run import Checker
from eagle3_contracts.subject import ResolvedSubject, Tensor
from eagle3_contracts.verdict import Result, Verdict
from eagle3_contracts.waiver import read_waivers

CATALOGUE = read_catalogue()
SUBJECTS = {s.name: s for s in load_subjects([str(fixtures_dir() / "subjects")])}
STATIC = {e.contract.id for e in CATALOGUE if e.contract.tier is Tier.STATIC}
WAIVERS = read_waivers(
    [fixtures_dir() / "waivers"], {e.contract.id for e in CATALOGUE}, environment("cpu").sglang
)
IDS = "eagle_aux_hidden_state_layer_ids"
FLAGS = "--speculative-num-steps 3 --speculative-eagle-topk 1 --speculative-num-draft-tokens 4"

Edit = Callable[[ResolvedSubject], ResolvedSubject]


def _results(subject: ResolvedSubject) -> list[Result]:
    return Checker(CATALOGUE, tiers={Tier.STATIC}).check(subject)


def _failures(subject: ResolvedSubject, severity: str = "error") -> list[str]:
    """Return the contracts that fail; whatever is neither pass nor fail nor n/a counts as error."""
    found = []
    for result in _results(subject):
        fine = result.verdict in (Verdict.PASS, Verdict.NOT_APPLICABLE)
        is_fail = result.verdict is Verdict.FAIL and result.severity == "warning"
        if not fine and is_fail == (severity == "warning"):
            found.append(result.contract)
    return found


def _result(contract: str, subject: ResolvedSubject) -> Result:
    return next(r for r in _results(subject) if r.contract == contract)


def _under(fault: str) -> ResolvedSubject:
    return broken(SUBJECTS[faults()[fault].on], faults()[fault])


def _training(**config: Any) -> Edit:
    return lambda subject: edited_training(subject, config=config)


def _trained(ids: tuple[int, ...], convention: str | None) -> Edit:
    return lambda subject: edited_training(subject, layer_ids=ids, convention=convention)


def _ids(*ids: int) -> Edit:
    return nested_config("eagle_config", **{IDS: list(ids)})


def _launch(args: str, **env: str) -> Edit:
    return lambda subject: relaunched(subject, args, **env)


def _served_by_vllm(subject: ResolvedSubject) -> ResolvedSubject:
    assert subject.launch is not None
    launch = subject.launch.model_copy(update={"engine": "vllm", "args": ""})
    return subject.model_copy(update={"launch": launch})


def _without_launch(subject: ResolvedSubject) -> ResolvedSubject:
    return subject.model_copy(update={"launch": None})


def _header(**shapes: tuple[int, ...]) -> Edit:
    """Return an edit that leaves nothing of the header but the named tensors."""
    names = {name.replace("__", "."): shape for name, shape in shapes.items()}
    tensors = {name: Tensor(dtype="BF16", shape=shape) for name, shape in names.items()}
    return lambda subject: edited_draft(subject, tensors=tensors)


@pytest.mark.parametrize("name", SUBJECTS)
def test_nothing_but_what_is_waived_fails_on_a_built_in_subject(name: str) -> None:
    excused = {waiver.contract for waiver in WAIVERS if waiver.matches(name)} & STATIC
    assert set(_failures(SUBJECTS[name])) == excused
    assert _failures(SUBJECTS[name], "warning") == []


CLOSE_CALLS: dict[str, tuple[str, Edit]] = {
    "all-zero d2t for equal vocabularies": (
        "tiny-maps",
        in_turn(
            draft_config(draft_vocab_size=64),
            tensor("lm_head.weight", (64, 256)),
            tensor("d2t", (64,), "I64"),
            values(d2t=lambda _: [0] * 64, t2d=lambda _: [True] * 64),
        ),
    ),
    "a t2d that is a placeholder for equal vocabularies": (
        "tiny-maps",
        in_turn(
            draft_config(draft_vocab_size=64),
            tensor("lm_head.weight", (64, 256)),
            tensor("d2t", (64,), "I64"),
            values(d2t=lambda _: [0] * 64, t2d=lambda _: [False] * 64),
        ),
    ),
    "no maps for equal vocabularies": (
        "llama-eagle3",
        in_turn(
            draft_config(draft_vocab_size=128256),
            tensor("lm_head.weight", (128256, 4096)),
            tensor("d2t", None),
            tensor("t2d", None),
        ),
    ),
    "no lm_head where the draft shares the target's": (
        "llama-eagle3",
        in_turn(
            draft_config(draft_vocab_size=None),
            *(tensor(name, None) for name in ("lm_head.weight", "d2t", "t2d")),
        ),
    ),
    "t2d left out": ("llama-eagle3", tensor("t2d", None)),
    "other ids than the default": ("llama-eagle3", _ids(2, 15, 27)),
    "the same boundaries as input-of": (
        "qwen3-eagle3",
        in_turn(_trained((2, 18, 33), "input-of"), _ids(1, 17, 32)),
    ),
    "an output-of list that starts at 3": (
        "llama-eagle3",
        in_turn(_ids(3, 15, 27), _trained((3, 15, 27), "output-of")),
    ),
    "an input-of list that starts at 1": (
        "llama-eagle3",
        in_turn(_ids(1, 15, 27), _trained((1, 15, 27), "input-of")),
    ),
    "the last layer as id n - 1": (
        "llama-eagle3",
        in_turn(_ids(2, 15, 31), _trained((2, 15, 31), "output-of")),
    ),
    "the last layer as id n": (
        "llama-eagle3",
        in_turn(_ids(3, 16, 32), _trained((3, 16, 32), "input-of")),
    ),
    "one state by use_aux_hidden_state": (
        "llama-eagle3",
        in_turn(
            nested_config("eagle_config", use_aux_hidden_state=False),
            tensor("fc.weight", (4096, 4096)),
        ),
    ),
    "one state by use_aux_hidden_state, launched as EAGLE": (
        "llama-eagle3",
        in_turn(
            nested_config("eagle_config", use_aux_hidden_state=False),
            tensor("fc.weight", (4096, 4096)),
            with_flags("--speculative-algorithm EAGLE"),
        ),
    ),
    "no ids, trained on the default": (
        "llama-eagle3",
        in_turn(nested_config("eagle_config", **{IDS: None}), _trained((2, 16, 29), "input-of")),
    ),
    "no convention of the training ids": ("llama-eagle3", _trained((2, 15, 27), None)),
    "rope_theta in rope_parameters": (
        "llama-eagle3",
        draft_config(
            rope_theta=None, rope_parameters={"rope_type": "default", "rope_theta": 10000.0}
        ),
    ),
    "rope of the target in the new schema": (
        "llama-eagle3",
        target_config(
            rope_theta=None,
            rope_scaling=None,
            rope_parameters={"rope_type": "default", "rope_theta": 500000.0},
        ),
    ),
    "mrope_section of a draft for a multimodal target": (
        "gemma3-mm-eagle3",
        draft_config(rope_scaling={"type": "mrope", "mrope_section": [16, 24, 24]}),
    ),
    "another rope than the target's, training unknown": ("llama-eagle3", _training()),
    "a plain draft for an FP8 target": (
        "llama-eagle3",
        target_config(quantization_config={"quant_method": "fp8"}),
    ),
    "a plain draft for a target launched as FP8": (
        "llama-eagle3",
        with_flags("--quantization fp8"),
    ),
    "an AWQ target with a plain draft that says so": (
        "llama-eagle3",
        with_flags("--quantization awq --speculative-draft-model-quantization unquant"),
    ),
    "NEXTN without a draft for a target that bundles a head": (
        "deepseek-v3-eagle3",
        in_turn(without_draft, _launch(f"--speculative-algorithm NEXTN {FLAGS}")),
    ),
    "EAGLE without a draft for a target that counts its heads": (
        "llama-eagle3",
        in_turn(
            without_draft,
            target_config(num_nextn_predict_layers=1),
            _launch(f"--speculative-algorithm EAGLE {FLAGS}"),
        ),
    ),
    "NEXTN with the target as its own draft": (
        "deepseek-v3-eagle3",
        in_turn(
            draft_config(architectures=["DeepseekV3ForCausalLM"], eagle_config=None),
            _launch(f"--speculative-algorithm NEXTN {FLAGS} --context-length 2048"),
        ),
    ),
    "capture without a draft": (
        "llama-eagle3",
        in_turn(
            without_draft,
            _launch("--speculative-algorithm EAGLE3 --enable-return-aux-hidden-states"),
        ),
    ),
    "a launch of another engine": ("llama-eagle3", _served_by_vllm),
    "no launch at all": ("llama-eagle3", _without_launch),
    "a launch without speculation": ("llama-eagle3", _launch("--tp-size 8")),
    "flags left to SGLang": (
        "llama-eagle3",
        _launch("--speculative-algorithm EAGLE3 --context-length 2048"),
    ),
    "an abbreviated flag": ("llama-eagle3", with_flags("--speculative-draft-att fa3")),
    "a tree": (
        "llama-eagle3",
        with_flags(
            "--speculative-num-steps 5 --speculative-eagle-topk 4 --speculative-num-draft-tokens 8"
        ),
    ),
    "a draft that is made for more than is served": (
        "llama-eagle3",
        draft_config(max_position_embeddings=262144),
    ),
    "a header that names only what matters": (
        "llama-eagle3",
        _header(fc__weight=(4096, 12288), lm_head__weight=(32000, 4096)),
    ),
    "layers with a name of their own": (
        "llama-eagle3",
        _header(fc__weight=(4096, 12288), transformer__0__q_proj__weight=(4096, 8192)),
    ),
    "norms that the config announces": (
        "llama-eagle3",
        in_turn(
            draft_config(fc_norm=True), *(tensor(f"fc_norm.{i}.weight", (4096,)) for i in range(3))
        ),
    ),
    "legacy names of the norms": (
        "llama-eagle3",
        in_turn(
            draft_config(use_aux_norm=True),
            *(tensor(f"aux_norm_{i}.weight", (4096,)) for i in ("low", "mid", "high")),
        ),
    ),
    "a KV cache that is quantized, and weights that are not": (
        "llama-eagle3",
        lambda s: edited_draft(
            s, quant_config={"quantization": {"quant_algo": None, "kv_cache_quant_algo": "FP8"}}
        ),
    ),
    "a block size at the top level": (
        "qwen3-dflash",
        in_turn(nested_config("dflash_config", block_size=None), draft_config(block_size=16)),
    ),
    "a mask token in the padding of the vocabulary": (
        "qwen3-dflash",
        in_turn(
            nested_config("dflash_config", mask_token_id=151935), _training(rope_theta=1000000.0)
        ),
    ),
}


@pytest.mark.parametrize("call", CLOSE_CALLS)
def test_a_close_call_is_no_failure(call: str) -> None:
    name, edit = CLOSE_CALLS[call]
    assert _failures(edit(SUBJECTS[name])) == []


WARNED: dict[str, tuple[str, list[str]]] = {
    "no ids, trained on the default": ("layer-source", ["LAYERS-NOT-DECLARED"]),
    "no convention of the training ids": ("layer-convention", ["LAYERS-CONVENTION-KNOWN"]),
    "another rope than the target's, training unknown": ("rope", ["ROPE-LIKE-TARGET"]),
    "no launch at all": ("context", ["CONTEXT-TRAINED"]),
}


@pytest.mark.parametrize("call", WARNED)
def test_what_must_be_guessed_is_a_warning(call: str) -> None:
    name, edit = CLOSE_CALLS[call]
    family, contracts = WARNED[call]
    assert _failures(edit(SUBJECTS[name]), "warning") == contracts
    assert {e.contract.family for e in CATALOGUE if e.contract.id in contracts} == {family}


MESSAGES = {
    ("VOCAB-D2T-RANGE", "d2t-absolute"): (
        "idx + d2t[idx] gives target ids that do not exist, first [68, 73, 78]; 0 to 63 expected",
        "d2t holds target ids themselves. SGLang adds the draft id, so it must hold their "
        "difference.",
    ),
    ("VOCAB-D2T-SIZE", "d2t-too-short"): (
        "d2t has 6054 elements; 32000 draft ids expected",
        "The corpus that the map was made from may hold fewer different tokens than 32000; the map "
        "has to be filled up with unused ids.",
    ),
    ("HEAD-PRESENT", "head-missing"): (
        "no lm_head in the checkpoint, and draft_vocab_size is 32000",
        "SGLang borrows the target's head only where draft_vocab_size is null; otherwise the "
        "draft's head keeps the memory it was allocated with, and the accept length is 1.",
    ),
    ("ALGO-DRAFT", "launched-as-eagle"): (
        "--speculative-algorithm EAGLE with a draft of kind eagle3 (LlamaForCausalLMEagle3); "
        "eagle or mtp expected",
        "EAGLE captures nothing. The last hidden state is as wide as the draft, so the fc is "
        "skipped without a word, and the accept length falls to 1.",
    ),
    ("ARCH-FIELDS-READ", "fc-norm-nested"): (
        "LlamaForCausalLMEagle3 does not read eagle_config.fc_norm, which the draft's config sets",
        "The switch stands in eagle_config, and this class looks for it at the top level only.",
    ),
    ("ARCH-SHAPES", "intermediate-size-wrong"): (
        "midlayer.mlp.gate_proj.weight has 14336 rows, intermediate_size = 16384 expected; "
        "midlayer.mlp.up_proj.weight has 14336 rows, intermediate_size = 16384 expected; "
        "midlayer.mlp.down_proj.weight has 14336 columns, intermediate_size = 16384 expected",
        "The weights do not load, or heads are cut in the wrong places.",
    ),
    ("FLAGS-KNOWN", "flag-misspelt"): (
        "SGLang 0.5.23 has no --speculative-num-drafts-tokens; did you mean "
        "'speculative-num-draft-tokens'?",
        "The server refuses to start.",
    ),
    ("FLAGS-CHAIN", "chain-too-short"): (
        "3 draft tokens with 3 steps and top-k 1; 4 expected",
        "With top-k 1 there is one token for each step, and the one before them. SGLang overrides "
        "the flag.",
    ),
    ("CONTEXT-DRAFT", "context-longer-than-draft"): (
        "8192 positions are served, the draft is made for 2048",
        "SGLang gives the draft the target's context and refuses to start where it is longer than "
        "the draft's own.",
    ),
    ("ROPE-TRAINED", "rope-theta-not-exported"): (
        "the draft's config has rope_theta 10000, trained with 500000",
        "Positions mean something else than in training, the more so the longer the context.",
    ),
    ("QUANT-INHERITED", "quantization-inherited"): (
        "--quantization awq without --speculative-draft-model-quantization, and a draft of plain "
        "weights",
        "SGLang gives the draft the target's quantization, and looks for a config of it that the "
        "draft has not.",
    ),
    ("EXTRACTION-RANGE", "extracted-past-the-end"): (
        "training.layer_ids [2, 15, 32] as output-of for a target of 32 layers",
        "32 counts the layers before the boundary; by output-of the last layer is 31.",
    ),
    ("CAPTURE-METHOD", "target-class-without-hooks"): (
        "the class BertModel and its bases have no set_eagle3_layers_to_capture",
        "SGLang refuses to start such a draft on this target.",
    ),
}


@pytest.mark.parametrize(("contract", "fault"), MESSAGES)
def test_a_failure_says_what_was_seen_and_what_was_expected(contract: str, fault: str) -> None:
    result = _result(contract, _under(fault))
    assert (result.message, result.cause) == MESSAGES[contract, fault]
