"""Every target class of the installed SGLang that captures has a subject, or a reason for none."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
import yaml

from eagle3_contracts.data import fixtures_dir
from eagle3_contracts.resolve import load_subjects
from eagle3_contracts.serving.sglang.registry import capturing_targets, known_architectures

UNCOVERED = fixtures_dir() / "uncovered.yaml"

INHERITING_THE_HOOK = {
    "LlamaForCausalLMEagle3",
    "DeepseekV3ForCausalLMNextN",
    "ExaoneMoEForCausalLMMTP",
    "Gemma4UnifiedAssistantForCausalLM",
    "GlmMoeDsaForCausalLMNextN",
    "EmbeddingGemmaModel",
}


def _architectures() -> set[str]:
    subjects = load_subjects([str(fixtures_dir() / "subjects")])
    return {name for s in subjects if s.target for name in s.target.config["architectures"]}


def _complaints(
    targets: set[str], covered: set[str], uncovered: Mapping[str, str], known: set[str]
) -> list[str]:
    """Return what is wrong with the subjects and the list of the classes without one."""
    missing = targets - covered - set(uncovered)
    return [
        *(f"{name} captures and has no subject in fixtures/subjects" for name in sorted(missing)),
        *(
            f"{name} has a subject: take it out of {UNCOVERED.name}"
            for name in sorted(set(uncovered) & covered)
        ),
        *(
            f"{name} of {UNCOVERED.name} is no capturing target of this SGLang"
            for name in sorted(set(uncovered) - targets)
        ),
        *(
            f"{name} has no reason in {UNCOVERED.name}"
            for name, why in uncovered.items()
            if not why
        ),
        *(f"{name} of a subject is unknown to SGLang" for name in sorted(covered - known)),
    ]


def test_every_capturing_target_has_a_subject() -> None:
    listed = yaml.safe_load(UNCOVERED.read_text())
    known = set(known_architectures())
    assert _complaints(set(capturing_targets()), _architectures(), listed, known) == []


@pytest.mark.parametrize(
    ("covered", "uncovered", "complaint"),
    [
        ({"A"}, {}, "B captures and has no subject in fixtures/subjects"),
        ({"A", "B"}, {"B": "lazy"}, "B has a subject: take it out of uncovered.yaml"),
        ({"A", "B"}, {"C": "gone"}, "C of uncovered.yaml is no capturing target of this SGLang"),
        ({"A"}, {"B": ""}, "B has no reason in uncovered.yaml"),
        ({"A", "B", "Z"}, {}, "Z of a subject is unknown to SGLang"),
    ],
)
def test_a_gap_is_named(covered: set[str], uncovered: dict[str, str], complaint: str) -> None:
    assert _complaints({"A", "B"}, covered, uncovered, {"A", "B", "C"}) == [complaint]


def test_drafts_and_embedding_models_are_no_targets() -> None:
    assert not capturing_targets() & INHERITING_THE_HOOK
    assert {"LlamaForCausalLM", "GlmMoeDsaForCausalLM", "Gemma3ForCausalLM"} <= capturing_targets()
