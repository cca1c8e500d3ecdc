"""Slots of dumps that transformers made, named with SGLang's own class of the same weights."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from eagle3_contracts.features.dump import Kind, Layout
from eagle3_contracts.features.match import Candidate, Fit, Match, match_from_json
from eagle3_contracts.serving.process import Server
from eagle3_contracts.serving.sglang import ENVIRONMENT
from feature_dumps import write_sample
from tiny_llama import HIDDEN, LAYERS, boundaries_of, make_llama, normed, save_llama, some_tokens

pytestmark = pytest.mark.xdist_group("sglang")

IDS = [2, 4, 6]


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    server = Server("eagle3_contracts.serving.sglang.preload", ENVIRONMENT["cpu"])
    yield server
    server.close()


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("target")
    save_llama(folder)
    return folder


def asked(server: Server, target: Path, layout: Layout, *files: Path, **options: Any) -> Any:
    payload = {
        "target": str(target),
        "config": json.loads((target / "config.json").read_text()),
        "device": "cpu",
        "layout": layout,
        "samples": {file.name: str(file) for file in files},
        "tokens": 64,
        **options,
    }
    return server.run("eagle3_contracts.serving.features.jobs:identify_slots", payload, 120)


def test_real_weights_name_every_slot(server: Server, target: Path, tmp_path: Path) -> None:
    model, files = make_llama(), []
    for number, length in enumerate((5, 100, 33)):
        states = boundaries_of(model, tokens := some_tokens(length, number))
        slots, last = states[IDS].transpose(0, 1), normed(model, states[-1])
        files.append(write_sample(tmp_path, Layout.SPECULATORS, number, tokens, slots, last))
    answer = asked(server, target, Layout.SPECULATORS, *files)
    assert (answer["target_class"], answer["num_layers"]) == ("LlamaForCausalLM", LAYERS)
    assert answer["damaged"] == []
    assert [sample["tokens"] for sample in answer["samples"]] == [5, 64, 33]
    for sample in answer["samples"]:
        slots = [match_from_json(slot) for slot in sample["slots"]]
        assert [found(slot) for slot in slots] == [(Fit.SAME, Candidate(k)) for k in IDS]
        assert found(match_from_json(sample["last"])) == (Fit.SAME, Candidate(LAYERS, True))
        assert max(slot.error for slot in slots) < 1e-5


def found(match: Match) -> tuple[Fit, Candidate]:
    return match.fit, match.best


def test_the_norm_is_found_at_every_boundary(server: Server, target: Path, tmp_path: Path) -> None:
    model, tokens = make_llama(), some_tokens(20)
    states = boundaries_of(model, tokens)
    slots = normed(model, states[IDS]).transpose(0, 1)
    file = write_sample(tmp_path, Layout.SPECFORGE, 0, tokens, slots, states[-1])
    (sample,) = asked(server, target, Layout.SPECFORGE, file)["samples"]
    bests = [match_from_json(slot).best for slot in sample["slots"]]
    assert bests == [Candidate(k, True) for k in IDS]
    assert match_from_json(sample["last"]).best == Candidate(LAYERS)


def test_samples_of_another_target_are_damaged(
    server: Server, target: Path, tmp_path: Path
) -> None:
    narrow = torch.randn(6, 3, 32), torch.randn(6, 32)
    wide = torch.randn(6, 3, HIDDEN), torch.randn(6, HIDDEN)
    files = [
        write_sample(tmp_path, Layout.PLAIN, 0, torch.arange(6), *narrow),
        write_sample(tmp_path, Layout.PLAIN, 1, torch.arange(6) + 300, *wide),
    ]
    answer = asked(server, target, Layout.PLAIN, *files)
    assert answer["samples"] == []
    assert [(d["sample"], d["kind"]) for d in answer["damaged"]] == [
        ("0.safetensors", Kind.SHAPE),
        ("1.safetensors", Kind.SHAPE),
    ]
    assert "32 wide, those of the target 64" in answer["damaged"][0]["text"]
    assert "token id is 305; the target has 256" in answer["damaged"][1]["text"]


def test_a_target_that_cannot_be_run_is_said_so(server: Server, tmp_path: Path) -> None:
    folder = tmp_path / "target"
    save_llama(folder)
    (folder / "model.safetensors").write_bytes(b"not one")
    answer = asked(server, folder, Layout.PLAIN)
    assert answer["unavailable"].startswith("running the target: ")
