"""Waivers: reading them, what they cover, and when they go stale or are about nothing."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from pathlib import Path
from textwrap import dedent

import pytest

from eagle3_contracts.errors import WaiverError
from eagle3_contracts.verdict import Result, Verdict
from eagle3_contracts.waiver import Waiver, read_waivers, unmatched, waived, waiver_for

GOOD = """\
version: 1
sglang: 0.5.23
waivers:
  - contract: WIDTH
    subject: kimi-*
    reason: known since May
    issue: owner/repo#123
    owner: someone
    expires: 2027-06-30
"""
WAIVER = Waiver("WIDTH", "kimi-*", "known since May", "owner/repo#123", "someone",
                date(2027, 6, 30), "w.yaml:4")  # fmt: skip
RESULT = Result(
    contract="WIDTH",
    title="The fc fits",
    family="width",
    tier="static",
    severity="error",
    subject="kimi-k2",
    where="files",
    verdict=Verdict.FAIL,
    message="fc takes 32; 48 expected",
)


def _read(folder: Path, text: str, sglang: str | None = "0.5.23") -> tuple[Waiver, ...]:
    (folder / "w.yaml").write_text(dedent(text))
    return read_waivers([folder], ["WIDTH", "KEYS-FILLED"], sglang)


def _error(folder: Path, text: str) -> str:
    with pytest.raises(WaiverError) as caught:
        _read(folder, text)
    return str(caught.value).replace(f"{folder}/", "")


def test_a_waiver_has_a_reason_an_issue_an_owner_a_last_day_and_a_place(tmp_path: Path) -> None:
    assert _read(tmp_path, GOOD) == (replace(WAIVER, place=f"{tmp_path / 'w.yaml'}:4"),)


def test_a_file_about_another_release_is_not_used(tmp_path: Path) -> None:
    assert _read(tmp_path, GOOD, sglang="0.6.0") == ()


def test_without_sglang_the_waivers_count(tmp_path: Path) -> None:
    assert len(_read(tmp_path, GOOD, sglang=None)) == 1


def test_every_required_part_is_asked_for_at_once(tmp_path: Path) -> None:
    text = "version: 1\nsglang: 0.5.23\nwaivers:\n  - contract: WIDTH\n    subject: a\n"
    assert _error(tmp_path, text) == "\n".join(
        f"w.yaml:4:5: '{field}' is missing" for field in ("reason", "issue", "owner", "expires")
    )


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (
            "WIDTH",
            "WIDHT",
            "w.yaml:4:15: contract: unknown contract 'WIDHT'; did you mean 'WIDTH'?",
        ),
        (
            "contract: WIDTH",
            "contract: X",
            "w.yaml:4:15: contract: unknown contract 'X'; known are KEYS-FILLED, WIDTH",
        ),
        (
            "kimi-*",
            "'*'",
            "w.yaml:5:14: subject: '*' covers every subject; name those that fail",
        ),
        (
            "kimi-*",
            "'[!-]*'",
            "w.yaml:5:14: subject: '[!-]*' covers every subject; name those that fail",
        ),
        (
            "owner/repo#123",
            "soon",
            "w.yaml:7:12: issue: 'soon' is none of https://…, owner/repo#123 or a finding such as "
            "docs/findings/x.md",
        ),
        ("2027-06-30", "2027-02-30", "w.yaml:9:14: expires: '2027-02-30' is no day; write it as "
         "2027-06-30"),
        ("2027-06-30", "'20270630'", "w.yaml:9:14: expires: '20270630' is no day; write it as "
         "2027-06-30"),
        ("reason:", "resaon:", "w.yaml:4:5: 'reason' is missing\n"
         "w.yaml:6:5: unknown field 'resaon'; did you mean 'reason'?"),
    ],
)  # fmt: skip
def test_a_wrong_value_is_named_with_its_place(
    tmp_path: Path, old: str, new: str, said: str
) -> None:
    assert _error(tmp_path, GOOD.replace(old, new)) == said


@pytest.mark.parametrize("issue", ["https://example.org/1", "a.b/c-d#1", "docs/findings/x.md"])
def test_an_issue_is_an_address_a_reference_or_a_finding(tmp_path: Path, issue: str) -> None:
    assert _read(tmp_path, GOOD.replace("owner/repo#123", issue))[0].issue == issue


def test_the_same_waiver_twice_is_refused(tmp_path: Path) -> None:
    (tmp_path / "v.yaml").write_text(GOOD)
    said = _error(tmp_path, GOOD)
    assert said == "w.yaml:4: WIDTH on 'kimi-*' is waived at v.yaml:4 already; keep one of them"


def test_mistakes_of_all_files_are_told_at_once(tmp_path: Path) -> None:
    (tmp_path / "v.yaml").write_text("version: 2\nsglang: 0.5.23\nwaivers: []\n")
    (tmp_path / "u.yaml").write_text("- 1\n")
    said = _error(tmp_path, GOOD.replace("WIDTH", "WIDHT"))
    assert [line.partition(":")[0] for line in said.splitlines()] == ["u.yaml", "v.yaml", "w.yaml"]


def test_a_waiver_that_names_the_subject_beats_one_with_a_pattern() -> None:
    exact = replace(WAIVER, subject="kimi-k2")
    assert waiver_for([WAIVER, exact], "WIDTH", "kimi-k2") is exact
    assert waiver_for([WAIVER, exact], "WIDTH", "kimi-k3") is WAIVER
    assert waiver_for([WAIVER, exact], "WIDTH", "llama") is None
    assert waiver_for([WAIVER, exact], "OTHER", "kimi-k2") is None


@pytest.mark.parametrize("verdict", [Verdict.FAIL, Verdict.NOT_TESTABLE])
def test_a_failure_is_waived_up_to_the_last_day(verdict: Verdict) -> None:
    result = waived(replace(RESULT, verdict=verdict), WAIVER, date(2027, 6, 30))
    assert (result.verdict, result.message) == (Verdict.WAIVED, "fc takes 32; 48 expected")
    assert result.waiver == "until 2027-06-30: known since May (owner/repo#123; someone)"
    assert not result.is_failure


def test_an_expired_waiver_is_stale_and_the_failure_stays_readable() -> None:
    result = waived(RESULT, WAIVER, date(2027, 7, 1))
    assert result.verdict is Verdict.STALE_WAIVER
    assert result.message == (
        "fc takes 32; 48 expected; the waiver w.yaml:4 expired on 2027-06-30: "
        "renew it with a reason, or correct the failure"
    )


def test_a_waiver_of_a_contract_that_passes_is_stale() -> None:
    result = waived(replace(RESULT, verdict=Verdict.PASS, message=""), WAIVER, date(2027, 1, 1))
    assert result.verdict is Verdict.STALE_WAIVER
    assert result.message == "the contract passes: remove the waiver w.yaml:4"
    assert result.is_failure


@pytest.mark.parametrize(
    "verdict",
    [Verdict.NOT_APPLICABLE, Verdict.BLOCKED, Verdict.HARNESS_ERROR, Verdict.INCONCLUSIVE],
)
def test_a_waiver_changes_no_other_verdict(verdict: Verdict) -> None:
    result = replace(RESULT, verdict=verdict)
    assert waived(result, WAIVER, date(2028, 1, 1)) is result


def test_a_waiver_for_no_known_subject_is_unmatched() -> None:
    waiver = replace(WAIVER, subject="kimi-k3")
    said = "w.yaml:4: no subject is named 'kimi-k3'; did you mean 'kimi-k2'?"
    assert unmatched([waiver], [], {"kimi-k2": None, "llama": None}) == [said]


def test_a_waiver_is_unmatched_where_its_contract_applies_to_none_of_its_subjects() -> None:
    idle = replace(RESULT, verdict=Verdict.NOT_APPLICABLE)
    said = "w.yaml:4: WIDTH does not apply to 'kimi-*'; remove the waiver"
    assert unmatched([WAIVER], [idle], {"kimi-k2": None}) == [said]
    assert unmatched([WAIVER], [RESULT], {"kimi-k2": None}) == []


def test_a_contract_that_was_not_selected_makes_no_waiver_unmatched() -> None:
    idle = replace(RESULT, verdict=Verdict.NOT_APPLICABLE)
    assert unmatched([WAIVER], [], {"kimi-k2": None}) == []
    assert unmatched([WAIVER], [idle], {"kimi-k2": None, "kimi-k3": None}) == []


OF_A_CLASS = replace(WAIVER, subject="*", architecture="KimiForCausalLM")


def test_a_waiver_of_an_architecture_is_about_all_its_subjects_and_no_others(
    tmp_path: Path,
) -> None:
    text = GOOD.replace("subject: kimi-*", "architecture: KimiForCausalLM")
    (read,) = _read(tmp_path, text)
    assert replace(read, place=OF_A_CLASS.place) == OF_A_CLASS
    assert waiver_for([read], "WIDTH", "anyone's", "KimiForCausalLM") is read
    assert waiver_for([read], "WIDTH", "anyone's", "LlamaForCausalLM") is None
    assert waiver_for([read], "WIDTH", "anyone's") is None


def test_a_waiver_of_an_architecture_that_no_subject_has_is_unmatched() -> None:
    known: dict[str, str | None] = {"kimi": "KimiForCausalLN"}
    (said,) = unmatched([OF_A_CLASS], [], known)
    assert said.startswith("w.yaml:4: no subject's target is a 'KimiForCausalLM'")
    assert unmatched([OF_A_CLASS], [], {"kimi": "KimiForCausalLM"}) == []
