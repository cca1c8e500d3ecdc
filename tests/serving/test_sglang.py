"""The parts that watch SGLang, run where SGLang runs."""

from __future__ import annotations

from typing import Any

import pytest

from eagle3_contracts.serving.process import Server

pytestmark = pytest.mark.xdist_group("sglang")

F32 = "F32"
WHOLE = {"q": [F32, [2, 3]], "k": [F32, [2, 3]], "norm": [F32, [3]], "d2t": ["I64", [5]]}


def load(server: Server, header: dict[str, Any], **options: Any) -> dict[str, Any]:
    return server.run("sglang_jobs:loaded", {"header": header, **options}, 60)


def test_attention_is_right_in_each_of_its_variants(server: Server) -> None:
    errors = server.run("sglang_jobs:attention_errors", {}, 60)
    assert set(errors) == {"grouped heads, prefix", "sliding window", "logit cap", "sinks"}
    assert max(errors.values()) < 1e-6, errors


def test_a_whole_checkpoint_leaves_nothing_over_on_either_side(server: Server) -> None:
    assert load(server, WHOLE) == {
        "ignored": [],
        "wrong_shapes": [],
        "refusal": None,
        "unfilled": [],
    }


def test_a_map_that_is_only_computed_with_counts_as_taken(server: Server) -> None:
    assert load(server, {"d2t": ["I64", [5]]})["ignored"] == []


def test_a_tensor_that_the_loader_passes_over_is_ignored(server: Server) -> None:
    answer = load(server, {**WHOLE, "extra.bias": [F32, [2]]})
    assert (answer["ignored"], answer["unfilled"]) == (["extra.bias"], [])


def test_half_of_a_fused_parameter_is_not_enough(server: Server) -> None:
    answer = load(server, {name: WHOLE[name] for name in ("q", "norm")})
    assert answer["unfilled"] == ["qkv_proj (6 of 12 elements)"]


def test_a_parameter_that_the_target_shares_need_not_be_filled(server: Server) -> None:
    answer = load(server, {name: WHOLE[name] for name in ("q", "k")}, shared=["norm"])
    assert answer["unfilled"] == []


def test_every_tensor_of_a_wrong_shape_is_named_not_only_the_first(server: Server) -> None:
    answer = load(server, {**WHOLE, "k": [F32, [2, 4]], "norm": [F32, [7]]})
    assert [text.partition("]")[0] for text in answer["wrong_shapes"]] == ["k [2, 4", "norm [7"]
    assert answer["unfilled"] == ["qkv_proj (6 of 12 elements)", "norm"]


def test_states_are_matched_with_boundaries_and_judged_by_a_tolerance(server: Server) -> None:
    assert server.run("sglang_jobs:compared", {}, 60) == {
        "in order": [[1, 3], True],
        "swapped": [[3, 1], True],
        "between": [[1], False],
        "not a number": [[0], False],
        "another width": [[0], False],
        "none": [[], False],
    }


def test_a_layer_that_no_weights_reached_is_named(server: Server) -> None:
    assert server.run("sglang_jobs:unfilled_layers", {}, 60) == {
        "whole": "",
        "gap": "SGLang takes no weights of transformers for weight of layer 1; the two releases "
        "store them differently",
        "still_filling": False,
    }
