"""Every contract fails under each of its faults, on the real SGLang, and holds without them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from eagle3_contracts.catalogue import Entry, read_catalogue
from eagle3_contracts.data import fixtures_dir
from eagle3_contracts.facts import Tier
from eagle3_contracts.faults import faults
from eagle3_contracts.prove import Fate, Pointer, Prover, problems
from eagle3_contracts.resolve import load_subjects

CATALOGUE = read_catalogue()
SUBJECTS = load_subjects([str(fixtures_dir() / "subjects")])
PAIRS = [
    pytest.param(
        entry,
        name,
        id=f"{entry.contract.id}-{name}",
        marks=[pytest.mark.nightly] if entry.contract.tier is Tier.ENGINE else [],
    )
    for entry in CATALOGUE
    for name in entry.contract.faults
]
WORDED = [fault.name for fault in faults().values() if fault.suspected]


@pytest.fixture(scope="module")
def prover() -> Iterator[Prover]:
    """Prove contracts on the built-in subjects; facts are shared between contracts."""
    prover = Prover(CATALOGUE, SUBJECTS)
    yield prover
    prover.close()


@pytest.mark.xdist_group("sglang")
@pytest.mark.parametrize(("entry", "name"), PAIRS)
def test_a_contract_fails_under_its_fault_and_holds_without_it(
    prover: Prover, entry: Entry, name: str
) -> None:
    proof = prover.prove(entry, faults()[name])
    assert proof.fate is Fate.KILLED, proof.message
    assert proof.cause


def test_every_fault_belongs_to_a_contract_and_every_contract_has_a_known_fault() -> None:
    assert problems(CATALOGUE, faults()) == []


def test_every_fault_breaks_something() -> None:
    names = {subject.name for subject in SUBJECTS}
    for fault in faults().values():
        assert (fault.edit is None) != (fault.patch is None), fault.name
        assert fault.on in names, fault.name


@pytest.mark.xdist_group("sglang")
@pytest.mark.parametrize("name", WORDED)
def test_the_contract_that_fails_first_suspects_the_fault(prover: Prover, name: str) -> None:
    signal = prover.signal(faults()[name], [Tier.STATIC, Tier.LOAD, Tier.MODEL])
    assert signal.pointer is Pointer.CAUSE, signal.cause
