"""Fuzzing under pytest: an item for each subject, the seed said first."""

from __future__ import annotations

import pytest

STATIC = ("-p", "eagle3_contracts", "--eagle3-tier=static", "--eagle3-contract=FC-WIDTH")


def test_each_subject_is_an_item(pytester: pytest.Pytester) -> None:
    subjects = ("--eagle3-subject=llama-eagle3", "--eagle3-subject=tiny-maps")
    result = pytester.runpytest_subprocess(*STATIC, *subjects, "--eagle3-fuzz=4s", "-v")
    assert result.ret == 0
    result.stdout.fnmatch_lines(
        [
            "eagle3_contracts: fuzzing with seed 0, 2 subjects",
            "*fuzz*llama-eagle3*PASSED*",
            "*fuzz*tiny-maps*PASSED*",
        ]
    )


def test_workers_fuzz_as_one_process_does(pytester: pytest.Pytester) -> None:
    words = ("--eagle3-subject=tiny-maps", "--eagle3-fuzz=4s", "--eagle3-fuzz-seed=3", "-n", "2")
    result = pytester.runpytest_subprocess(*STATIC, *words)
    assert result.ret == 0
    result.assert_outcomes(passed=2)


def test_a_budget_that_is_no_time_is_a_usage_error(pytester: pytest.Pytester) -> None:
    result = pytester.runpytest_subprocess(*STATIC, "--eagle3-fuzz=soon")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*the budget 'soon' is no time; write it as 60s, 5m or 2h"])
