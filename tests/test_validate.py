"""What pydantic refuses is said in plain words, at the place where it stands in the file."""

from __future__ import annotations

from pathlib import Path

from eagle3_contracts.errors import SubjectError
from eagle3_contracts.locate import MAX_REPORTED, Document, read_yaml
from eagle3_contracts.subject import Subject
from eagle3_contracts.validate import validate

BAD_SUBJECT = """\
subject: kimi
lunch:
  args: ""
target:
  tensors:
    fc.weight: {dtyp: BF16, shape: [7168, -1]}
draft:
  values:
    d2t: [0, 1, seven]
launch:
  engine: sglan
  env: {PORT: 1}
training:
  tool: null
  convention: 7
"""


def read(directory: Path, text: str) -> Document:
    path = directory / "subject.yaml"
    path.write_text(text)
    return read_yaml(path, SubjectError)


def mistakes(directory: Path, text: str) -> str:
    made, problems = validate(Subject, read(directory, text))
    assert made is None
    return "\n".join(map(str, problems)).replace(f"{directory}/", "")


def test_a_valid_document_becomes_the_model(tmp_path: Path) -> None:
    subject, problems = validate(Subject, read(tmp_path, "subject: kimi\n"))
    assert subject is not None
    assert (subject.name, problems) == ("kimi", [])


def test_all_mistakes_are_reported_each_with_its_place_and_a_hint(tmp_path: Path) -> None:
    assert mistakes(tmp_path, BAD_SUBJECT).splitlines() == [
        "subject.yaml:6:16: 'dtype' is missing",
        "subject.yaml:6:43: shape[1] must be greater than or equal to 0, not -1",
        "subject.yaml:6:17: unknown field 'dtyp'; did you mean 'dtype'?",
        "subject.yaml:9:17: d2t[2] must be a valid integer, not 'seven'",
        "subject.yaml:11:11: engine must be 'sglang' or 'vllm', not 'sglan'; "
        "did you mean 'sglang'?",
        "subject.yaml:12:15: PORT must be a valid string, not 1; put it in quotes",
        "subject.yaml:15:15: convention must be 'output-of', 'input-of' or 'hf-index', not 7",
        "subject.yaml:2:1: unknown field 'lunch'; did you mean 'launch'?",
    ]


def test_an_unknown_field_that_resembles_none_is_answered_with_all(tmp_path: Path) -> None:
    assert mistakes(tmp_path, "subject: x\nxyz: 1\n") == (
        "subject.yaml:2:1: unknown field 'xyz'; known are "
        "draft, expect, launch, subject, target, training"
    )


def test_only_the_first_of_very_many_mistakes_are_reported(tmp_path: Path) -> None:
    shape = ", ".join(["-1"] * (MAX_REPORTED + 7))
    text = f"subject: x\ndraft: {{tensors: {{fc.weight: {{dtype: F32, shape: [{shape}]}}}}}}"
    lines = mistakes(tmp_path, text).splitlines()
    assert (len(lines), lines[-1]) == (MAX_REPORTED + 1, "subject.yaml: and 7 more mistakes")
