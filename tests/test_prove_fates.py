"""What a proof says of contracts that nothing breaks, that never hold, and that cannot be tried."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from eagle3_contracts import cli, prove
from eagle3_contracts.facts import Tier
from eagle3_contracts.faults import Fault, faults
from eagle3_contracts.faults.edit import edited_draft, tensor
from eagle3_contracts.prove import Fate, Pointer, Prover
from eagle3_contracts.report import proofs
from eagle3_contracts.subject import ResolvedSubject, Tensor
from tiny import WIDTH, entries, subject


def _narrow(whole: ResolvedSubject) -> ResolvedSubject:
    return edited_draft(whole, tensors={"fc.weight": Tensor(dtype="BF16", shape=(16, 32))})


FAULT = Fault("fc-too-narrow", "fc takes two states", on="tiny", edit=_narrow)
DEAD = {"id": "DEAD", "rule": "checkpoint.fc_in > 0"}
NEVER = {"id": "NEVER", "rule": "checkpoint.fc_in == 17"}


def _prover(folder: Path) -> Prover:
    return Prover(entries(folder, WIDTH, DEAD, NEVER), [subject()])


def _fate(prover: Prover, contract: str, fault: Fault = FAULT) -> tuple[Fate, str]:
    entry = next(entry for entry in prover.entries if entry.contract.id == contract)
    proof = prover.prove(entry, fault)
    return proof.fate, proof.message


def test_a_contract_kills_its_fault_or_lets_it_live_or_never_held(tmp_path: Path) -> None:
    prover = _prover(tmp_path)
    assert _fate(prover, "WIDTH") == (Fate.KILLED, "fail: fc takes 32; 48 expected")
    assert _fate(prover, "DEAD") == (Fate.SURVIVED, "pass")
    assert _fate(prover, "NEVER") == (Fate.UNSOUND, "fail: fc takes 48; 48 expected")


def test_a_fault_that_cannot_be_put_in_says_why(tmp_path: Path) -> None:
    prover = _prover(tmp_path)
    gone = replace(FAULT, edit=tensor("fc.bias", None))
    assert _fate(prover, "WIDTH", gone) == (Fate.NOT_APPLIED, "KeyError: 'fc.bias'")
    lost = replace(FAULT, on="small")
    assert _fate(prover, "WIDTH", lost) == (
        Fate.NOT_APPLIED,
        "no built-in subject is named 'small'",
    )


@pytest.mark.parametrize(
    ("words", "expected"),
    [((), Pointer.GENERAL), (("32; 48",), Pointer.CAUSE), (("a bias",), Pointer.WRONG)],
)
def test_a_fault_is_named_by_its_words(
    tmp_path: Path, words: tuple[str, ...], expected: Pointer
) -> None:
    two = {**WIDTH, "faults": ["fc-too-narrow", "fc-renamed"]}
    prover = Prover(entries(tmp_path, two, DEAD), [subject()])
    signal = prover.signal(replace(FAULT, suspected=words), [Tier.STATIC])
    assert (signal.pointer, signal.contracts) == (expected, ("WIDTH",))
    assert signal.message == "fc takes 32; 48 expected"


def test_what_makes_a_proof_impossible_is_told(tmp_path: Path) -> None:
    made = entries(tmp_path, {"faults": ["fc-too-narow"]})
    assert prove.problems(made, {"fc-too-narrow": FAULT}) == [
        "WIDTH names the fault 'fc-too-narow', which does not exist; did you mean 'fc-too-narrow'?",
        "no contract names the fault 'fc-too-narrow'",
    ]


def test_a_survivor_is_named_and_counted(tmp_path: Path) -> None:
    prover = _prover(tmp_path)
    found = tuple(prover.prove(entry, FAULT) for entry in prover.entries)
    proven = prove.Proven(found, (prover.signal(FAULT, [Tier.STATIC]),))
    text = proofs.render(proven)
    assert "WRONG  DEAD under fc-too-narrow on tiny: survived: pass\n" in text
    assert "static: 1 of 3 pairs killed (3 contracts)\n" in text
    assert proven.exit_code == 1


def _prove(folder: Path, *changes: dict[str, object]) -> int:
    whole = [{**WIDTH, **change} for change in changes]
    (folder / "all.yaml").write_text(yaml.safe_dump({"version": 1, "contracts": whole}))
    words = ["--contracts", str(folder), "--tier", "static", "--contract", "*"]
    return cli.main(["prove", *words, "--format", "json"])


def test_the_command_ends_with_0_when_every_fault_is_killed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _prove(tmp_path, {}) == 0
    made = json.loads(capsys.readouterr().out)
    assert [(p["contract"], p["fault"], p["fate"]) for p in made["proofs"]] == [
        ("WIDTH", "fc-too-narrow", "killed")
    ]
    assert made["faults"][0]["contracts"] == ["WIDTH"]
    assert faults()["fc-too-narrow"].on == made["proofs"][0]["subject"]


def test_the_command_ends_with_1_for_a_survivor_and_for_an_unknown_fault(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _prove(tmp_path, {"rule": "checkpoint.fc_in > 0"}) == 1
    assert json.loads(capsys.readouterr().out)["summary"]["fates"]["survived"] == 1
    assert _prove(tmp_path, {"faults": ["fc-too-narow"]}) == 1
    assert "did you mean 'fc-too-narrow'?" in capsys.readouterr().out
