"""What the static contracts must not flag, and what they say where they must."""

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
    edited_flag,
    in_turn,
    nested_config,
    relaunched,
    target_config,
    target_tensors,
    tensor,
    trained_with,
)
from eagle3_contracts.probes import Request
from eagle3_contracts.resolve import load_subjects
from eagle3_contracts.run import Checker
from eagle3_contracts.subject import ResolvedSubject
from eagle3_contracts.verdict import Result, Verdict

CATALOGUE = read_catalogue()
SUBJECTS = {s.name: s for s in load_subjects([str(fixtures_dir() / "subjects")])}
BODY = target_tensors("model.layers.60.mlp.up_proj.weight", dtype="F8_E4M3")
HEAD = target_tensors("model.layers.61.mlp.up_proj.weight", "model.layers.61.eh_proj.weight")
ROUTER = "midlayer.mlp.gate.weight"

Edit = Callable[[ResolvedSubject], ResolvedSubject]


def _result(contract: str, subject: ResolvedSubject) -> Result:
    checker = Checker(CATALOGUE, tiers={Tier.STATIC}, request=Request(weights=True))
    entry = next(entry for entry in CATALOGUE if entry.contract.id == contract)
    return checker.judge(entry, subject)


def _quantized(**fields: Any) -> Edit:
    return target_config("quantization_config", quant_method="fp8", **fields)


def _trained(**values: Any) -> Edit:
    return lambda subject: trained_with(subject, **values)


def _proposing(tokens: int, **changes: Any) -> Edit:
    methods = {"proposal_methods": [{"speculative_tokens": tokens}]}
    return draft_config(speculators_config=methods, **changes)


def _on_vllm(args: str = "") -> Edit:
    def edit(subject: ResolvedSubject) -> ResolvedSubject:
        launched = relaunched(subject, args)
        assert launched.launch is not None
        launch = launched.launch.model_copy(update={"engine": "vllm"})
        return launched.model_copy(update={"launch": launch})

    return edit


def _speculators_ids(*ids: int) -> Edit:
    return in_turn(
        nested_config("dflash_config", target_layer_ids=None),
        draft_config(aux_hidden_state_layer_ids=list(ids)),
    )


def _pipeline(algorithm: str, args: str = "", **env: str) -> Edit:
    return lambda s: relaunched(s, f"--speculative-algorithm {algorithm} --pp-size 2 {args}", **env)


FINE = [
    ("FC-BLOCK-WIDTH", "qwen3-dflash", _speculators_ids(1, 17, 33)),
    ("LAYERS-BLOCK-DECLARED", "qwen3-dflash", in_turn(_speculators_ids(1, 17, 33), _on_vllm())),
    ("LAYERS-BLOCK-RANGE", "qwen3-dflash", _speculators_ids(2, 18, 36)),
    ("LAYERS-BLOCK-BESIDE", "qwen3-dflash", draft_config(aux_hidden_state_layers=[2, 18, 34])),
    ("FLAGS-PROPOSED", "qwen3-dflash", _proposing(15)),
    ("FLAGS-PROPOSED", "qwen3-dflash", _proposing(16, sample_from_anchor=True)),
    ("FLAGS-PROPOSED", "qwen3-dflash", _proposing(16, architectures=["Qwen3DSparkModel"])),
    ("FLAGS-PROPOSED", "qwen3-dflash", _on_vllm("--speculative-config not-json")),
    ("QUANT-BUNDLED", "deepseek-v3-eagle3", HEAD),
    ("QUANT-BUNDLED", "deepseek-v3-eagle3", in_turn(_quantized(), BODY)),
    ("QUANT-BUNDLED", "deepseek-v3-eagle3", in_turn(_quantized(), HEAD)),
    ("QUANT-BUNDLED", "deepseek-v3-eagle3", in_turn(_quantized(ignore=["re:.*61.*"]), BODY, HEAD)),
    ("QUANT-BUNDLED", "deepseek-v3-eagle3", in_turn(_quantized(exclude=["*s.61*"]), BODY, HEAD)),
    ("QUANT-BUNDLED", "deepseek-v3-eagle3", in_turn(_quantized(ignore=["up_proj"]), BODY, HEAD)),
    (
        "QUANT-BUNDLED",
        "deepseek-v3-eagle3",
        in_turn(_quantized(), BODY, HEAD, target_tensors("model.layers.61.x.weight_scale")),
    ),
    ("DTYPE-STORED", "llama-eagle3", tensor(ROUTER, (8, 4096), "F32")),
    ("DTYPE-STORED", "llama-eagle3", tensor("norm.weight", (4096,), "F32")),
    ("TRAIN-SEMANTICS", "llama-eagle3", _trained(shift_label=True, dtype="float32")),
    ("TRAIN-SEMANTICS", "llama-eagle3", _trained(max_position_embeddings=4096, rope_theta=1.0)),
    ("TRAIN-SEMANTICS", "llama-eagle3", _trained(num_attention_heads=8, _name_or_path="a")),
    ("HEAD-EXISTS", "llama-eagle3", tensor("lm_head.weight", None)),
    (
        "HEAD-EXISTS",
        "llama-eagle3",
        in_turn(tensor("lm_head.weight", None), target_tensors("model.norm.weight")),
    ),
    ("EMBED-KEY", "llama-eagle3", _trained(embedding_key="model.embed_tokens.weight")),
    ("EMBED-BASIS", "llama-eagle3", target_config("quantization_config", is_rot_used=True)),
    ("EMBED-BASIS", "llama-eagle3", _trained(is_rot_used=False)),
    ("KEYS-FORMAT", "kimi-k2.5-eagle3", lambda subject: subject),
    ("VOCAB-EMBEDDABLE", "tiny-maps", lambda s: edited_draft(s, values={})),
    ("PARALLEL-PIPELINE", "llama-eagle3", _pipeline("EAGLE", SGLANG_ENABLE_PP_SPEC="1")),
    ("PARALLEL-PIPELINE", "llama-eagle3", _pipeline("NEXTN", "--disaggregation-mode prefill")),
    ("PARALLEL-PIPELINE", "qwen3-dflash", _pipeline("DSPARK", "--disaggregation-mode prefill")),
    ("PARALLEL-PIPELINE", "llama-eagle3", lambda s: edited_flag(s, "--pp-size", "1")),
]


