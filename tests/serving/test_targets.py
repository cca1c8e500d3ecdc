"""Built-in targets that are hard to run on a CPU: what the model tier finds out about each."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from eagle3_contracts import probes
from eagle3_contracts.data import fixtures_dir
from eagle3_contracts.facts import CaptureFacts, FusionFacts
from eagle3_contracts.probes import Request
from eagle3_contracts.probes.model import ModelProbe
from eagle3_contracts.resolve import load_subjects

pytestmark = pytest.mark.xdist_group("sglang")

Run = Callable[[str], tuple[CaptureFacts, FusionFacts]]


@pytest.fixture(scope="module")
def run() -> Iterator[Run]:
    def run(name: str) -> tuple[CaptureFacts, FusionFacts]:
        (subject,) = load_subjects([str(fixtures_dir() / "subjects" / f"{name}.yaml")])
        facts = ModelProbe().run(subject, Request())
        capture, fusion = facts["capture"], facts["fusion"]
        assert isinstance(capture, CaptureFacts), capture
        assert isinstance(fusion, FusionFacts), fusion
        return capture, fusion

    yield run
    probes.close()


def test_a_target_that_lends_nothing_is_still_seen_to_capture(run: Run) -> None:
    capture, fusion = run("qwen1.5-moe-eagle3")
    assert (capture.boundaries, capture.exact, capture.agrees) == ([2, 13, 21], True, True)
    assert fusion.refusal is not None
    assert fusion.refusal.startswith("AttributeError")
    assert fusion.refusal.endswith("no attribute 'get_embed_and_head'")


@pytest.mark.parametrize(
    ("name", "boundaries"),
    [
        # Sinks in bfloat16, experts in the layout of another runner.
        ("gpt-oss-120b-eagle3", [2, 18, 33]),
        # Queries and keys normed over all heads, and half of each head rotated.
        ("minimax-m2-eagle3", [2, 31, 59]),
        # Three layers with a gated delta state to one with attention.
        ("qwen3-next-eagle3", [2, 24, 45]),
    ],
)
def test_a_hard_target_equals_its_reference(run: Run, name: str, boundaries: list[int]) -> None:
    capture, fusion = run(name)
    assert (capture.boundaries, capture.decode_boundaries) == (boundaries, boundaries)
    assert (capture.exact, capture.decode_exact) == (True, True)
    assert capture.reference == capture.target_class
    assert capture.reference_error < 1e-4
    assert (fusion.refusal, fusion.fc_calls) == (None, 1)


def test_an_activation_kept_in_bfloat16_is_kept_so_in_the_reference(run: Run) -> None:
    # xIELU's two slopes: a reference with them in float32 differs by 0.003 from the first layer on.
    capture, _ = run("apertus-eagle3")
    assert (capture.boundaries, capture.exact) == ([2, 17, 30], True)
    assert capture.reference_error < 5e-4
