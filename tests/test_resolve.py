"""Subjects from files, directories and options: sources read, configs merged, problems gathered."""

from __future__ import annotations

import json
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from eagle3_contracts.errors import BadInput, CheckpointError, OptionError, SubjectError
from eagle3_contracts.resolve import (
    is_model,
    load_subjects,
    merge,
    read_subject,
    resolve,
    subject_from_options,
)
from eagle3_contracts.subject import ResolvedModel, Subject, Tensor
from weights import write_raw, write_shards, write_tensors

FC = {"fc.weight": ("BF16", (8, 24))}


def _subject(directory: Path, text: str, name: str = "subject.yaml") -> Path:
    path = directory / name
    path.write_text(dedent(text))
    return path


def _draft(directory: Path, config: dict[str, Any] | None = None) -> Path:
    directory.mkdir(exist_ok=True)
    (directory / "config.json").write_text(json.dumps(config or {"hidden_size": 8}))
    write_tensors(directory / "model.safetensors", FC)
    return directory


def _text_of(error: type[BadInput], *paths: Path) -> str:
    with pytest.raises(BadInput) as caught:
        load_subjects([str(path) for path in paths])
    assert type(caught.value) is error
    return str(caught.value)


def test_paths_in_a_subject_file_start_at_the_file(tmp_path: Path) -> None:
    _draft(tmp_path / "draft")
    file = _subject(
        tmp_path,
        """\
        subject: one
        draft: {source: draft}
        training: {features: dump}
        """,
    )
    (subject,) = load_subjects([str(file)])
    assert subject.origin == str(file)
    assert subject.draft == ResolvedModel(
        config={"hidden_size": 8},
        tensors={"fc.weight": Tensor(dtype="BF16", shape=(8, 24))},
        path=tmp_path / "draft",
    )
    assert subject.training is not None
    assert subject.training.features == str(tmp_path / "dump")


def test_an_inline_config_is_merged_over_the_config_of_the_source(tmp_path: Path) -> None:
    nested = {"eagle_aux_hidden_state_layer_ids": [1, 2, 3], "use_aux_hidden_state": True}
    _draft(tmp_path / "draft", {"hidden_size": 8, "eagle_config": nested})
    (tmp_path / "draft" / "hf_quant_config.json").write_text('{"quantization": {"a": 1}}')
    file = _subject(
        tmp_path,
        """\
        subject: one
        draft:
          source: draft
          config: {eagle_config: {eagle_aux_hidden_state_layer_ids: [2, 4, 6]}, vocab_size: 9}
          quant_config: {quantization: {b: 2}}
        """,
    )
    (subject,) = load_subjects([str(file)])
    assert subject.draft is not None
    assert subject.draft.config == {
        "hidden_size": 8,
        "eagle_config": {
            "eagle_aux_hidden_state_layer_ids": [2, 4, 6],
            "use_aux_hidden_state": True,
        },
        "vocab_size": 9,
    }
    assert subject.draft.quant_config == {"quantization": {"a": 1, "b": 2}}


def test_objects_are_merged_and_everything_else_is_replaced() -> None:
    base = {"a": {"b": 1, "c": [1, 2]}, "d": {"e": 1}, "f": 1}
    over = {"a": {"c": [3]}, "d": None, "g": {"h": 1}}
    assert merge(base, over) == {
        "a": {"b": 1, "c": [3]},
        "d": None,
        "f": 1,
        "g": {"h": 1},
    }


def test_with_inline_tensors_no_weight_file_is_looked_at(tmp_path: Path) -> None:
    _draft(tmp_path / "draft")
    write_raw(tmp_path / "draft" / "model.safetensors", b"this is not read")
    file = _subject(
        tmp_path,
        """\
        subject: one
        draft:
          source: draft
          tensors: {fc.weight: {dtype: F32, shape: [2, 6]}}
        """,
    )
    (subject,) = load_subjects([str(file)])
    assert subject.draft is not None
    assert subject.draft.tensors == {"fc.weight": Tensor(dtype="F32", shape=(2, 6))}


def test_values_are_added_to_the_tensors(tmp_path: Path) -> None:
    file = _subject(
        tmp_path,
        """\
        subject: one
        draft:
          tensors: {ids: {dtype: I32, shape: [2]}}
          values: {d2t: [0, 1, 1], t2d: [true, false], ids: [1, 0], empty: []}
        """,
    )
    (subject,) = load_subjects([str(file)])
    assert subject.draft is not None
    assert subject.draft.tensors == {
        "d2t": Tensor(dtype="I64", shape=(3,)),
        "empty": Tensor(dtype="I64", shape=(0,)),
        "ids": Tensor(dtype="I32", shape=(2,)),
        "t2d": Tensor(dtype="BOOL", shape=(2,)),
    }
    assert subject.draft.values == {
        "d2t": (0, 1, 1),
        "empty": (),
        "ids": (1, 0),
        "t2d": (True, False),
    }
    assert [type(value) for value in subject.draft.values["ids"]] == [int, int]


