"""Contract files are checked as a whole before anything runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator

from eagle3_contracts.catalogue import read_catalogue, schema
from eagle3_contracts.data import contracts_dir, fixtures_dir
from eagle3_contracts.errors import ContractError

ENTRY = {
    "id": "AUX-WIDTH",
    "family": "width",
    "tier": "model",
    "title": "Captured width fits",
    "rule": "capture.width == draft.num_aux * target.hidden_size",
    "message": "{{capture.width}} wide",
    "why": "The draft's fc is skipped.",
    "fix": "Capture {{draft.num_aux}} layers.",
    "faults": ["layer-dropped"],
}


@pytest.fixture(autouse=True)
def _in_tmp_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def write(name: str, *entries: dict[str, Any]) -> Path:
    """Write a contract file of ENTRY with changes; a field that is None is left out."""
    merged = [{**ENTRY, "faults": ["layer-dropped"], **entry} for entry in entries]
    contracts = [{k: v for k, v in entry.items() if v is not None} for entry in merged]
    text = yaml.safe_dump({"version": 1, "contracts": contracts}, sort_keys=False, width=1000)
    Path(name).write_text(text)
    return Path(name)


def refusal(*paths: Path) -> list[str]:
    with pytest.raises(ContractError) as caught:
        read_catalogue(paths)
    return str(caught.value).splitlines()


def test_a_catalogue_is_read_by_id_with_the_place_of_each_contract() -> None:
    path = write("b.yaml", {"id": "B"}, {"id": "A-2", "applies": "subject.captures"})
    first, second = read_catalogue([path])
    assert (first.contract.id, first.source, first.line) == ("A-2", "b.yaml", 13)
    assert (second.contract.id, second.source, second.line) == ("B", "b.yaml", 3)
    assert first.groups == {"subject", "capture", "draft", "target"}
    assert second.applies.holds({})


def test_a_directory_stands_for_its_yaml_files() -> None:
    write("a.yaml", {"id": "A"})
    write("b.yaml", {"id": "B", "depends": ["A"]})
    Path("schema.json").write_text("{}")
    assert [entry.contract.id for entry in read_catalogue([Path()])] == ["A", "B"]


def test_a_file_named_twice_is_read_once() -> None:
    path = write("a.yaml", {})
    assert len(read_catalogue([path, path])) == 1


def test_the_built_in_catalogue_has_no_mistakes() -> None:
    names = [entry.contract.id for entry in read_catalogue()]
    assert names == sorted(set(names))


def test_the_built_in_data_lie_in_the_checkout() -> None:
    assert contracts_dir().parent == fixtures_dir().parent == Path(__file__).parent.parent


def test_paths_that_hold_nothing_are_refused() -> None:
    Path("empty").mkdir()
    assert refusal(Path("empty"), Path("absent.yaml")) == [
        "absent.yaml: cannot be read: No such file or directory",
        "empty: the directory holds no *.yaml file",
    ]


def test_the_mistakes_of_all_files_are_reported_together() -> None:
    first = write("a.yaml", {"severity": "eror", "titel": "x"}, {"id": "B", "rule": "draft.num"})
    second = write("b.yaml", {"id": "C", "rule": "capture.width", "why": None})
    Path("c.yaml").write_text("version: 1\ncontracts: [\n")
    assert refusal(first, second, Path("c.yaml")) == [
        "a.yaml:13:13: severity must be 'error', 'warning' or 'info', not 'eror'; "
        "did you mean 'error'?",
        "a.yaml:14:3: unknown field 'titel'; did you mean 'title'?",
        "a.yaml:19:15: rule: unknown fact 'draft.num'; did you mean 'num_aux'?",
        "b.yaml:3:3: 'why' is missing",
        "c.yaml:3:1: not YAML: did not find expected node content while parsing a flow node",
    ]


@pytest.mark.parametrize(
    "rule",
    [
        "rule: capture.widht > 2",
        "rule: 'capture.widht > 2'",
        'rule: "subject.name == \\"a\\" && capture.widht > 2"',
        "rule: subject.captures &&\n      capture.widht > 2",
        "rule: >-\n      subject.captures &&\n      capture.widht > 2",
        "rule: |\n      subject.captures &&\n        capture.widht > 2",
    ],
)
def test_a_mistake_in_a_rule_has_its_place_however_the_rule_is_written(rule: str) -> None:
    rest = {key: value for key, value in ENTRY.items() if key != "rule"}
    fields = "\n".join(f"    {key}: {json.dumps(value)}" for key, value in rest.items())
    text = f"version: 1\ncontracts:\n  - {rule}\n{fields}\n"
    Path("a.yaml").write_text(text)
    before = text[: text.index("widht")].splitlines()
    place = f"{len(before)}:{len(before[-1]) + 1}"
    said = "rule: unknown fact 'capture.widht'; did you mean 'width'?"
    assert refusal(Path("a.yaml")) == [f"a.yaml:{place}: {said}"]


def test_every_text_of_a_contract_is_checked() -> None:
    path = write(
        "a.yaml",
        {
            "applies": "subject.name",
            "rule": "capture.width =",
            "message": "{{capture.width + 'a'}}",
            "fix": "do {{",
            "causes": [{"when": "draft.num_aux", "says": "{{drft.num_aux}}"}],
        },
    )
    assert refusal(path) == [
        "a.yaml:7:23: rule: not an expression: '=' is not expected here; write ==",
        "a.yaml:8:29: message: '+' does not go with int and string",
        "a.yaml:10:11: fix: '{{' without '}}'; write {{expression}}",
        "a.yaml:13:12: applies: must give bool, and gives string",
        "a.yaml:15:11: when: must give bool, and gives int",
        "a.yaml:16:14: says: unknown name 'drft'; did you mean 'draft'?",
    ]


def test_an_id_that_is_used_twice_names_the_other_place() -> None:
    first, second = write("a.yaml", {"id": "A"}, {"id": "A"}), write("b.yaml", {"id": "A"})
    assert refusal(first, second) == [
        "a.yaml:13:7: id 'A' is already used at a.yaml:3:7",
        "b.yaml:3:7: id 'A' is already used at a.yaml:3:7",
    ]


def test_an_unknown_dependency_is_answered_with_the_nearest_id() -> None:
    path = write("a.yaml", {"id": "AUX-ENABLED"}, {"depends": ["AUX-ENABLD"]})
    assert refusal(path) == [
        "a.yaml:24:5: depends on the unknown contract 'AUX-ENABLD'; did you mean 'AUX-ENABLED'?"
    ]


def test_a_dependency_on_a_contract_with_a_mistake_is_not_called_unknown() -> None:
    path = write("a.yaml", {"id": "A", "severity": "eror"}, {"id": "B", "depends": ["A"]})
    assert refusal(path) == [
        "a.yaml:13:13: severity must be 'error', 'warning' or 'info', not 'eror'; "
        "did you mean 'error'?"
    ]


def test_all_circles_of_dependencies_are_found() -> None:
    path = write(
        "a.yaml",
        {"id": "A", "depends": ["B"]},
        {"id": "B", "depends": ["C"]},
        {"id": "C", "depends": ["A"]},
        {"id": "D", "depends": ["D"]},
    )
    assert refusal(path) == [
        "a.yaml:14:3: A depends on itself: A -> B -> C -> A; leave one of these out",
        "a.yaml:50:3: D depends on itself: D -> D; leave one of these out",
    ]


def test_a_dependency_on_a_dearer_contract_is_refused() -> None:
    cheap = {"id": "B", "tier": "static", "rule": "subject.captures", "message": "x", "fix": "x"}
    path = write("a.yaml", {"id": "A"}, {**cheap, "depends": ["A"]})
    assert refusal(path) == [
        "a.yaml:24:5: B of tier static depends on A of tier model, which a run of tier static "
        "does not judge; give B the tier model, or leave the dependency out"
    ]


def test_facts_of_a_dearer_tier_are_refused() -> None:
    path = write("a.yaml", {"tier": "load"})
    assert refusal(path) == [
        "a.yaml:7:9: rule: 'capture' is known from tier model on; the contract is of tier load",
        "a.yaml:8:15: message: 'capture' is known from tier model on; the contract is of tier load",
    ]


def test_the_schema_accepts_a_right_file_and_refuses_a_wrong_one() -> None:
    Draft202012Validator.check_schema(schema())
    validator = Draft202012Validator(schema())
    assert validator.is_valid({"version": 1, "contracts": [ENTRY]})
    assert not validator.is_valid({"version": 1, "contracts": [{**ENTRY, "titel": "x"}]})


def test_the_published_schema_is_current() -> None:
    current = json.dumps(schema(), indent=2) + "\n"
    advice = "run: python -m eagle3_contracts.catalogue > contracts/schema.json"
    assert (contracts_dir() / "schema.json").read_text() == current, advice
