"""Reports: one outcome as a table, as failures, as counts, as JSON and as JUnit XML."""

from __future__ import annotations

import io
import json
import math
import stat
import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from eagle3_contracts import report
from eagle3_contracts.errors import OptionError
from eagle3_contracts.options import FORMATS
from eagle3_contracts.report.document import as_json, result_from_json
from eagle3_contracts.report.failure import failure_text
from eagle3_contracts.report.outcome import Outcome
from eagle3_contracts.report.style import Style, can_show, style_of
from eagle3_contracts.report.terminal import render, summary
from eagle3_contracts.verdict import Result, Verdict

RESULT = Result(
    contract="FC-WIDTH",
    title="The fc fits",
    family="width",
    tier="static",
    severity="error",
    subject="kimi",
    where="files",
    verdict=Verdict.FAIL,
    message="fc takes 32; 48 expected",
    cause="It belongs to another target.",
    fix="Take another draft.",
    refs=("a/b#1", "a/b#2"),
    reproduce="eagle3-contracts check kimi.yaml --contract FC-WIDTH",
    facts={"checkpoint": {"fc_in": 32}},
    seconds=0.25,
)
PASS = replace(RESULT, verdict=Verdict.PASS, message="", cause="", fix="")
IDLE = replace(PASS, verdict=Verdict.NOT_APPLICABLE, message="the subject names no draft")
WAIVED = replace(RESULT, verdict=Verdict.WAIVED, waiver="until 2027-06-30: known (a/b#1; me)")
MODEL = replace(PASS, contract="CAPTURE", tier="model", where="sglang 0.5.23 on cpu")
BLOCKED = replace(MODEL, verdict=Verdict.BLOCKED, message="blocked by FC-WIDTH, which fails")


def _named(count: int, *results: Result) -> tuple[Result, ...]:
    return tuple(
        replace(result, subject=f"subject-{n}") for n in range(1, count + 1) for result in results
    )


def _shown(*results: Result, width: int = 80, **more: Any) -> str:
    return render(Outcome(results, **more), Style(width=width))


def test_one_subject_is_shown_with_its_verdicts_in_words() -> None:
    text = _shown(PASS, replace(MODEL, verdict=Verdict.NOT_APPLICABLE, message="no target"))
    assert text == dedent(
        """\
                          kimi
        static  FC-WIDTH  pass
        model   CAPTURE   not-applicable

        not-applicable  1 because: no target
        1 of 2 verdicts ran: 1 pass, 1 not applicable (2 contracts, 1 subject)
        """
    )


def test_many_subjects_are_numbered_and_marked() -> None:
    results = (*_named(7, PASS), replace(RESULT, subject="last"), replace(BLOCKED, subject="last"))
    assert render(Outcome(results), Style(width=80)).partition("\n\nFAIL")[0] == dedent(
        """\
         1 subject-1   3 subject-3   5 subject-5   7 subject-7
         2 subject-2   4 subject-4   6 subject-6   8 last

                          1  2  3  4  5  6  7  8
        static  FC-WIDTH  ✓  ✓  ✓  ✓  ✓  ✓  ✓  ✗
        model   CAPTURE                        b

        ✓ pass  ✗ fail  b blocked"""
    )


def test_more_subjects_than_the_width_holds_make_several_tables() -> None:
    text = render(Outcome(_named(12, PASS)), Style(width=40, has_unicode=False))
    assert text == dedent(
        """\
         1 subject-1   4 subject-4
         2 subject-2   5 subject-5
         3 subject-3   6 subject-6

                           1   2   3   4   5   6
        static  FC-WIDTH   .   .   .   .   .   .

         7 subject-7   10 subject-10
         8 subject-8   11 subject-11
         9 subject-9   12 subject-12

                           7   8   9  10  11  12
        static  FC-WIDTH   .   .   .   .   .   .

        . pass

        12 of 12 verdicts ran: 12 pass
          (1 contract, 12 subjects)
        """
    )


@pytest.mark.parametrize("width", [40, 80, 120])
def test_no_line_of_a_report_is_wider_than_the_screen(width: int) -> None:
    long = replace(RESULT, message="fc " * 80, cause="because " * 40, reproduce="short")
    results = (*_named(40, long, WAIVED, BLOCKED), replace(IDLE, message="why " * 50))
    lines = _shown(*results, width=width, unmatched=("w.yaml:4: " + "no " * 60,)).splitlines()
    assert max(map(len, lines)) <= width


def test_a_failure_is_read_from_contract_to_reproduction() -> None:
    assert failure_text([RESULT]) == dedent(
        """\
        FAIL  FC-WIDTH  The fc fits
          subject    kimi (files)
          observed   fc takes 32; 48 expected
          cause      It belongs to another target.
          fix        Take another draft.
          see        a/b#1, a/b#2
          reproduce  eagle3-contracts check kimi.yaml --contract FC-WIDTH"""
    )


