"""The wiring canary in the real sglang.Engine: right wiring keeps every draft, faults are named."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from eagle3_contracts.canary import broken_parts, expected, prompts
from eagle3_contracts.serving.process import JobError, Server
from eagle3_contracts.serving.sglang import ENVIRONMENT

COUNT = 13  # one token of the prefill, and three verifications that keep three drafts each
PROMPTS = prompts(3)
EAGLE3 = {
    "speculative_algorithm": "EAGLE3",
    "speculative_num_steps": 3,
    "speculative_eagle_topk": 1,
    "speculative_num_draft_tokens": 4,
}
pytestmark = pytest.mark.xdist_group("sglang")


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """Import SGLang once for all engines."""
    server = Server("eagle3_contracts.serving.sglang.preload", ENVIRONMENT["cpu"])
    yield server
    server.close()


def serve(server: Server, fault: str | None = None, **changes: Any) -> dict[str, Any]:
    options = {**EAGLE3, **changes}
    payload = {
        "prompts": PROMPTS,
        "count": COUNT,
        "device": "cpu",
        "fault": fault,
        "options": {name: value for name, value in options.items() if value is not None},
    }
    job = "eagle3_contracts.serving.sglang.engine_jobs:serve_canary"
    return server.run(job, payload, 240)


def kept(served: dict[str, Any]) -> list[list[int]]:
    return [answer["histogram"] for answer in served["answers"]]


def is_right(served: dict[str, Any]) -> bool:
    given = [answer["tokens"] for answer in served["answers"]]
    return given == [expected(prompt, COUNT) for prompt in PROMPTS]


def named(served: dict[str, Any]) -> list[str]:
    return broken_parts((drafted[0], target[0]) for drafted, target in served["verified"])


def test_right_wiring_keeps_every_draft_and_the_text(server: Server) -> None:
    served = serve(server)
    assert is_right(served)
    assert kept(served) == [[0, 0, 0, 3]] * 3
    assert [answer["verifications"] for answer in served["answers"]] == [3] * 3
    assert named(served) == []


@pytest.mark.nightly
def test_a_tree_keeps_every_draft_and_the_text(server: Server) -> None:
    served = serve(server, speculative_eagle_topk=4, speculative_num_draft_tokens=8)
    assert is_right(served)
    assert kept(served) == [[0, 0, 0, 3]] * 3


@pytest.mark.nightly
def test_without_speculation_the_text_is_the_same_and_nothing_is_verified(server: Server) -> None:
    served = serve(server, **dict.fromkeys(EAGLE3))
    assert is_right(served)
    assert [answer["verifications"] for answer in served["answers"]] == [0] * 3


@pytest.mark.nightly
def test_capture_that_is_never_configured_keeps_no_draft(server: Server) -> None:
    served = serve(server, fault="never-configured")
    assert is_right(served)
    assert kept(served) == [[COUNT - 1]] * 3
    assert named(served)


@pytest.mark.nightly
def test_an_engine_that_cannot_start_says_what_it_printed(server: Server) -> None:
    with pytest.raises(JobError, match="serve_canary"):
        serve(server, attention_backend="nothing-of-that-name")