def test_the_vocabulary_maps_of_a_checkpoint_are_read_by_value(tmp_path: Path) -> None:
    directory = _draft(tmp_path / "draft")
    d2t = b"".join(number.to_bytes(8, "little", signed=True) for number in (0, 3, -1))
    write_tensors(
        directory / "model.safetensors",
        {**FC, "d2t": ("I64", (3,)), "model.t2d": ("BOOL", (2,)), "position": ("I64", (2,))},
        {"d2t": d2t, "model.t2d": b"\1\0"},
    )
    (subject,) = load_subjects([str(directory)])
    assert subject.draft is not None
    assert subject.draft.values == {"d2t": (0, 3, -1), "model.t2d": (True, False)}


def test_missing_shards_are_kept_for_a_verdict(tmp_path: Path) -> None:
    directory = tmp_path / "draft"
    directory.mkdir()
    write_shards(directory, {"a.safetensors": FC, "b.safetensors": {"norm": ("F32", (8,))}})
    (directory / "b.safetensors").unlink()
    (directory / "config.json").write_text("{}")
    (subject,) = load_subjects([str(directory)])
    assert subject.draft is not None
    assert subject.draft.missing_shards == ("b.safetensors",)
    assert sorted(subject.draft.tensors or ()) == ["fc.weight"]


def test_nothing_is_known_of_the_tensors_of_a_directory_without_weights(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    (subject,) = load_subjects([str(tmp_path)])
    assert subject.draft is not None
    assert subject.draft.tensors is None


def test_a_target_may_have_weights_in_another_format(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "pytorch_model.bin").write_bytes(b"PK")
    subject = subject_from_options(target=str(tmp_path), draft=None, launch=None)
    assert subject.target is not None
    assert subject.target.tensors is None


def test_a_directory_gives_its_subject_files_in_order(tmp_path: Path) -> None:
    for name in ("b", "a", "c"):
        _subject(tmp_path, f"subject: {name}", name=f"{name}.yaml")
    (tmp_path / "README.md").write_text("not a subject")
    assert [subject.name for subject in load_subjects([str(tmp_path)])] == ["a", "b", "c"]


def test_a_draft_directory_and_its_config_are_subjects(tmp_path: Path) -> None:
    directory = _draft(tmp_path / "my draft (v2)")
    (whole,) = load_subjects([str(directory)])
    (config,) = load_subjects([str(directory / "config.json")])
    assert whole.name == config.name == "my-draft-v2"
    assert whole.draft is not None
    assert config.draft is not None
    assert whole.draft.tensors is not None
    assert config.draft == ResolvedModel(config={"hidden_size": 8})
    assert is_model(str(directory))
    assert is_model(str(directory / "config.json"))
    assert not is_model(str(tmp_path))


def test_options_make_a_subject_that_can_be_repeated(tmp_path: Path) -> None:
    draft = _draft(tmp_path / "draft")
    target = _draft(tmp_path / "target")
    subject = subject_from_options(str(target), str(draft), "--speculative-algorithm EAGLE3")
    assert subject.name == "draft"
    assert subject.origin == (
        f"--target {target} --draft {draft} --launch '--speculative-algorithm EAGLE3'"
    )
    assert subject.target is not None
    assert subject.target.path == target


def test_without_options_there_is_no_subject() -> None:
    with pytest.raises(OptionError) as caught:
        subject_from_options(None, None, None)
    assert str(caught.value) == (
        "options: a subject needs at least one of --target, --draft and --launch"
    )


def test_a_draft_named_only_in_the_flags_is_read_where_it_is_a_directory(tmp_path: Path) -> None:
    _draft(tmp_path / "draft")
    file = _subject(
        tmp_path,
        """\
        subject: one
        launch: {args: --speculative-draft-model-path draft --model-path owner/name}
        """,
    )
    (subject,) = load_subjects([str(file)])
    assert subject.draft is not None
    assert subject.draft.path == tmp_path / "draft"
    assert subject.target is None


def test_all_problems_of_all_files_are_reported_at_once(tmp_path: Path) -> None:
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "config.json").write_text("[]")
    write_raw(tmp_path / "broken" / "model.safetensors", b"[]")
    a = _subject(
        tmp_path,
        """\
        subject: a
        target:
          config: {hidden_size: many}
        draft: {source: broken}
        launch:
          args: --model 'x
        """,
        name="a.yaml",
    )
    b = _subject(tmp_path, "subject: b\ndraft: {source: no where}\n", name="b.yaml")
    _subject(tmp_path, "subject: c\ndraft: {source: broken}\nlunch: {}\n", name="c.yaml")
    assert _text_of(BadInput, tmp_path).splitlines() == [
        f"{a}:3:25: target.config.hidden_size: must be an integer from 1 to 2147483647, got 'many'",
        f"{a}:6:9: launch.args: cannot be split into words: No closing quotation; every quote and "
        "backslash needs its other half",
        f"{b}:2:17: draft.source: there is no 'no where'; give a directory with config.json and "
        "*.safetensors, or a hub id (owner/name)",
        f"{tmp_path}/broken/config.json: the file must hold a JSON object, got an array",
        f"{tmp_path}/broken/model.safetensors: the safetensors header must hold a JSON object, got "
        "an array",
        f"{tmp_path}/c.yaml:3:1: unknown field 'lunch'; did you mean 'launch'?",
    ]


