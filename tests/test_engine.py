"""The engine tier: SGLang's real Scheduler serves the twins, and its kernels are replaced truly."""

from __future__ import annotations

import json

import pytest

from eagle3_contracts.cli import main
from eagle3_contracts.probes.engine import first_difference


def test_equal_outputs_have_no_difference() -> None:
    assert first_difference([[1, 2], [3]], [[1, 2], [3]]) is None


def test_the_first_token_that_differs_is_named() -> None:
    said = first_difference([[1, 2], [3, 4]], [[1, 2], [3, 5]])
    assert said == "token 2 of request 2 is 5, and 4 without a draft"


def test_a_request_cut_short_or_not_served_differs() -> None:
    assert first_difference([[1, 2]], [[1]]) == "request 1 got 1 tokens, and 2 without a draft"
    assert first_difference([[1, 2]], []) == "0 of 1 requests were served"


@pytest.mark.xdist_group("sglang")
def test_a_server_with_a_draft_verifies_and_gives_out_the_same(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["check", "llama-eagle3", "--tier", "engine", "--format", "json"]) == 0
    verdicts = json.loads(capsys.readouterr().out)["verdicts"]
    assert {v["contract"]: v["verdict"] for v in verdicts} == {
        "CANARY-ACCEPTED": "pass",
        "CANARY-TEXT": "pass",
        "MEMORY-ACCEPTED": "pass",
        "SPEC-ACTIVE": "pass",
        "SPEC-EQUAL": "pass",
    }
    facts = next(v for v in verdicts if v["contract"] == "SPEC-EQUAL")["facts"]["engine"]
    assert facts["verify_steps"] == sum(facts["kept"]) > 20
    assert facts["requests"] == 3
