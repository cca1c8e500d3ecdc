"""Every contract fails under each of its faults, on the real SGLang, and holds without them."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from eagle3_contracts import probes
from eagle3_contracts.catalogue import Entry, read_catalogue
from eagle3_contracts.data import fixtures_dir
from eagle3_contracts.facts import Tier
from eagle3_contracts.faults import broken, faults
from eagle3_contracts.probes import Request
from eagle3_contracts.resolve import load_subjects
from eagle3_contracts.run import Checker
from eagle3_contracts.subject import ResolvedSubject
from eagle3_contracts.verdict import Result, Verdict

CATALOGUE = read_catalogue()
SUBJECTS = {s.name: s for s in load_subjects([str(fixtures_dir() / "subjects")])}
PAIRS = [
    pytest.param(entry, name, id=f"{entry.contract.id}-{name}")
    for entry in CATALOGUE
    for name in entry.contract.faults
]

Judge = Callable[[Entry, str, str | None], Result]


@pytest.fixture(scope="module")
def judge() -> Iterator[Judge]:
    """Judge a contract on a built-in subject under a fault; facts are shared between contracts."""
    checkers: dict[str | None, Checker] = {}
    subjects: dict[tuple[str, str | None], ResolvedSubject] = {}

    def judged(entry: Entry, subject: str, fault: str | None) -> Result:
        key = subject, fault
        request = Request(fault=fault, weights=True)
        if fault not in checkers:
            checkers[fault] = Checker(CATALOGUE, tiers=set(Tier), request=request)
        if key not in subjects:
            whole = SUBJECTS[subject]
            subjects[key] = whole if fault is None else broken(whole, faults()[fault])
        return checkers[fault].judge(entry, subjects[key])

    yield judged
    probes.close()


@pytest.mark.xdist_group("sglang")
@pytest.mark.parametrize(("entry", "name"), PAIRS)
def test_a_contract_fails_under_its_fault_and_holds_without_it(
    judge: Judge, entry: Entry, name: str
) -> None:
    whole = judge(entry, faults()[name].on, None)
    assert whole.verdict is Verdict.PASS, whole.message
    wrong = judge(entry, faults()[name].on, name)
    assert wrong.verdict is Verdict.FAIL, f"{wrong.verdict}: {wrong.message}"
    assert wrong.cause
    assert wrong.fix


def test_every_fault_belongs_to_a_contract_and_every_contract_has_a_known_fault() -> None:
    named = {name for entry in CATALOGUE for name in entry.contract.faults}
    assert named == set(faults())


def test_every_fault_breaks_something() -> None:
    for fault in faults().values():
        assert (fault.edit is None) != (fault.patch is None), fault.name
        assert fault.on in SUBJECTS, fault.name


SUSPECTED = {
    ("CAPTURE-ENABLED", "delegation-guarded"): "hasattr guard",
    ("CAPTURE-ENABLED", "flag-on-wrapper-only"): "did not pass the call on",
    ("CAPTURE-ENABLED", "tuple-swallowed"): "lost on their way",
    ("CAPTURE-ENABLED", "launched-as-eagle"): "--speculative-algorithm EAGLE",
    ("FC-APPLIED", "launched-as-eagle"): "exactly as wide as the draft's embedding",
    ("BOUNDARY-TRAINED", "order-swapped"): "The same boundaries, in another order",
    ("BOUNDARY-TRAINED", "all-off-by-one"): "All one layer too late",
    ("BOUNDARY-TRAINED", "shift-depends-on-first-id"): "All one layer too early",
    ("BOUNDARY-TRAINED", "default-ids"): "SGLang's default boundaries",
    ("KEYS-CONSUMED", "bias-without-place"): "without a bias",
    ("KEYS-FILLED", "fc-renamed"): "under other names: [fuse.weight]",
}


@pytest.mark.xdist_group("sglang")
@pytest.mark.parametrize(("contract", "name"), SUSPECTED)
def test_the_suspected_cause_names_the_fault(judge: Judge, contract: str, name: str) -> None:
    entry = next(entry for entry in CATALOGUE if entry.contract.id == contract)
    assert SUSPECTED[contract, name] in judge(entry, faults()[name].on, name).cause