@pytest.mark.parametrize(("contract", "name", "edit"), FINE)
def test_what_is_right_or_unknown_is_not_flagged(contract: str, name: str, edit: Edit) -> None:
    result = _result(contract, edit(SUBJECTS[name]))
    assert result.verdict in (Verdict.PASS, Verdict.NOT_APPLICABLE), result.message


WRONG = {
    ("LAYERS-BLOCK-DECLARED", "block-ids-of-speculators"): (
        "the ids [1, 17, 33] stand in aux_hidden_state_layer_ids; "
        "dflash_config.target_layer_ids expected"
    ),
    ("LAYERS-BLOCK-BESIDE", "block-ids-copied"): (
        "target_layer_ids is [1, 17, 33], and the layers whose inputs are taken are [1, 17, 33]; "
        "[2, 18, 34] expected"
    ),
    ("FLAGS-PROPOSED", "block-proposed-whole"): (
        "[16] tokens to propose; at most 15 from a block of 16"
    ),
    ("FLAGS-PARALLEL", "dp-attention-without-dp-head"): (
        "DFLASH with attention in parallel over data, without --enable-dp-lm-head"
    ),
    ("PARALLEL-PIPELINE", "eagle3-in-a-pipeline"): (
        "EAGLE3 on 2 pipeline stages; one stage expected"
    ),
    ("QUANT-BUNDLED", "bundled-head-not-quantized"): (
        "fp8 is declared, and no weight of the bundled head is packed, scaled or of 8 bits, such "
        "as [model.layers.61.mlp.gate_proj.weight]"
    ),
    ("DTYPE-STORED", "embedding-in-float32"): "weight matrices of F32 in a draft of dtype bfloat16",
    ("TRAIN-SEMANTICS", "trained-with-shifted-labels"): (
        "the draft's config has shift_label false, trained with true"
    ),
    ("HEAD-EXISTS", "head-nowhere"): (
        "neither draft nor target has an lm_head, and the target's config says that it is not its "
        "embedding"
    ),
    ("EMBED-KEY", "embedding-key-of-a-plain-target"): (
        "training was told embedding_key model.embed_tokens.weight; the target has no such tensor"
    ),
    ("EMBED-BASIS", "target-rotated"): (
        "the target's quantization rotates its residual stream, and the draft was trained without "
        "rotation; it borrows the target's embedding"
    ),
    ("KEYS-FORMAT", "conversion-without-renaming"): (
        "10 tensors are named midlayer; the config is of speculators, which names them layers.0"
    ),
    ("VOCAB-EMBEDDABLE", "vocab-size-overwritten"): (
        "a draft id stands for target id 63, and vocab_size of the draft's config is 16"
    ),
}


@pytest.mark.parametrize(("contract", "fault"), WRONG)
def test_a_failure_says_what_was_seen_and_what_was_expected(contract: str, fault: str) -> None:
    result = _result(contract, broken(SUBJECTS[faults()[fault].on], faults()[fault]))
    assert result.message == WRONG[contract, fault]


def test_every_fault_of_the_files_is_found_by_a_contract_that_names_it() -> None:
    static = [entry.contract for entry in CATALOGUE if entry.contract.tier is Tier.STATIC]
    missed = [
        (contract.id, name)
        for contract in static
        for name in contract.faults
        if _result(contract.id, broken(SUBJECTS[faults()[name].on], faults()[name])).verdict
        is not Verdict.FAIL
    ]
    assert missed == []