def test_a_wrong_value_is_shown_where_it_was_written(tmp_path: Path) -> None:
    _draft(tmp_path / "draft", {"hidden_size": "8", "vocab_size": "9"})
    file = _subject(
        tmp_path,
        """\
        subject: one
        draft:
          source: draft
          config:
            vocab_size: nine
        """,
    )
    assert _text_of(SubjectError, file).splitlines() == [
        f"{tmp_path}/draft/config.json: hidden_size must be an integer from 1 to 2147483647, "
        "got '8'",
        f"{file}:5:17: draft.config.vocab_size: must be an integer from 1 to 2147483647, "
        "got 'nine'",
    ]


def test_a_checkpoint_that_cannot_be_read_is_a_checkpoint_error(tmp_path: Path) -> None:
    directory = _draft(tmp_path / "draft")
    (directory / "model.safetensors").write_bytes(b"")
    assert _text_of(CheckpointError, directory) == (
        f"{directory}/model.safetensors: is 0 bytes long, a safetensors file has at least 8; it is "
        "truncated or empty"
    )


def test_values_that_contradict_the_tensors_are_a_problem(tmp_path: Path) -> None:
    file = _subject(
        tmp_path,
        """\
        subject: one
        draft:
          tensors: {d2t: {dtype: I64, shape: [4]}}
          values: {d2t: [0, 1]}
        """,
    )
    assert _text_of(SubjectError, file) == (
        f"{file}:4:17: draft.values.d2t: has 2 elements, tensors gives it the shape [4]"
    )


def test_two_subjects_of_one_name_are_a_problem(tmp_path: Path) -> None:
    a = _subject(tmp_path, "subject: one", name="a.yaml")
    b = _subject(tmp_path, "subject: one", name="b.yaml")
    assert _text_of(SubjectError, tmp_path) == (
        f"{b}: the name 'one' is taken by {a}; each subject needs its own"
    )


def test_paths_that_lead_nowhere_are_named(tmp_path: Path) -> None:
    assert _text_of(SubjectError, tmp_path, tmp_path / "gone.yaml").splitlines() == [
        f"{tmp_path}: holds neither subject files (*.yaml) nor a config.json",
        f"{tmp_path}/gone.yaml: there is no such file or directory; a subject file, a directory of "
        "them, or a draft directory is needed",
    ]


def test_a_source_without_config_and_weights_is_no_model(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    file = _subject(tmp_path, "subject: one\ntarget:\n  source: empty\n")
    assert _text_of(SubjectError, file) == (
        f"{file}:3:11: target.source: {tmp_path}/empty holds neither config.json nor *.safetensors"
    )


def test_a_subject_file_is_read_as_declared(tmp_path: Path) -> None:
    file = _subject(tmp_path, "subject: one\ndraft: {source: gone}\n")
    subject = read_subject(file)
    assert subject == Subject.model_validate({"subject": "one", "draft": {"source": "gone"}})
    with pytest.raises(SubjectError) as caught:
        resolve(subject, tmp_path, origin="one.yaml")
    assert str(caught.value) == (
        "one.yaml: draft.source: there is no 'gone'; give a directory with config.json and "
        "*.safetensors, or a hub id (owner/name)"
    )
