"""The command line: options, exit codes, what goes where, and how long it takes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from textwrap import dedent

import pytest
import yaml

from eagle3_contracts import cli
from eagle3_contracts.errors import OptionError
from eagle3_contracts.facts import Tier
from eagle3_contracts.options import TIERS, Options, find_pyproject, parse_options, read_settings
from eagle3_contracts.plan import built_in_subjects
from tiny import WIDTH

CONFIG = {"architectures": ["LlamaForCausalLMEagle3"], "hidden_size": 16}
OTHER = {
    **WIDTH,
    "id": "OTHER",
    "family": "keys",
    "severity": "warning",
    "title": "Another one",
    "rule": "size(checkpoint.missing_shards) == 0",
    "message": "shards are missing",
}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with two contracts, a good subject and a bad one."""
    monkeypatch.chdir(tmp_path)
    contracts = tmp_path / "contracts"
    contracts.mkdir()
    (contracts / "all.yaml").write_text(yaml.safe_dump({"version": 1, "contracts": [WIDTH, OTHER]}))
    _subject(tmp_path / "good.yaml", 48)
    _subject(tmp_path / "bad.yaml", 32)
    return tmp_path


def _subject(path: Path, fc_in: int) -> None:
    tensors = {"fc.weight": {"dtype": "BF16", "shape": [16, fc_in]}}
    path.write_text(
        yaml.safe_dump({"subject": path.stem, "draft": {"config": CONFIG, "tensors": tensors}})
    )


def _check(*words: str) -> int:
    return cli.main(["check", "--contracts", "contracts", "--tier", "static", *words])


def _process(*words: str, **environment: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "eagle3_contracts.cli", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **environment},
    )


def test_a_clean_subject_gives_a_table_and_code_0(capsys: pytest.CaptureFixture[str]) -> None:
    assert _check("good.yaml") == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert out == dedent(
        """\
                       good
        static  OTHER  pass
        static  WIDTH  pass

        2 of 2 verdicts ran: 2 pass (2 contracts, 1 subject)
        """
    )


def test_a_violation_gives_code_1_and_a_line_that_reproduces_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert _check("bad.yaml", "good.yaml") == 1
    out = capsys.readouterr().out
    line = "eagle3-contracts check bad.yaml --contract WIDTH --contracts contracts"
    assert f"  reproduce  {line}\n" in out
    assert cli.main(line.split()[1:]) == 1
    assert capsys.readouterr().out == dedent(
        """\
                       bad
        static  WIDTH  fail

        FAIL  WIDTH  The fc fits
          subject    bad (files)
          observed   fc takes 32; 48 expected
          cause      It does not load.
          fix        Take another draft.
          reproduce  eagle3-contracts check bad.yaml --contract WIDTH --contracts contracts

        1 of 1 verdict ran: 1 fail (1 contract, 1 subject)
        """
    )


def test_a_rule_that_cannot_be_evaluated_gives_code_3(folder: Path) -> None:
    file = folder / "contracts" / "broken.yaml"
    broken = {**WIDTH, "id": "BROKEN", "rule": "draft.vocab_size > 1"}
    file.write_text(yaml.safe_dump({"version": 1, "contracts": [broken]}))
    assert _check("good.yaml") == 3


def test_every_mistake_is_told_at_once_with_code_2_and_without_a_report(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "waivers.yaml").write_text("version: 1\n")
    code = _check("nix.yaml", "--waivers", "waivers.yaml", "--contract", "WIDHT", "--report",
                  "json=report.json")  # fmt: skip
    out, err = capsys.readouterr()
    assert (code, out) == (2, "")
    assert err == dedent(
        """\
        contract: no contract is named 'WIDHT'; did you mean 'WIDTH'?
        nix.yaml: no such file, and no built-in subject; built in are """
    ) + ", ".join(sorted(built_in_subjects())) + dedent(
        """
        waivers.yaml:1:1: 'sglang' is missing
        waivers.yaml:1:1: 'waivers' is missing
        """
    )
    assert not (folder / "report.json").exists()


def test_contract_files_with_mistakes_are_bad_input(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "contracts" / "all.yaml").write_text("version: 2\ncontracts: []\n")
    assert _check("good.yaml") == 2
    assert capsys.readouterr().err.startswith("contracts/all.yaml:1:10: version must be 1, not 2\n")


def test_json_goes_to_standard_output_alone(capsys: pytest.CaptureFixture[str]) -> None:
    assert _check("bad.yaml", "--format", "json") == 1
    document = json.loads(capsys.readouterr().out)
    assert [(v["contract"], v["verdict"]) for v in document["verdicts"]] == [
        ("OTHER", "pass"),
        ("WIDTH", "fail"),
    ]
    assert document["environment"]["device"] == "cpu"


def test_reports_are_written_next_to_what_is_printed(folder: Path) -> None:
    assert _check("bad.yaml", "--report", "json=a.json", "--report", "junit=b.xml") == 1
    assert json.loads((folder / "a.json").read_text())["summary"]["exit_code"] == 1
    assert 'failures="1"' in (folder / "b.xml").read_text()


