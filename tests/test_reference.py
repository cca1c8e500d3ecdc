"""The generated reference is current."""

from __future__ import annotations

from eagle3_contracts.catalogue import read_catalogue
from eagle3_contracts.data import contracts_dir
from eagle3_contracts.report.reference import reference


def test_the_reference_is_what_its_command_prints() -> None:
    written = contracts_dir().parent.joinpath("docs", "contracts.md").read_text()
    command = "python -m eagle3_contracts.report.reference > docs/contracts.md"
    assert written == reference(read_catalogue()), f"run: {command}"


def test_every_contract_has_a_section() -> None:
    entries = read_catalogue()
    text = reference(entries)
    assert all(f"\n### {entry.contract.id}\n" in text for entry in entries)
