"""The canary's contracts speak for subjects of its classes, and name the road that is broken."""

from __future__ import annotations

import pytest

from eagle3_contracts.data import fixtures_dir
from eagle3_contracts.engine_facts import CanaryFacts, accept_length
from eagle3_contracts.facts import Gap, GapKind, Record
from eagle3_contracts.probes import Request
from eagle3_contracts.probes.canary import CanaryProbe
from eagle3_contracts.resolve import load_subjects


def canary(name: str, fault: str | None = None) -> Record | Gap:
    (subject,) = load_subjects([str(fixtures_dir() / "subjects" / f"{name}.yaml")])
    return CanaryProbe().run(subject, Request(fault=fault))["canary"]


@pytest.mark.parametrize(
    ("kept", "length"), [([], 0.0), ([8], 1.0), ([0, 0, 0, 2], 4.0), ([1, 1], 1.5)]
)
def test_accept_length_counts_the_targets_own_token(kept: list[int], length: float) -> None:
    assert accept_length(kept) == length


def test_other_classes_are_not_spoken_for() -> None:
    gap = canary("qwen3-eagle3")
    assert isinstance(gap, Gap)
    assert gap.kind is GapKind.ABSENT


@pytest.mark.nightly
@pytest.mark.xdist_group("sglang")
@pytest.mark.parametrize(
    ("fault", "broken"), [(None, []), ("one-off-by-one", ["state 1 is boundary 5, not 4"])]
)
def test_the_road_that_is_broken_is_named(fault: str | None, broken: list[str]) -> None:
    facts = canary("llama-eagle3", fault)
    assert isinstance(facts, CanaryFacts)
    assert (facts.refusal, facts.broken) == (None, broken)
    assert facts.text_is_right
    assert (facts.accept_length == facts.most) == (fault is None)


@pytest.mark.nightly
@pytest.mark.xdist_group("sglang")
def test_an_engine_that_stops_with_the_draft_only_is_no_broken_harness() -> None:
    facts = canary("llama-eagle3", "all-off-by-one")  # the last boundary is not captured then
    assert isinstance(facts, CanaryFacts)
    assert facts.refusal is not None
    assert "shapes cannot be multiplied" in facts.refusal
    assert facts.accept_length == 0.0
