"""YAML files are read with the place of every value, and refused with the place of a mistake."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eagle3_contracts.errors import BadInput, SubjectError
from eagle3_contracts.locate import (
    MAX_ALIASED,
    MAX_BYTES,
    MAX_DEPTH,
    Document,
    read_yaml,
)
from eagle3_contracts.subject import Subject
from eagle3_contracts.validate import validate

NUMBERS = """
decimal: 17
signed: -3
leading_zero: 010
octal: 0o17
hexadecimal: 0x1F
exponent: 1e6
fraction: .5
infinite: -.inf
"""

SUBJECT = """\
subject: kimi
draft:
  config: {hidden_size: 7168}
  tensors:
    fc.weight: {dtype: BF16, shape: [7168, 21504]}
"""


def write(directory: Path, text: str | bytes) -> Path:
    path = directory / "subject.yaml"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def read(directory: Path, text: str | bytes) -> Document:
    return read_yaml(write(directory, text), SubjectError)


def refusal(directory: Path, text: str | bytes) -> str:
    with pytest.raises(SubjectError) as caught:
        read(directory, text)
    return str(caught.value).replace(f"{directory}/", "")


def test_numbers_are_read_as_yaml_1_2_and_json_read_them(tmp_path: Path) -> None:
    assert read(tmp_path, NUMBERS).data == {
        "decimal": 17,
        "signed": -3,
        "leading_zero": 10,
        "octal": 15,
        "hexadecimal": 31,
        "exponent": 1e6,
        "fraction": 0.5,
        "infinite": -math.inf,
    }


def test_words_that_yaml_1_1_converts_stay_strings(tmp_path: Path) -> None:
    text = "a: yes\nb: 2026-01-01\nc: 12:30\nd: 1_000\ne: off\nf: '1'\ng: !!str 1\n"
    data = {"a": "yes", "b": "2026-01-01", "c": "12:30", "d": "1_000", "e": "off"}
    assert read(tmp_path, text).data == {**data, "f": "1", "g": "1"}


def test_keys_are_always_strings(tmp_path: Path) -> None:
    assert read(tmp_path, "1: a\nnull: b\ntrue: c\n").data == {"1": "a", "null": "b", "true": "c"}


def test_nan_is_read_as_a_number(tmp_path: Path) -> None:
    assert math.isnan(read(tmp_path, "a: .nan").data["a"])


def test_a_json_file_means_what_it_means_as_json(tmp_path: Path) -> None:
    data = {"a": [1, 2.5, None, True], "b": {"c": "é\n\u2028", "d": []}, "e": 1e-05}
    assert read(tmp_path, json.dumps(data)).data == data


def test_a_byte_order_mark_is_passed_over(tmp_path: Path) -> None:
    document = read(tmp_path, b"\xef\xbb\xbfa: 1\n")
    assert (document.data, document.place(["a"])) == ({"a": 1}, (1, 4))


def test_aliases_share_the_value_of_their_anchor(tmp_path: Path) -> None:
    assert read(tmp_path, "a: &x [1, 2]\nb: *x\n").data == {"a": [1, 2], "b": [1, 2]}


def test_every_value_has_its_place(tmp_path: Path) -> None:
    document = read(tmp_path, SUBJECT)
    assert document.place([]) == (1, 1)
    assert document.place(["draft"]) == (3, 3)
    assert document.place(["draft", "config", "hidden_size"]) == (3, 25)
    assert document.place(["draft", "tensors", "fc.weight", "shape", 1]) == (5, 44)


def test_an_absent_field_has_the_place_of_the_mapping_that_lacks_it(tmp_path: Path) -> None:
    assert read(tmp_path, SUBJECT).place(["draft", "config", "absent"]) == (3, 11)


def test_places_behind_an_alias_are_those_of_the_text(tmp_path: Path) -> None:
    document = read(tmp_path, "a: &x {b: 1}\nc: [*x, *x]\nd: {e: 2}\n")
    assert document.place(["c", 1]) == (2, 9)
    assert document.place(["c", 1, "b"]) == document.place(["a", "b"]) == (1, 11)
    assert (document.key_place(["d", "e"]), document.place(["d", "e"])) == ((3, 5), (3, 8))


def test_a_key_has_its_own_place(tmp_path: Path) -> None:
    assert read(tmp_path, SUBJECT).key_place(["draft", "tensors"]) == (4, 3)


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("a: one two", (1, 8)),
        ("a: 'one two'", (1, 9)),
        ('a: "one\\ttwo"', (1, 10)),
        ("a: '''ne two'", (1, 10)),
        ("a: one\n    two", (2, 5)),
        ("a: |\n  one\n  two\n", (3, 3)),
        ("a: >-\n\n  one\n  two\n", (4, 3)),
        ("a: 'one\n\n  two'", (3, 3)),
    ],
)
def test_an_offset_into_a_string_is_found_however_it_is_written(
    tmp_path: Path, text: str, place: tuple[int, int]
) -> None:
    document = read(tmp_path, text)
    assert document.place(["a"], document.data["a"].index("two")) == place


def test_an_offset_at_the_end_of_a_string_is_the_place_behind_it(tmp_path: Path) -> None:
    document = read(tmp_path, "a: one\nb: two\n")
    assert document.place(["a"], 3) == (1, 7)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "1:1: is empty; it must hold a mapping of fields to values"),
        ("- 1", "1:1: must hold a mapping of fields to values, not [1]"),
        ("\n  word", "2:3: must hold a mapping of fields to values, not 'word'"),
        ("a: 1\n---\nb: 2", "3:1: a second document begins here; one file holds one"),
        ("a: [1", "1:6: not YAML: did not find expected ',' or ']' while parsing a flow sequence"),
        ("a: b: c", "1:5: not YAML: mapping values are not allowed in this context"),
        ("é: \x07", "1:4: not YAML: the character '\\x07' is not allowed"),
        (b"a: 1\nb: caf\xe9", "2:7: not UTF-8: byte 0xe9; save the file as UTF-8"),
        ("a: 1\nb: 2\na: 3", "3:1: 'a' is given twice, first in line 1; keep one of them"),
        ("<<: {}", "1:1: merge keys (<<) are not read; write the fields out"),
        ("[1]: 2", "1:1: a key must be a string, not a mapping or a sequence"),
        ("? [1]\n: 2", "1:3: a key must be a string, not a mapping or a sequence"),
        ("a: &b c\n*b : d", "2:1: a key must be a string, not an alias"),
        ("a: *b", "1:4: *b stands for nothing: no &b ends before it"),
        ("a: &b [*b]", "1:8: *b stands for nothing: no &b ends before it"),
        (
            "a: !!python/name:os.system x",
            "1:4: the tag 'tag:yaml.org,2002:python/name:os.system' means nothing here; "
            "leave it out",
        ),
        (
            f"a: {'9' * 5000}",
            "1:4: a number of 5000 digits is longer than any that can be meant",
        ),
        (f"a: {'[' * 500}", f"1:{3 + MAX_DEPTH}: nested deeper than {MAX_DEPTH} levels"),
    ],
)
def test_a_text_that_cannot_be_used_is_refused_with_its_place(
    tmp_path: Path, text: str | bytes, said: str
) -> None:
    assert refusal(tmp_path, text) == f"subject.yaml:{said}"


def test_all_repeated_keys_are_reported_together(tmp_path: Path) -> None:
    assert refusal(tmp_path, "a: 1\na: 2\nb: {c: 1, c: 2}\n").splitlines() == [
        "subject.yaml:2:1: 'a' is given twice, first in line 1; keep one of them",
        "subject.yaml:3:11: 'c' is given twice, first in line 3; keep one of them",
    ]


def test_aliases_of_aliases_are_bounded_before_anything_walks_them(tmp_path: Path) -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 30)]
    text = f"subject.yaml:5:45: the aliases stand for more than {MAX_ALIASED} values"
    assert refusal(tmp_path, "\n".join(lines)) == text


def test_a_file_that_is_too_large_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "subject.yaml"
    with path.open("wb") as file:
        file.truncate(MAX_BYTES + 1)
    with pytest.raises(SubjectError) as caught:
        read_yaml(path, SubjectError)
    assert str(caught.value) == f"{path}: is larger than {MAX_BYTES} bytes; no more are read"


def test_an_absent_file_is_bad_input(tmp_path: Path) -> None:
    with pytest.raises(SubjectError) as caught:
        read_yaml(tmp_path / "absent.yaml", SubjectError)
    assert str(caught.value) == f"{tmp_path}/absent.yaml: cannot be read: No such file or directory"


@pytest.fixture(scope="module")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("fuzz")


def read_and_place(directory: Path, text: str | bytes) -> None:
    """Read and validate; every mistake must be BadInput with its place."""
    try:
        _, problems = validate(Subject, read(directory, text))
    except BadInput as error:
        problems = list(error.problems)
    assert all(problem.text and problem.source for problem in problems)


@settings(max_examples=300, deadline=None)
@given(data=st.binary(max_size=200))
def test_random_bytes_are_read_or_refused(scratch: Path, data: bytes) -> None:
    read_and_place(scratch, data)


@settings(max_examples=300, deadline=None)
@given(text=st.text(alphabet="abc01 \n\t-:?,[]{}&*#!|>'\"%@`\\~.<x\0é\u2028", max_size=60))
def test_random_yaml_is_read_or_refused(scratch: Path, text: str) -> None:
    read_and_place(scratch, f"subject: x\ndraft: {text}")
    read_and_place(scratch, text)


# JSON escapes a character above U+FFFF as two halves, which YAML refuses.
TEXTS = st.text(st.characters(max_codepoint=0xFFFF, exclude_categories=["Cs"]), max_size=5)
VALUES: Any = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=10,
)


@settings(max_examples=200, deadline=None)
@given(data=st.dictionaries(TEXTS, VALUES, max_size=3))
def test_what_json_writes_is_read_back(scratch: Path, data: dict[str, Any]) -> None:
    assert read(scratch, json.dumps(data)).data == data