def test_a_draft_directory_is_checked_against_the_target_given(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, width in (("draft", 16), ("target", 20)):
        (folder / name).mkdir()
        config = {**CONFIG, "hidden_size": width, "num_hidden_layers": 8}
        (folder / name / "config.json").write_text(json.dumps(config))
    assert _check("draft", "--target", "target", "--contract", "OTHER") == 0
    assert "static  OTHER  not-applicable\n" in capsys.readouterr().out
    assert _check("good.yaml", "--target", "target") == 2
    assert capsys.readouterr().err == (
        "options: target, draft and launch do not go with 'good.yaml', which names its own "
        "parts; give them with a draft directory instead\n"
    )


def test_a_built_in_subject_is_called_by_its_name(capsys: pytest.CaptureFixture[str]) -> None:
    name = built_in_subjects()[0]
    assert cli.main(["check", name, "--tier", "static", "--format", "json"]) in (0, 1)
    verdict = json.loads(capsys.readouterr().out)["verdicts"][0]
    line = f"eagle3-contracts check {name} --contract {verdict['contract']}"
    assert (verdict["subject"], verdict["reproduce"]) == (name, line)


def test_a_waived_failure_gives_code_0_and_an_unmatched_waiver_code_1(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    waiver = {"contract": "WIDTH", "subject": "bad", "reason": "known", "issue": "a/b#1",
              "owner": "me", "expires": "2999-01-01"}  # fmt: skip
    file = {
        "version": 1,
        "sglang": version("sglang"),
        "waivers": [waiver, {**waiver, "subject": "bda"}],
    }
    (folder / "w.yaml").write_text(yaml.safe_dump(file, sort_keys=False))
    assert _check("bad.yaml", "--waivers", "w.yaml") == 0
    assert "waived          WIDTH[bad] until 2999-01-01: known (a/b#1; me)\n" in (
        capsys.readouterr().out
    )
    settings = {"subject": ["bad.yaml"], "waivers": "w.yaml"}
    (folder / "pyproject.toml").write_text(f"[tool.eagle3_contracts]\n{_toml(settings)}")
    assert _check() == 1
    out = " ".join(capsys.readouterr().out.split())
    said = f"stale-waiver {folder}/w.yaml:10: no subject is named 'bda'; did you mean 'bad'?"
    assert f"{said} 2 of 2 verdicts ran: 1 pass, 1 waived, 1 unmatched waiver" in out


def _toml(settings: Mapping[str, object]) -> str:
    return "".join(f"{key} = {json.dumps(value)}\n" for key, value in settings.items())


def test_contracts_are_listed_in_columns_and_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["list", "--contracts", "contracts"]) == 0
    assert capsys.readouterr().out == dedent(
        """\
        ID     FAMILY  TIER    SEVERITY  TITLE
        OTHER  keys    static  warning   Another one
        WIDTH  width   static  error     The fc fits
        """
    )
    assert cli.main(["list", "--contracts", "contracts", "--family", "keys", "--format=json"]) == 0
    assert json.loads(capsys.readouterr().out) == [
        {
            "id": "OTHER",
            "family": "keys",
            "tier": "static",
            "severity": "warning",
            "title": "Another one",
        }
    ]


def test_a_contract_is_explained_with_the_facts_that_it_names(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert cli.main(["explain", "WIDTH", "--contracts", "contracts"]) == 0
    text = capsys.readouterr().out
    assert text.startswith("WIDTH  The fc fits\n  family     width\n  tier       static\n")
    assert "  rule       checkpoint.fc_in == draft.aux_width\n" in text
    assert "\n  draft.aux_width: width that the fc has to take: " in text


def test_an_unknown_contract_is_answered_with_the_nearest(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert cli.main(["explain", "widht", "--contracts", "contracts"]) == 2
    said = "contract: no contract is named 'widht'; did you mean 'WIDTH'?\n"
    assert capsys.readouterr() == ("", said)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"tier": ["statc"]}, "--tier: unknown tier 'statc'; did you mean 'static'?"),
        (
            {"tier": ["zz"]},
            "--tier: unknown tier 'zz'; known are static, load, model, engine, live",
        ),
        ({"family": ["with"]}, "--family: unknown family 'with'; did you mean 'width'?"),
        ({"device": "gpu"}, "--device: unknown device 'gpu'; did you mean 'cpu'?"),
        ({"timeout": "-1"}, "--timeout: '-1' is no number of seconds above 0"),
        ({"timeout": "nan"}, "--timeout: 'nan' is no number of seconds above 0"),
        ({"target": ""}, "--target: is empty; give a value or leave the option out"),
        (
            {"report": ["json"]},
            "--report: 'json' must be FORMAT=PATH, for instance json=report.json",
        ),
        ({"report": ["jsn=a"]}, "--report: unknown format 'jsn'; did you mean 'json'?"),
        ({"report": ["json=."]}, "--report: . is a directory; name a file in it"),
        (
            {"report": ["json=no/a"]},
            "--report: there is no directory no to write no/a to",
        ),
        (
            {"tier": ["a"], "timeout": "b"},
            "--tier: unknown tier 'a'; known are static, load, model, engine, live\n"
            "--timeout: 'b' is no number of seconds above 0",
        ),
    ],
)  # fmt: skip
def test_a_wrong_option_is_named_with_what_is_allowed(given: dict[str, object], said: str) -> None:
    with pytest.raises(OptionError) as caught:
        parse_options(given)
    assert "\n".join(map(str, caught.value.problems)) == said


