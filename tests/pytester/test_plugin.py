"""The pytest plugin: when it acts, what it collects, how verdicts become outcomes."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
import yaml

PLUGIN = ("-p", "eagle3_contracts")
HERE = ("--eagle3-contracts=contracts", "--eagle3-tier=static")
BOTH = ("--eagle3-subject=subjects",)
WORKERS = ("-n", "2", "--dist", "loadgroup")
QUICK = ("-p", "no:cacheprovider", "-p", "no:hypothesispytest", "-p", "no:anyio")
"""Other plugins that are installed here take a second to start."""

WIDTH = {
    "id": "WIDTH",
    "family": "width",
    "tier": "static",
    "title": "The fc fits",
    "rule": "checkpoint.fc_in == draft.aux_width",
    "message": "fc takes {{checkpoint.fc_in}}; {{draft.aux_width}} expected",
    "why": "It does not load.",
    "fix": "Take another draft.",
    "faults": ["fc-too-narrow"],
}
CONTRACTS = (
    WIDTH,
    {**WIDTH, "id": "AFTER", "family": "vocab-map", "rule": "true", "depends": ["WIDTH"]},
    {**WIDTH, "id": "IDLE", "rule": "training.tool == 'hf'"},
    {**WIDTH, "id": "NULL", "rule": "draft.vocab_size > 1"},
    {**WIDTH, "id": "KEPT", "rule": "checkpoint.fc_in > 40", "message": "too narrow"},
    {**WIDTH, "id": "SOFT", "rule": "checkpoint.fc_in > 40", "severity": "warning"},
)


def _write(path: Path, data: Mapping[str, Any]) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(yaml.safe_dump(data, sort_keys=False))


@pytest.fixture(autouse=True)
def project(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with a test, six contracts, two subjects, and a waiver for one failure."""
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)
    pytester.makepyfile(test_own="def test_own(): pass")
    path = pytester.path
    _write(path / "contracts/all.yaml", {"version": 1, "contracts": list(CONTRACTS)})
    for name, fc_in in (("bad", 32), ("good", 48)):
        config = {"architectures": ["LlamaForCausalLMEagle3"], "hidden_size": 16}
        tensors = {"fc.weight": {"dtype": "BF16", "shape": [16, fc_in]}}
        draft = {"config": config, "tensors": tensors}
        _write(path / f"subjects/{name}.yaml", {"subject": name, "draft": draft})
    waiver = {"contract": "KEPT", "subject": "bad", "reason": "known", "issue": "a/b#1",
              "owner": "me", "expires": "2999-01-01"}  # fmt: skip
    file = {"version": 1, "sglang": version("sglang"), "waivers": [waiver]}
    _write(path / "waivers.yaml", file)
    return path


def _run(pytester: pytest.Pytester, *words: str) -> pytest.RunResult:
    return pytester.runpytest_subprocess(*QUICK, *words)


def _contracts(pytester: pytest.Pytester, *words: str) -> pytest.RunResult:
    return _run(pytester, *PLUGIN, *HERE, *BOTH, "--eagle3-waivers=waivers.yaml", *words)


def _collected(result: pytest.RunResult) -> list[str]:
    return [line.partition("::")[2] for line in result.outlines if "::" in line]


def test_a_run_that_does_not_ask_for_contracts_is_left_alone(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        test_own="""
        import sys

        def test_own():
            assert "eagle3_contracts.plugin" not in sys.modules
            assert not {"pydantic", "yaml", "torch", "transformers", "sglang"} & set(sys.modules)
        """
    )
    result = _run(pytester, "-v")
    result.assert_outcomes(passed=1)
    result.stdout.no_fnmatch_line("*eagle3_contracts:*")


def test_the_plugin_costs_a_bystander_less_than_a_tenth_of_a_second() -> None:
    code = (
        "import pytest, time; start = time.process_time(); import eagle3_contracts.options; "
        "print(time.process_time() - start)"
    )
    runs = [subprocess.check_output([sys.executable, "-c", code]) for _ in range(3)]
    assert min(map(float, runs)) < 0.1


def test_asked_for_alone_the_contracts_are_all_that_runs(pytester: pytest.Pytester) -> None:
    result = _contracts(pytester, "--collect-only", "-q")
    names = ("WIDTH", "AFTER", "IDLE", "KEPT", "NULL", "SOFT")
    assert _collected(result) == [f"{name}[{s}]" for s in ("bad", "good") for name in names]
    assert "contracts/all.yaml::WIDTH[bad]" in result.outlines


