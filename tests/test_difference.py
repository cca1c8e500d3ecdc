"""What changed between two reports: real runs of check, and laws that hold of any two."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from eagle3_contracts import cli
from eagle3_contracts.report.difference import Cell, Kind, Report, compare, document, read, render
from eagle3_contracts.report.document import document as report_of
from eagle3_contracts.report.outcome import Outcome
from eagle3_contracts.verdict import Result, Verdict
from eagle3_contracts.waiver import PASSES
from tiny import WIDTH

DRAFT = {"architectures": ["LlamaForCausalLMEagle3"], "hidden_size": 16}
MIRRORED = {
    Kind.BROKEN: Kind.FIXED,
    Kind.LOST: Kind.GAINED,
    Kind.REVEALED: Kind.HIDDEN,
    Kind.WORSE: Kind.BETTER,
    Kind.OTHER: Kind.OTHER,
}
MIRRORED |= {after: before for before, after in MIRRORED.items()}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with one contract, which holds of an fc of 48 columns."""
    monkeypatch.chdir(tmp_path)
    _contracts(tmp_path, WIDTH)
    return tmp_path


def _contracts(folder: Path, *contracts: Mapping[str, Any]) -> None:
    content = {"version": 1, "contracts": list(contracts)}
    (folder / "contracts.yaml").write_text(yaml.safe_dump(content))


def _check(report: str, *words: str, **columns: int | None) -> None:
    """Run check on subjects that have an fc of so many columns, and write its report."""
    for name, number in columns.items():
        tensors = {"fc.weight": {"dtype": "BF16", "shape": [16, number]}}
        draft = {"config": DRAFT, **({"tensors": tensors} if number else {})}
        Path(f"{name}.yaml").write_text(yaml.safe_dump({"subject": name, "draft": draft}))
    files = [f"{name}.yaml" for name in columns]
    given_words = ["--contracts", "contracts.yaml", "--tier", "static", *words]
    cli.main(["check", *files, *given_words, "--report", f"json={report}"])


def _diff(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str]:
    capsys.readouterr()
    code = cli.main(["diff", "before.json", "after.json", *words])
    out, err = capsys.readouterr()
    return code, out + err


def _of(text: str) -> str:
    """Return what follows the two lines that name the reports."""
    return text.split("\n", 3)[3]


def test_two_runs_of_the_same_differ_in_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    _check("before.json", kimi=32, llama=48)
    _check("after.json", kimi=32, llama=48)
    code, text = _diff(capsys)
    assert (code, _of(text)) == (0, "no change in 2 verdicts\n")


def test_a_pass_that_fails_is_broken_and_says_what_was_observed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    _check("before.json", kimi=48, llama=48, qwen=48)
    _check("after.json", kimi=32, llama=32, qwen=48)
    code, text = _diff(capsys)
    assert code == 1
    assert _of(text) == dedent(
        """\
        BROKEN  WIDTH  pass -> fail  The fc fits
          subject    kimi, llama
          after      fc takes 32; 48 expected

        2 of 3 verdicts changed: 2 broken
        """
    )


def test_a_failure_that_passes_is_fixed(capsys: pytest.CaptureFixture[str]) -> None:
    _check("before.json", kimi=32)
    _check("after.json", kimi=48)
    code, text = _diff(capsys)
    assert (code, _of(text).splitlines()[0]) == (0, "FIXED  WIDTH  fail -> pass  The fc fits")


