"""The memory canary, served by SGLang's Scheduler: right for the trained boundaries alone."""

from __future__ import annotations

import pytest

from eagle3_contracts.data import fixtures_dir
from eagle3_contracts.engine_facts import MemoryFacts
from eagle3_contracts.facts import Gap, GapKind, Record
from eagle3_contracts.faults.edit import edited_training
from eagle3_contracts.probes import Request
from eagle3_contracts.probes.memory import MemoryProbe
from eagle3_contracts.resolve import load_subjects
from eagle3_contracts.subject import ResolvedSubject


def subject(name: str) -> ResolvedSubject:
    (found,) = load_subjects([str(fixtures_dir() / "subjects" / f"{name}.yaml")])
    return found


def memory(of: ResolvedSubject, fault: str | None = None) -> Record | Gap:
    return MemoryProbe().run(of, Request(fault=fault))["memory"]


def test_without_trained_boundaries_there_is_nothing_to_learn() -> None:
    gap = memory(edited_training(subject("llama-eagle3"), convention=None))
    assert isinstance(gap, Gap)
    assert gap.kind is GapKind.ABSENT


@pytest.mark.xdist_group("sglang")
def test_a_class_that_reads_ids_by_the_first_of_them_is_found_in_the_drafts() -> None:
    """A draft of Kimi-K2.5 trained on the outputs of [2, 30, 58] is served other states."""
    facts = memory(subject("kimi-k2.5-eagle3"))
    assert isinstance(facts, MemoryFacts)
    assert (facts.refusal, facts.accept_length, facts.same_text) == (None, 1.0, True)
    assert facts.wrong == [
        "state 0 is boundary 2, not 3",
        "state 1 is boundary 30, not 31",
        "state 2 is boundary 58, not 59",
    ]


@pytest.mark.nightly
@pytest.mark.xdist_group("sglang")
@pytest.mark.parametrize(
    "name",
    [
        "llama-eagle3",
        "qwen3-eagle3",
        "qwen3-moe-eagle3",
        "deepseek-v3-eagle3",
        "gpt-oss-120b-eagle3",
    ],
)
def test_every_drafted_token_of_a_right_integration_is_kept(name: str) -> None:
    facts = memory(subject(name))
    assert isinstance(facts, MemoryFacts)
    assert (facts.refusal, facts.wrong, facts.same_text) == (None, [], True)
    assert (facts.kept, facts.drafts, facts.right) == ([0, 8], 8, 8)


@pytest.mark.nightly
@pytest.mark.xdist_group("sglang")
@pytest.mark.parametrize(
    ("fault", "wrong"),
    [
        ("one-off-by-one", ["state 1 is boundary 17, not 16"]),
        ("order-swapped", ["state 0 is not boundary 3", "state 2 is not boundary 28"]),
    ],
)
def test_what_is_captured_elsewhere_is_named(fault: str, wrong: list[str]) -> None:
    facts = memory(subject("llama-eagle3"), fault)
    assert isinstance(facts, MemoryFacts)
    assert (facts.wrong, facts.right, facts.kept) == (wrong, 0, [16])
