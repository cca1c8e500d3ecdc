"""What is said about SGLang in docs/findings can be reproduced without this project."""

from __future__ import annotations

import re
import subprocess
import sys
from datetime import date
from pathlib import Path

import pytest

from eagle3_contracts.data import contracts_dir, fixtures_dir

FINDINGS = sorted((contracts_dir().parent / "docs" / "findings").glob("*.md"))
WAIVERS = sorted((fixtures_dir() / "waivers").glob("*.yaml"))


def _block(text: str, language: str) -> str:
    found = re.search(rf"```{language}\n(.*?)```", text, re.DOTALL)
    assert found is not None, f"no block of {language}"
    return found[1]


@pytest.mark.xdist_group("sglang")
@pytest.mark.parametrize("finding", FINDINGS, ids=lambda path: path.stem)
def test_a_finding_prints_what_it_says(finding: Path, tmp_path: Path) -> None:
    text = finding.read_text()
    code = _block(text, "python")
    assert "eagle3_contracts" not in code
    run = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert run.stdout == _block(text, "text")


def test_every_waiver_points_to_a_finding() -> None:
    assert WAIVERS
    for file in WAIVERS:
        for name in re.findall(r"docs/findings/[\w.-]+\.md", file.read_text()):
            assert contracts_dir().parent.joinpath(name) in FINDINGS, name


def test_no_waiver_has_expired() -> None:
    for file in WAIVERS:
        for day in re.findall(r"expires: (\S+)", file.read_text()):
            assert date.fromisoformat(day) > date.today(), file.name