@pytest.mark.parametrize(("columns", "kind"), [(48, "LOST"), (32, "HIDDEN")])
def test_a_verdict_that_is_not_given_any_more_is_worse(
    columns: int, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    _check("before.json", kimi=columns)
    _check("after.json", kimi=None)
    code, text = _diff(capsys)
    assert code == 1
    assert _of(text).startswith(f"{kind}  WIDTH  ")
    assert "-> not-applicable" in text


def test_a_failure_of_another_kind_is_shown_and_is_not_worse(
    capsys: pytest.CaptureFixture[str],
) -> None:
    _check("before.json", kimi=32)
    _check("after.json", kimi=16)
    code, text = _diff(capsys)
    assert code == 0
    assert _of(text) == dedent(
        """\
        OTHER  WIDTH  fail -> fail  The fc fits
          subject    kimi
          before     fc takes 32; 48 expected
          after      fc takes 16; 48 expected

        1 of 1 verdict changed: 1 other
        """
    )


def test_subjects_and_contracts_that_come_or_go_are_one_line_each(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _check("before.json", kimi=48, llama=32)
    _contracts(folder, WIDTH, {**WIDTH, "id": "OTHER"})
    _check("after.json", kimi=48, qwen=48)
    code, text = _diff(capsys)
    assert code == 1, "the failure of llama is gone, which repairs nothing"
    assert _of(text) == dedent(
        """\
        only before  subject llama: 1 fail
        only after  contract OTHER: 2 pass
        only after  subject qwen: 2 pass
        4 of 5 verdicts changed: 1 hidden, 3 gained
        """
    )


def test_a_lower_severity_is_better(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _check("before.json", kimi=32)
    _contracts(folder, {**WIDTH, "severity": "warning"})
    _check("after.json", kimi=32)
    code, text = _diff(capsys)
    assert (code, _of(text).splitlines()[0]) == (0, "BETTER  WIDTH  fail -> warning  The fc fits")


def _waive() -> list[str]:
    entry = {
        **{"contract": "WIDTH", "subject": "kimi", "reason": "known", "issue": "a/b#1"},
        **{"owner": "me", "expires": "2999-01-01"},
    }
    content = {"version": 1, "sglang": "0.5.23", "waivers": [entry]}
    Path("waivers.yaml").write_text(yaml.safe_dump(content))
    return ["--waivers", "waivers.yaml"]


def test_a_waiver_that_is_left_over_after_the_repair_is_worse_than_a_pass(
    capsys: pytest.CaptureFixture[str],
) -> None:
    _check("before.json", *_waive(), kimi=32)
    _check("after.json", *_waive(), kimi=48)
    code, text = _diff(capsys)
    assert (code, _of(text).splitlines()[0][:36]) == (0, "FIXED  WIDTH  waived -> stale-waiver")
    _check("before.json", kimi=48)
    code, text = _diff(capsys)
    assert (code, _of(text).splitlines()[0][:34]) == (1, "WORSE  WIDTH  pass -> stale-waiver")


def test_the_versions_of_both_runs_stand_at_the_top(capsys: pytest.CaptureFixture[str]) -> None:
    _check("before.json", kimi=48)
    _check("after.json", kimi=48)
    other = json.loads(Path("before.json").read_text())
    other["environment"] |= {"sglang": "0.5.16", "torch": None}
    Path("before.json").write_text(json.dumps(other))
    here = json.loads(Path("after.json").read_text())["environment"]
    _, text = _diff(capsys)
    versions = f"torch {here['torch']}, transformers {here['transformers']} on cpu"
    first, second = text.splitlines()[:2]
    assert first.startswith("before  before.json: sglang 0.5.16, torch -, transformers ")
    assert second == f"after   after.json: sglang {here['sglang']}, {versions}"


def test_the_json_has_every_change_with_both_sides(capsys: pytest.CaptureFixture[str]) -> None:
    _check("before.json", kimi=48, llama=48)
    _check("after.json", kimi=32, qwen=48)
    code, text = _diff(capsys, "--format", "json")
    found = json.loads(text)
    assert (code, found["summary"]) == (
        1,
        {"kinds": {"broken": 1, "lost": 1, "gained": 1}, "unchanged": 0, "exit_code": 1},
    )
    assert found["changes"][0] == {
        "contract": "WIDTH",
        "subject": "kimi",
        "tier": "static",
        "title": "The fc fits",
        "kind": "broken",
        "is_worse": True,
        "before": {"verdict": "pass", "message": ""},
        "after": {"verdict": "fail", "message": "fc takes 32; 48 expected"},
    }
    assert found["removed"] == {"contracts": [], "subjects": ["llama"]}
    assert found["added"] == {"contracts": [], "subjects": ["qwen"]}


VERDICT = {
    **{"contract": "C", "title": "T", "tier": "static", "subject": "s"},
    **{"verdict": "pass", "severity": "error", "message": ""},
}


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "cannot be read: No such file or directory"),
        ("{", "2: is not JSON"),
        ("[]", "must hold a JSON object, got an array"),
        ("{}", "is no JSON report of check: it has no verdicts"),
        (
            json.dumps({"schema": 7, "environment": {}, "verdicts": []}),
            "has schema 7, and this version reads 1",
        ),
        (
            json.dumps(
                {"schema": 1, "environment": {}, "verdicts": [{**VERDICT, "verdict": "ok"}]}
            ),
            "is no JSON report of check: verdicts.0.verdict: input should be 'pass', ",
        ),
        (
            json.dumps({"schema": 1, "environment": {}, "verdicts": [VERDICT, VERDICT]}),
            "has two verdicts of C on s",
        ),
    ],
)
def test_what_is_no_report_gives_code_2_and_one_sentence(
    content: str | None, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    _check("after.json", kimi=48)
    if content is not None:
        Path("before.json").write_text(content)
    code, text = _diff(capsys)
    assert code == 2
    assert text.startswith("before.json:")
    assert said.replace("2: ", "") in text
    assert text.count("\n") == 1


def test_the_built_in_subjects_of_one_run_differ_in_nothing_from_themselves(
    capsys: pytest.CaptureFixture[str],
) -> None:
    cli.main(["check", "--tier", "static", "--report", "json=before.json", "--format", "json"])
    whole = read(Path("before.json"))
    assert len(whole.cells) > 1000
    assert compare(whole, whole).changes == ()
    capsys.readouterr()


CELLS = st.builds(
    Cell,
    contract=st.sampled_from(["A", "B", "C"]),
    title=st.just("title"),
    tier=st.just("static"),
    subject=st.sampled_from(["s", "t"]),
    verdict=st.sampled_from(Verdict),
    severity=st.sampled_from(["error", "warning", "info"]),
    message=st.sampled_from(["", "x", "y", f"{PASSES}: remove the waiver"]),
)
REPORTS = st.lists(CELLS, unique_by=lambda cell: (cell.contract, cell.subject)).map(
    lambda cells: Report("r.json", {}, {(c.contract, c.subject): c for c in cells})
)


@given(REPORTS)
def test_a_report_does_not_differ_from_itself(report: Report) -> None:
    difference = compare(report, report)
    assert (difference.changes, difference.exit_code) == ((), 0)


@given(REPORTS, REPORTS)
def test_the_way_back_is_the_mirror_image(one: Report, other: Report) -> None:
    there, back = compare(one, other), compare(other, one)
    assert {(c.cell.contract, c.cell.subject, MIRRORED[c.kind]) for c in there.changes} == {
        (c.cell.contract, c.cell.subject, c.kind) for c in back.changes
    }
    assert document(there)["added"] == document(back)["removed"]


@given(REPORTS, REPORTS)
def test_a_pass_is_never_lost_without_a_word(one: Report, other: Report) -> None:
    difference = compare(one, other)
    worse = {(c.cell.contract, c.cell.subject) for c in difference.changes if c.kind.is_worse}
    for key, cell in one.cells.items():
        after = other.cells.get(key)
        if cell.label == "pass" and (after is None or after.label != "pass"):
            assert key in worse
            assert difference.exit_code == 1
            text = render(difference)
            assert f"  {key[0]}  " in text or f" {key[0]}:" in text or f" subject {key[1]}:" in text


@given(REPORTS, REPORTS)
def test_a_failure_that_appears_is_worse_unless_another_stood_there(
    one: Report, other: Report
) -> None:
    worse = {
        (c.cell.contract, c.cell.subject) for c in compare(one, other).changes if c.kind.is_worse
    }
    for key, cell in other.cells.items():
        before = one.cells.get(key)
        if cell.label == "fail" and (
            before is None or before.label not in ("fail", "stale-waiver")
        ):
            assert key in worse


def test_what_a_run_writes_is_what_is_read(tmp_path: Path) -> None:
    result = Result(
        contract="C",
        title="T",
        family="f",
        tier="static",
        severity="warning",
        subject="s",
        where="files",
        verdict=Verdict.FAIL,
    )
    results = (result, replace(result, subject="t", verdict=Verdict.NOT_TESTABLE))
    (tmp_path / "r.json").write_text(json.dumps(report_of(Outcome(results, {"sglang": "0.5.16"}))))
    report = read(tmp_path / "r.json")
    assert {key: cell.label for key, cell in report.cells.items()} == {
        ("C", "s"): "warning",
        ("C", "t"): "not-testable",
    }
    assert report.environment == {"sglang": "0.5.16"}