def test_paths_on_the_command_line_run_before_the_contracts(pytester: pytest.Pytester) -> None:
    result = _contracts(pytester, "--collect-only", "-q", "test_own.py")
    assert _collected(result)[:2] == ["test_own", "WIDTH[bad]"]
    assert len(_collected(result)) == 13


def test_an_item_can_be_named_on_the_command_line(pytester: pytest.Pytester) -> None:
    result = _contracts(pytester, "contracts/all.yaml::WIDTH[good]")
    result.assert_outcomes(passed=1)


def test_any_option_of_the_plugin_asks_for_it(pytester: pytest.Pytester) -> None:
    result = _run(pytester, *HERE, "--eagle3-subject=subjects/good.yaml", "--eagle3-contract=WIDTH")
    result.assert_outcomes(passed=1)


def test_the_plugin_can_be_asked_for_in_addopts(pytester: pytest.Pytester) -> None:
    pytester.makeini("[pytest]\naddopts = -p eagle3_contracts --eagle3-contracts=contracts")
    result = _run(pytester, "--eagle3-subject=subjects/good.yaml", "--eagle3-contract=WIDTH")
    result.assert_outcomes(passed=1)


def test_the_plugin_works_with_autoloading_switched_off(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    result = _contracts(pytester, "--strict-markers", "-W", "error", "-k", "WIDTH[")
    result.assert_outcomes(passed=1, failed=1)


@pytest.mark.parametrize("workers", [(), WORKERS], ids=["alone", "xdist"])
def test_verdicts_become_outcomes_with_names_of_their_own(
    pytester: pytest.Pytester, workers: tuple[str, ...]
) -> None:
    result = _contracts(pytester, "-W", "error", "--strict-markers", *workers)
    counts = result.parseoutcomes()
    assert counts == {"failed": 3, "passed": 4, "skipped": 3, "waived": 1, "warned": 1}
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(
        [
            "               bad             good",
            "static  WIDTH  fail            pass",
            "static  AFTER  blocked         pass",
            "static  IDLE   not-applicable  not-applicable",
            "static  KEPT   waived          pass",
            "static  NULL   harness-error   harness-error",
            "static  SOFT   warning         pass",
            "",
            "WARNING  SOFT  The fc fits",
            "waived          KEPT[[]bad] until 2999-01-01: known (a/b#1; me)",
            "blocked         AFTER blocked by WIDTH, which fails: bad",
            "not-applicable  2 because: the subject names no training section",
        ],
        consecutive=False,
    )
    text = str(result.stdout)
    assert text.count("static  WIDTH ") == 1
    assert "Traceback" not in text
    assert "plugin.py" not in text


def test_a_failure_is_shown_as_its_text_alone(pytester: pytest.Pytester) -> None:
    result = _contracts(pytester, "-k", "WIDTH[bad]")
    lines = result.outlines
    start = next(n for n, line in enumerate(lines) if line.startswith("FAIL  WIDTH"))
    flags = "--contracts contracts --waivers waivers.yaml"
    assert lines[start : start + 6] == [
        "FAIL  WIDTH  The fc fits",
        "  subject    bad (files)",
        "  observed   fc takes 32; 48 expected",
        "  cause      It does not load.",
        "  fix        Take another draft.",
        f"  reproduce  eagle3-contracts check subjects/bad.yaml --contract WIDTH {flags}",
    ]


def test_skips_say_why_and_point_at_the_contract(pytester: pytest.Pytester) -> None:
    lines = [line for line in _contracts(pytester, "-rs").outlines if line.startswith("SKIPPED")]
    text = (pytester.path / "contracts/all.yaml").read_text().splitlines()
    line = {name: text.index(f"- id: {name}") + 1 for name in ("AFTER", "IDLE")}
    assert lines == [
        f"SKIPPED [1] contracts/all.yaml:{line['AFTER']}: blocked by WIDTH, which fails",
        f"SKIPPED [2] contracts/all.yaml:{line['IDLE']}: the subject names no training section",
    ]


def test_what_blocks_a_contract_fails_the_run_although_it_was_deselected(
    pytester: pytest.Pytester,
) -> None:
    result = _contracts(pytester, "-k", "AFTER", "--eagle3-report=json=a.json")
    result.assert_outcomes(passed=1, failed=1, deselected=10)
    result.stdout.fnmatch_lines(
        ["BLOCKED  AFTER  The fc fits", "FAIL  WIDTH  The fc fits", "*1 pass, 1 fail, 1 blocked*"]
    )
    document = json.loads((pytester.path / "a.json").read_text())
    assert document["summary"]["exit_code"] == 1


@pytest.mark.parametrize(
    ("words", "count"),
    [
        (("-k", "good"), 6),
        (("-m", "eagle3"), 12),
        (("-m", "eagle3_family_vocab_map"), 2),
        (("-m", "eagle3_tier_load"), 0),
        (("--eagle3-family=vocab-map,keys",), 2),
        (("--eagle3-contract=WIDTH", "--eagle3-contract=A*"), 4),
    ],
)
def test_contracts_are_selected_by_name_marker_and_option(
    pytester: pytest.Pytester, words: tuple[str, ...], count: int
) -> None:
    result = _contracts(pytester, "--collect-only", "-q", "--strict-markers", *words)
    assert len(_collected(result)) == count


def test_reports_are_the_same_with_and_without_workers(pytester: pytest.Pytester) -> None:
    documents = []
    for name, words in (("alone", ()), ("workers", WORKERS)):
        _contracts(pytester, f"--eagle3-report=json={name}.json", *words)
        document = json.loads((pytester.path / f"{name}.json").read_text())
        for verdict in document["verdicts"]:
            assert verdict.pop("seconds") >= 0
        documents.append(document)
    assert documents[0] == documents[1]
    assert documents[0]["summary"]["verdicts"] == {
        "pass": 4,
        "fail": 1,
        "warning": 1,
        "waived": 1,
        "harness-error": 2,
        "blocked": 1,
        "not-applicable": 2,
    }


def test_all_contracts_of_a_subject_run_on_one_worker(pytester: pytest.Pytester) -> None:
    out = _contracts(pytester, "-v", *WORKERS).outlines
    lines = [line for line in out if line.startswith("[gw") and "%]" in line]
    places = {
        (line.partition("[")[2][:3], line.rpartition("[")[2].partition("]")[0]) for line in lines
    }
    assert len(lines) == 12
    assert sorted(subject for _, subject in places) == ["bad", "good"]


def test_junit_xml_has_the_properties_of_each_contract(pytester: pytest.Pytester) -> None:
    _contracts(pytester, "--junitxml=junit.xml", "-k", "KEPT[bad]", *WORKERS)
    text = (pytester.path / "junit.xml").read_text()
    values = {"contract": "KEPT", "family": "width", "tier": "static", "severity": "error",
              "verdict": "waived"}  # fmt: skip
    for name, value in values.items():
        assert f'<property name="{name}" value="{value}" />' in text
    assert 'type="pytest.xfail" message="until 2999-01-01: known (a/b#1; me)"' in text


def test_settings_supply_defaults_and_do_not_ask_for_the_contracts(
    pytester: pytest.Pytester,
) -> None:
    pytester.makepyprojecttoml(
        """
        [tool.eagle3_contracts]
        contracts = "contracts"
        subject = "subjects"
        tier = "static"
        waivers = "waivers.yaml"
        """
    )
    _run(pytester).assert_outcomes(passed=1)
    counts = _run(pytester, *PLUGIN).parseoutcomes()
    assert counts == {"failed": 3, "passed": 4, "skipped": 3, "waived": 1, "warned": 1}


@pytest.mark.parametrize("workers", [(), WORKERS], ids=["alone", "xdist"])
def test_bad_input_ends_the_run_with_code_4_and_every_mistake(
    pytester: pytest.Pytester, workers: tuple[str, ...]
) -> None:
    path = pytester.path
    (path / "contracts/all.yaml").write_text("version: 1\ncontracts: [{id: x}]\n")
    (path / "subjects/bad.yaml").write_text("subject: bad\ndratf: {}\n")
    result = _contracts(pytester, *workers)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    text = str(result.stderr)
    said = "ERROR: subjects/bad.yaml:2:1: unknown field 'dratf'; did you mean 'draft'?\n"
    assert said in text
    assert "ERROR: contracts/all.yaml:2:13: 'title' is missing\n" in text
    assert "Traceback" not in text + str(result.stdout)


def test_wrong_options_and_settings_are_named_as_they_were_given(
    pytester: pytest.Pytester,
) -> None:
    pytester.makepyprojecttoml('[tool.eagle3_contracts]\ndevice = "gpu"\n')
    result = _run(pytester, *PLUGIN, "--eagle3-tier=statc")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert [line for line in result.errlines if line] == [
        "ERROR: --eagle3-tier: unknown tier 'statc'; did you mean 'static'?",
        "ERROR: tool.eagle3_contracts.device: unknown device 'gpu'; did you mean 'cpu'?",
    ]


def test_an_unmatched_waiver_fails_a_run_over_all_subjects_only(pytester: pytest.Pytester) -> None:
    path = pytester.path / "waivers.yaml"
    path.write_text(path.read_text().replace("subject: bad", "subject: bda"))
    pytester.makepyprojecttoml('[tool.eagle3_contracts]\nsubject = "subjects"\n')
    words = (*PLUGIN, *HERE, "--eagle3-waivers=waivers.yaml", "--eagle3-contract=WIDTH", "-k=good")
    result = _run(pytester, *words)
    result.assert_outcomes(passed=1, deselected=1)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    said = "stale-waiver    waivers.yaml:4: no subject is named 'bda'; did you mean 'bad'?"
    result.stdout.fnmatch_lines([said])
    assert _run(pytester, *words, *BOTH).ret == pytest.ExitCode.OK


def test_the_quiet_run_leaves_the_table_out(pytester: pytest.Pytester) -> None:
    result = _contracts(pytester, "-q", "-k", "WIDTH[good]")
    result.stdout.no_fnmatch_line("static  WIDTH*")
    result.stdout.fnmatch_lines(["1 of 1 verdict ran: 1 pass (1 contract, 1 subject)"])


def test_a_slow_tier_is_announced_once_for_each_subject(
    pytester: pytest.Pytester, project: Path
) -> None:
    slow = [{**WIDTH, "id": name, "tier": "load", "rule": "true"} for name in ("A", "B")]
    _write(project / "contracts/all.yaml", {"version": 1, "contracts": slow})
    words = (*PLUGIN, "--eagle3-contracts=contracts", *BOTH, "--eagle3-tier=load")
    lines = [line for line in _run(pytester, *words).outlines if line.endswith(": load")]
    assert lines == ["bad: load", "good: load"]
    for more in (("-q",), WORKERS):
        _run(pytester, *words, *more).stdout.no_fnmatch_line("*: load")


def test_markers_are_registered_and_the_header_says_what_is_judged(
    pytester: pytest.Pytester,
) -> None:
    result = _contracts(pytester, "--markers")
    lines = ["*eagle3_tier_static: a contract of tier static*",
             "*eagle3_family_vocab_map: a contract of family vocab-map*"]  # fmt: skip
    result.stdout.fnmatch_lines(lines)
    header = "eagle3_contracts: 6 contracts, 2 subjects; tiers static; files"
    _contracts(pytester).stdout.fnmatch_lines([header])


def test_collecting_only_writes_no_report(pytester: pytest.Pytester) -> None:
    result = _contracts(pytester, "--collect-only", "--eagle3-report=json=a.json")
    assert result.ret == pytest.ExitCode.OK
    assert not (pytester.path / "a.json").exists()


def test_the_help_shows_the_options_once(pytester: pytest.Pytester) -> None:
    text = str(_run(pytester, "--help").stdout)
    assert text.count("  --eagle3-tier=TIER") == 1


@pytest.mark.parametrize(("gpus", "allowed"), [("5,7", "-n 2 at most"), ("", "there is none")])
def test_more_workers_than_gpus_are_refused(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, gpus: str, allowed: str
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", gpus)
    result = pytester.runpytest_subprocess(
        *PLUGIN, *HERE, *BOTH, *QUICK, "-n", "3", "--eagle3-device=cuda"
    )
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    reason = f"3 workers with one GPU each: {allowed} (CUDA_VISIBLE_DEVICES, or all)"
    assert result.stderr.lines == [f"ERROR: --eagle3-device cuda: {reason}", ""]


def test_as_many_workers_as_gpus_run(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "5,7")
    result = pytester.runpytest_subprocess(
        *PLUGIN,
        *HERE,
        *QUICK,
        *WORKERS,
        "--eagle3-device=cuda",
        "--eagle3-subject=subjects/good.yaml",
        "--eagle3-contract=WIDTH",
    )
    assert result.ret == 0
