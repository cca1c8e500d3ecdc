"""The same loaded model is asked again and again, and answers each time as if it were the first."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from eagle3_contracts.data import fixtures_dir
from eagle3_contracts.resolve import load_subjects
from eagle3_contracts.serving.process import Server

pytestmark = pytest.mark.xdist_group("sglang")


def payload(folder: Path, ids: list[int] | None = None) -> Mapping[str, Any]:
    """Return the built-in Llama with 8 layers, and its draft with ``ids``."""
    (subject,) = load_subjects([str(fixtures_dir() / "subjects" / "llama-eagle3.yaml")])
    assert subject.target is not None
    assert subject.draft is not None
    nested = {"eagle_aux_hidden_state_layer_ids": ids or [1, 3, 5], "use_aux_hidden_state": True}
    return {
        "target": {**subject.target.config, "num_hidden_layers": 8},
        "draft": {**subject.draft.config, "eagle_config": nested},
        "algorithm": "EAGLE3",
        "device": "cpu",
        "cache": str(folder),
    }


def test_silent_is_what_the_draft_takes_and_nobody_asked_for(server: Server) -> None:
    silent = server.run("questions_jobs:silences", {}, 60)
    loud = ["as asked", "refused", "one too few of three", "from the end", "sorted"]
    assert [case for case, answer in silent.items() if not answer] == loud


def test_a_question_leaves_nothing_behind(server: Server, tmp_path: Path) -> None:
    assert server.run("questions_jobs:left_behind", payload(tmp_path), 60) == {
        "boundaries": [[2, 4, 6], [3, 5, 7]],
        "plain": [],
        "marked": [],
        "room": 0,
    }


def test_a_state_fewer_is_noticed_because_the_draft_refuses_its_width(
    server: Server, tmp_path: Path
) -> None:
    answer = server.run("questions_jobs:noticed", payload(tmp_path, [1, 3, 8]), 60)
    assert answer["states"] == 2
    assert "shapes cannot be multiplied" in answer["refusal"]


def test_as_many_states_as_ids_are_fused(server: Server, tmp_path: Path) -> None:
    answer = server.run("questions_jobs:noticed", payload(tmp_path, [1, 3, 6]), 60)
    assert answer == {"states": 3, "refusal": None}
