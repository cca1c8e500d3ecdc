"""The corpus command counts what was caught, what was missed, and what was said without cause."""

from __future__ import annotations

from pathlib import Path

import pytest

from eagle3_contracts.cli import main

CONTRACT = """\
version: 1
contracts:
  - id: WIDTH
    family: width
    tier: static
    title: The fc fits
    applies: draft.aux_width != null && checkpoint.fc_in != null
    rule: checkpoint.fc_in == draft.aux_width
    message: "{{checkpoint.fc_in}}, not {{draft.aux_width}}"
    why: It is skipped.
    fix: Train another.
    faults: [fc-too-narrow]
"""
CASE = """\
subject: {name}
draft:
  config: {{architectures: [LlamaForCausalLMEagle3], hidden_size: 4, num_aux_hidden_states: 3}}
  tensors: {{fc.weight: {{dtype: F32, shape: [4, {width}]}}}}
expect: {expect}
"""


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    (tmp_path / "contracts").mkdir()
    (tmp_path / "contracts" / "width.yaml").write_text(CONTRACT)
    (tmp_path / "cases").mkdir()
    return tmp_path


def add(corpus: Path, name: str, width: object, expect: str) -> None:
    text = CASE.format(name=name, width=width, expect=expect)
    (corpus / "cases" / f"{name}.yaml").write_text(text)


def run(corpus: Path, capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    code = main(["cases", str(corpus / "cases"), "--contracts", str(corpus / "contracts")])
    captured = capsys.readouterr()
    return code, captured.out + captured.err


def test_a_right_corpus_is_green(corpus: Path, capsys: pytest.CaptureFixture[str]) -> None:
    add(corpus, "a-bad", 8, "{violates: [width]}")
    add(corpus, "a-good", 12, "{}")
    add(corpus, "b-bad", -1, "{error: 'greater than or equal to 0'}")
    add(corpus, "c-bad", 8, "{tier: engine, violates: [accept-floor]}")
    code, text = run(corpus, capsys)
    assert code == 0
    assert text == (
        "FAMILY            TIER      CAUGHT  MISSED\n"
        "error             static         1       0\n"
        "width             static         1       0\n"
        "\n"
        "2 of 2 bad cases caught, 0 false alarms on 3 cases\n"
        "1 of 1 good cases clean\n"
        "1 cases wait for tier engine\n"
    )


def test_a_miss_and_a_false_alarm_are_red_and_named(
    corpus: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    add(corpus, "a-bad", 12, "{violates: [width]}")
    add(corpus, "a-good", 8, "{}")
    code, text = run(corpus, capsys)
    assert code == 1
    assert text == (
        "FAMILY            TIER      CAUGHT  MISSED\n"
        "width             static         0       1\n"
        "\n"
        "WRONG  a-bad (static)\n"
        "  missed       width\n"
        "\n"
        "WRONG  a-good (static)\n"
        "  false alarm  WIDTH: 8, not 12\n"
        "\n"
        "0 of 1 bad cases caught, 1 false alarms on 2 cases\n"
        "0 of 1 good cases clean\n"
    )


def test_a_family_that_may_fail_is_no_alarm(
    corpus: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    add(corpus, "a-good", 8, "{may: [width]}")
    assert run(corpus, capsys)[0] == 0


def test_an_empty_corpus_is_bad_input(corpus: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, text = run(corpus, capsys)
    assert code == 2
    assert text.endswith("cases: holds no case: no file *.yaml\n")
