"""Targets that transformers has no class for: a config class and weights that stand in."""

from __future__ import annotations

from typing import Any

import pytest

from eagle3_contracts.serving.process import Server

pytestmark = pytest.mark.xdist_group("sglang")

OWN = {"model_type": "bailing_moe_v9", "rope_theta": 600000.0, "partial_rotary_factor": 0.5}
CODE = {"auto_map": {"AutoConfig": "configuration.OwnConfig"}}


def registered(server: Server, **config: Any) -> dict[str, Any]:
    return server.run("sglang_jobs:registered", {"config": config}, 60)


def test_a_type_with_code_of_its_own_is_read_field_by_field(server: Server) -> None:
    answer = registered(server, **OWN, **CODE)
    assert answer == {
        "known": True,
        "class": "CheckpointConfig",
        "rope": {"rope_type": "default", "rope_theta": 600000.0, "partial_rotary_factor": 0.5},
    }


def test_an_unknown_type_without_code_stays_unknown(server: Server) -> None:
    assert registered(server, **OWN) == {"known": False}


def test_a_known_type_keeps_its_class(server: Server) -> None:
    assert registered(server, model_type="llama", **CODE)["class"] == "LlamaConfig"


def test_made_up_weights_let_every_layer_change_the_stream(server: Server) -> None:
    sizes = server.run("sglang_jobs:made_up", {}, 60)
    assert sizes["norm.weight"] == pytest.approx(1.0, abs=0.05)
    assert sizes["proj.weight"] == pytest.approx(0.08, abs=0.01)
