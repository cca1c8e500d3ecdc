"""The wheel holds the contracts and fixtures, and they are found where it is installed."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

from eagle3_contracts.data import contracts_dir, fixtures_dir

ROOT = contracts_dir().parent


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the wheel and unpack it, as an installation does."""
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = folder.glob("*.whl")
    site = folder / "site"
    zipfile.ZipFile(wheel).extractall(site)
    return site


def run(installed: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(installed)}
    command = [sys.executable, *arguments]
    return subprocess.run(
        command, cwd=installed.parent, env=environment, capture_output=True, text=True
    )


def test_every_contract_and_fixture_is_in_the_wheel(installed: Path) -> None:
    data = installed / "eagle3_contracts" / "_data"
    for source, name in ((contracts_dir(), "contracts"), (fixtures_dir(), "fixtures")):
        expected = {p.relative_to(source) for p in source.rglob("*") if p.is_file()}
        assert {p.relative_to(data / name) for p in (data / name).rglob("*") if p.is_file()} == (
            expected
        )
    assert (installed / "eagle3_contracts" / "py.typed").is_file()


def test_an_installed_package_finds_its_own_contracts(installed: Path) -> None:
    code = "from eagle3_contracts.data import contracts_dir; print(contracts_dir())"
    assert run(installed, "-c", code).stdout.strip() == str(
        installed / "eagle3_contracts" / "_data" / "contracts"
    )


def test_an_installed_package_checks_its_own_subjects(installed: Path) -> None:
    done = run(installed, "-m", "eagle3_contracts.cli", "check", "--tier", "static", "llama-eagle3")
    assert done.returncode == 0, done.stderr
    assert " pass" in done.stdout


def test_the_plain_installation_needs_no_torch() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    names = {re.split(r"[^\w-]", line)[0] for line in project["dependencies"]}
    assert names == {"common-expression-language", "pydantic", "pytest", "PyYAML"}