def test_the_tiers_of_the_options_are_those_of_the_facts() -> None:
    assert tuple(Tier) == TIERS
    assert parse_options({}).tier == (Tier.STATIC, Tier.LOAD, Tier.MODEL)


def test_options_can_be_repeated_or_separated_by_commas() -> None:
    options = parse_options({"tier": ["model,static", "load"], "contract": ["A*", "B, C"]})
    assert options.tier == (Tier.STATIC, Tier.LOAD, Tier.MODEL)
    assert options.contract == ("A*", "B", "C")


def test_settings_supply_what_the_command_line_leaves_out(folder: Path) -> None:
    settings = {"subject": ["good.yaml", "llama"], "tier": "static", "timeout": 9, "draft": "o/n"}
    (folder / "pyproject.toml").write_text(f"[tool.eagle3_contracts]\n{_toml(settings)}")
    below = folder / "contracts"
    known = read_settings(find_pyproject(below))
    assert parse_options({}, known) == Options(
        subject=(str(folder / "good.yaml"), "llama"),
        tier=(Tier.STATIC,),
        timeout=9.0,
        draft="o/n",
    )
    given = {"target": "t", "tier": ["load"]}
    assert parse_options(given, known) == Options(
        target="t", tier=(Tier.LOAD,), timeout=9.0, has_chosen_subjects=True
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("tiers = 'x'", "tool.eagle3_contracts: unknown key 'tiers'; did you mean 'tier'?"),
        ("timeout = 'x'\ntier = 1", "tool.eagle3_contracts: tier must be a string or a list of "
         "strings, not 1"),
        ("device = ['cpu']", "tool.eagle3_contracts: device takes one value, not a list"),
        ("device = true", "tool.eagle3_contracts: device must be a string, not True"),
        ("device", "not TOML: Expected '=' after a key in a key/value pair (at end of document)"),
    ],
)  # fmt: skip
def test_a_wrong_setting_is_named_with_its_file(folder: Path, text: str, said: str) -> None:
    file = folder / "pyproject.toml"
    file.write_text(f"[tool.eagle3_contracts]\n{text}")
    with pytest.raises(OptionError) as caught:
        read_settings(file)
    assert str(caught.value) == f"{file}: {said}"


def test_a_wrong_value_of_a_setting_is_named_by_its_key(folder: Path) -> None:
    (folder / "pyproject.toml").write_text("[tool.eagle3_contracts]\ndevice = 'gpu'\n")
    with pytest.raises(OptionError) as caught:
        parse_options({}, read_settings(folder / "pyproject.toml"))
    said = "tool.eagle3_contracts.device: unknown device 'gpu'; did you mean 'cpu'?"
    assert str(caught.value) == said


def test_a_reader_that_goes_away_is_no_error() -> None:
    process = _process("list")
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    assert process.stderr.read() == ""
    assert process.wait(30) == 0
    process.stderr.close()


def test_an_interrupted_check_ends_with_code_130_and_without_a_traceback() -> None:
    process = _process("check", "llama-eagle3", "--tier", "model")
    assert process.stderr is not None
    progress = process.stderr.readline()  # what follows imports SGLang, which takes seconds
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=30)
    assert progress.startswith("llama-eagle3: ")
    assert (process.returncode, out, err) == (130, "", "interrupted\n")


def test_an_error_of_the_program_itself_is_no_violation() -> None:
    command = f"{sys.executable} -m eagle3_contracts.cli list >&-"
    process = subprocess.run(command, shell=True, capture_output=True, text=True, check=False)
    assert process.returncode == 3
    assert process.stderr.startswith("Traceback (most recent call last):\n")


def test_a_static_check_imports_no_engine_and_no_framework() -> None:
    code = dedent(
        """\
        import sys
        from eagle3_contracts.cli import main
        main(["check", "--tier", "static", "--contracts", "contracts", "good.yaml"])
        heavy = {"torch", "transformers", "sglang", "pytest", "numpy", "huggingface_hub"}
        print(sorted(heavy & set(sys.modules)))
        """
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.splitlines()[-1] == "[]"


def test_text_survives_a_terminal_with_few_characters(folder: Path) -> None:
    contract = {**WIDTH, "title": "Länge ≥ 1", "message": "größer → kleiner"}
    file = {"version": 1, "contracts": [contract]}
    (folder / "contracts" / "all.yaml").write_text(yaml.safe_dump(file, allow_unicode=True))
    process = _process("check", "--contracts", "contracts", "bad.yaml", PYTHONIOENCODING="ascii")
    out, err = process.communicate(timeout=30)
    assert (process.returncode, err) == (1, "")
    assert "FAIL  WIDTH  L\\xe4nge \\u2265 1\n" in out