def test_a_failure_without_cause_fix_and_references_has_no_empty_lines() -> None:
    result = replace(
        MODEL, verdict=Verdict.HARNESS_ERROR, message="run_twin: died\nlast words", refs=()
    )
    assert failure_text([result]) == dedent(
        """\
        HARNESS-ERROR  CAPTURE  The fc fits
          subject    kimi (sglang 0.5.23 on cpu)
          observed   run_twin: died
                     last words
          reproduce  eagle3-contracts check kimi.yaml --contract FC-WIDTH"""
    )


def test_the_line_to_copy_is_never_broken() -> None:
    line = "eagle3-contracts check " + "x" * 150
    assert failure_text([replace(RESULT, reproduce=line)], width=40).endswith(f"reproduce  {line}")


def test_the_same_failure_of_many_subjects_is_told_once() -> None:
    text = _shown(*_named(3, RESULT), replace(RESULT, message="another"))
    assert text.count("FAIL  FC-WIDTH") == 2
    assert "  subject    subject-1, subject-2, subject-3 (files)\n" in text


def test_what_would_steer_a_terminal_is_written_out() -> None:
    text = failure_text([replace(RESULT, message="tensor \x1b[2J\x07 \u202eabc")])
    assert "  observed   tensor \\x1b[2J\\x07 \\x202eabc\n" in text


def test_waived_and_blocked_contracts_unmatched_waivers_and_counts_end_the_report() -> None:
    warning = replace(RESULT, severity="warning")
    note = replace(RESULT, severity="info")
    stale = replace(RESULT, verdict=Verdict.STALE_WAIVER)
    results = (PASS, RESULT, warning, note, WAIVED, BLOCKED, stale, *_named(2, IDLE))
    outcome = Outcome(results, unmatched=("w.yaml:9: no subject is named 'x'",))
    text = summary(outcome, Style(width=80))
    assert text == dedent(
        """\
        waived          FC-WIDTH[kimi] until 2027-06-30: known (a/b#1; me)
        blocked         CAPTURE blocked by FC-WIDTH, which fails: kimi
        stale-waiver    w.yaml:9: no subject is named 'x'
        not-applicable  2 because: the subject names no draft
        6 of 9 verdicts ran: 1 pass, 1 fail, 1 warning, 1 note, 1 waived,
          1 stale-waiver, 1 blocked, 1 unmatched waiver, 2 not applicable (2 contracts,
          3 subjects)"""
    )


def test_a_run_that_ran_nothing_says_so() -> None:
    assert summary(Outcome((IDLE,)), Style()).splitlines()[-1] == (
        "NOTHING RAN: 1 not applicable (1 contract, 1 subject)"
    )
    assert render(Outcome(())) == "NOTHING RAN (0 contracts, 0 subjects)\n"


def test_only_the_most_frequent_reasons_are_listed() -> None:
    reasons = [replace(IDLE, message=f"reason {n}") for n in range(11)]
    lines = summary(Outcome(tuple(reasons)), Style()).splitlines()
    assert lines[0] == "not-applicable  1 because: reason 0"
    assert lines[8] == "not-applicable  3 for other reasons"


def test_colour_appears_only_where_the_style_has_it() -> None:
    assert "\x1b" not in render(Outcome((RESULT,)), Style())
    coloured = render(Outcome((RESULT,)), Style(has_colour=True))
    assert "static  FC-WIDTH  \x1b[31mfail\x1b[0m\n" in coloured
    assert "\n\x1b[31mFAIL\x1b[0m  FC-WIDTH  The fc fits\n" in coloured


