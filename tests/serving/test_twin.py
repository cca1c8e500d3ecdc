"""The twin keeps what layer ids depend on, and shrinks everything else."""

from __future__ import annotations

import pytest

from eagle3_contracts.data import fixtures_dir
from eagle3_contracts.modelconfig import language_model
from eagle3_contracts.resolve import load_subjects
from eagle3_contracts.serving.sglang.twin import HIDDEN, VOCAB, draft_twin, target_twin
from eagle3_contracts.subject import ResolvedSubject

SUBJECTS = load_subjects([str(fixtures_dir() / "subjects")])
KEPT = ("architectures", "model_type", "num_hidden_layers", "first_k_dense_replace", "hidden_act")


@pytest.mark.parametrize("subject", SUBJECTS, ids=lambda subject: subject.name)
def test_depth_classes_and_flags_stay(subject: ResolvedSubject) -> None:
    assert subject.target is not None
    config, twin = subject.target.config, target_twin(subject.target.config)
    assert twin["architectures"] == config["architectures"]
    before, after = language_model(config)[0], language_model(twin)[0]
    for key in KEPT:
        assert after.get(key) == before.get(key), key
    switches = {key: value for key, value in before.items() if isinstance(value, bool)}
    assert {key: after[key] for key in switches} == switches


@pytest.mark.parametrize("subject", SUBJECTS, ids=lambda subject: subject.name)
def test_widths_and_vocabulary_shrink(subject: ResolvedSubject) -> None:
    assert subject.target is not None
    text = language_model(target_twin(subject.target.config))[0]
    assert (text["hidden_size"], text["vocab_size"]) == (HIDDEN, VOCAB)
    assert text["intermediate_size"] <= 2 * HIDDEN


def test_the_config_that_is_shrunk_is_not_changed() -> None:
    config = {"hidden_size": 4096, "vocab_size": 1000, "text_config": {"hidden_size": 4096}}
    before = repr(config)
    target_twin(config)
    assert repr(config) == before


def test_grouped_and_ungrouped_heads_stay_so() -> None:
    grouped = target_twin({"hidden_size": 1, "num_attention_heads": 32, "num_key_value_heads": 8})
    alike = target_twin({"hidden_size": 1, "num_attention_heads": 32, "num_key_value_heads": 32})
    assert (grouped["num_attention_heads"], grouped["num_key_value_heads"]) == (4, 2)
    assert (alike["num_attention_heads"], alike["num_key_value_heads"]) == (4, 4)


def test_a_draft_as_wide_as_its_target_stays_so() -> None:
    assert draft_twin({"hidden_size": 7168}, target_hidden=7168)["hidden_size"] == HIDDEN


def test_a_draft_of_another_width_stays_so() -> None:
    config = {"hidden_size": 2048, "target_hidden_size": 7168}
    twin = draft_twin(config, target_hidden=7168)
    assert (twin["hidden_size"], twin["target_hidden_size"]) == (HIDDEN // 2, HIDDEN)


def test_a_target_width_that_is_not_the_targets_stays_wrong() -> None:
    config = {"hidden_size": 7168, "target_hidden_size": 5120}
    assert draft_twin(config, target_hidden=7168)["target_hidden_size"] != HIDDEN


def test_a_draft_vocabulary_stays_smaller_than_the_targets_or_equal() -> None:
    reduced = draft_twin({"vocab_size": 128256, "draft_vocab_size": 32000}, target_hidden=None)
    full = draft_twin({"vocab_size": 128256, "draft_vocab_size": 128256}, target_hidden=None)
    assert (reduced["draft_vocab_size"], full["draft_vocab_size"]) == (VOCAB // 2, VOCAB)


def test_token_ids_past_the_vocabulary_get_places_of_their_own() -> None:
    config = {"vocab_size": 1000, "bos_token_id": 1, "eos_token_id": 999, "image_token_index": 998}
    twin = target_twin(config)
    assert twin["bos_token_id"] == 1
    assert len({twin["eos_token_id"], twin["image_token_index"]}) == 2
    assert max(twin["eos_token_id"], twin["image_token_index"]) < VOCAB