class _Screen(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_no_color_is_respected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert style_of(_Screen()).has_colour
    assert not style_of(io.StringIO()).has_colour
    monkeypatch.setenv("NO_COLOR", "1")
    assert not style_of(_Screen()).has_colour


@pytest.mark.parametrize(("encoding", "shows"), [("utf-8", True), ("cp1252", False)])
def test_marks_are_letters_where_the_encoding_has_no_others(encoding: str, shows: bool) -> None:
    assert can_show(io.TextIOWrapper(io.BytesIO(), encoding=encoding)) is shows


@pytest.mark.parametrize(
    ("results", "unmatched", "code"),
    [
        ((PASS, IDLE, WAIVED, BLOCKED), (), 0),
        ((replace(RESULT, severity="warning"), replace(RESULT, severity="info")), (), 0),
        ((RESULT, replace(PASS, verdict=Verdict.HARNESS_ERROR)), (), 1),
        ((replace(PASS, verdict=Verdict.STALE_WAIVER),), (), 1),
        ((PASS,), ("w.yaml:4: nothing",), 1),
        ((replace(PASS, verdict=Verdict.NOT_TESTABLE),), (), 3),
        ((replace(PASS, verdict=Verdict.HARNESS_ERROR),), (), 3),
        ((replace(PASS, verdict=Verdict.INCONCLUSIVE),), (), 4),
    ],
)
def test_the_exit_code_follows_from_the_verdicts(
    results: tuple[Result, ...], unmatched: tuple[str, ...], code: int
) -> None:
    assert Outcome(results, unmatched=unmatched).exit_code == code


def test_the_json_document_holds_everything_there_is_to_show() -> None:
    outcome = Outcome((RESULT, WAIVED), {"device": "cpu"}, ("w.yaml:4: nothing",))
    document = json.loads(report.render("json", outcome))
    assert document["schema"] == 1
    assert document["environment"] == {"device": "cpu"}
    assert document["summary"] == {
        "contracts": 1,
        "subjects": 1,
        "verdicts": {"fail": 1, "waived": 1},
        "unmatched_waivers": ["w.yaml:4: nothing"],
        "exit_code": 1,
    }
    assert document["verdicts"][0] == {
        "contract": "FC-WIDTH",
        "title": "The fc fits",
        "family": "width",
        "tier": "static",
        "severity": "error",
        "subject": "kimi",
        "where": "files",
        "verdict": "fail",
        "message": "fc takes 32; 48 expected",
        "cause": "It belongs to another target.",
        "fix": "Take another draft.",
        "refs": ["a/b#1", "a/b#2"],
        "reproduce": "eagle3-contracts check kimi.yaml --contract FC-WIDTH",
        "facts": {"checkpoint": {"fc_in": 32}},
        "seconds": 0.25,
        "waiver": "",
        "blocked_by": "",
    }


def test_numbers_that_json_lacks_become_texts() -> None:
    result = replace(RESULT, facts={"capture": {"error": math.inf, "all": [math.nan, 0.5]}})
    assert as_json(result)["facts"] == {"capture": {"error": "inf", "all": ["nan", 0.5]}}


def test_a_result_survives_the_way_through_json() -> None:
    sent = json.loads(json.dumps(as_json(WAIVED)))
    assert result_from_json(sent) == WAIVED


def test_junit_has_a_case_for_each_contract_with_its_properties() -> None:
    error = replace(PASS, verdict=Verdict.HARNESS_ERROR, message="died \x00")
    warning = replace(RESULT, severity="warning")
    results = (RESULT, PASS, WAIVED, IDLE, error, warning, replace(PASS, subject="other"))
    root = ET.fromstring(report.render("junit", Outcome(results, unmatched=("w.yaml:4: no",))))
    counts = [{k: suite.get(k) for k in ("name", "tests", "failures", "errors", "skipped")}
              for suite in root]  # fmt: skip
    assert counts == [
        {"name": "kimi", "tests": "6", "failures": "1", "errors": "1", "skipped": "2"},
        {"name": "other", "tests": "1", "failures": "0", "errors": "0", "skipped": "0"},
        {"name": "waivers", "tests": None, "failures": None, "errors": None, "skipped": None},
    ]
    case = root[0][0]
    assert (case.get("classname"), case.get("name")) == ("eagle3_contracts.kimi", "FC-WIDTH")
    assert {p.get("name"): p.get("value") for p in case.iter("property")} == {
        "contract": "FC-WIDTH",
        "family": "width",
        "tier": "static",
        "severity": "error",
        "verdict": "fail",
    }
    assert case.findtext("failure") == failure_text([RESULT])
    reasons = [skipped.get("message") for skipped in root.iter("skipped")]
    assert reasons == ["until 2027-06-30: known (a/b#1; me)", "the subject names no draft"]
    assert [e.get("message") for e in root.iter("error")] == ["died \\x00"]
    assert root[0][5].findtext("system-out") == failure_text([warning])


def test_every_format_of_the_options_can_be_written(tmp_path: Path) -> None:
    for form in FORMATS:
        path = tmp_path / form
        report.write(form, Outcome((RESULT,)), path)
        assert path.read_text() == report.render(form, Outcome((RESULT,)))
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(FORMATS)


def test_a_report_replaces_an_older_one_whole_and_can_be_read_by_others(tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    path.write_text("old")
    report.write("json", Outcome((RESULT,)), path)
    assert json.loads(path.read_text())["schema"] == 1
    assert stat.S_IMODE(path.stat().st_mode) & stat.S_IRUSR
    assert [found.name for found in tmp_path.iterdir()] == ["report.json"]


def test_a_report_that_cannot_be_written_is_named_and_nothing_is_left(tmp_path: Path) -> None:
    path = tmp_path / "gone" / "report.json"
    with pytest.raises(OptionError) as caught:
        report.write("json", Outcome((RESULT,)), path)
    assert str(caught.value) == f"{path}: cannot be written: No such file or directory"


def test_a_report_can_go_to_a_device() -> None:
    report.write("terminal", Outcome((RESULT,)), Path("/dev/null"))
    assert Path("/dev/null").is_char_device()
