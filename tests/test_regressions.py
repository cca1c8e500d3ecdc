"""What fuzzing found, and what was then put right, stays right."""

from __future__ import annotations

from pathlib import Path

import pytest

from eagle3_contracts import probes
from eagle3_contracts.catalogue import read_catalogue
from eagle3_contracts.data import fixtures_dir
from eagle3_contracts.fuzz import regressions

FILES = regressions.files_of([fixtures_dir() / "regressions"])


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_regression_stays_fixed(file: Path) -> None:
    (replayed,) = regressions.replay([file], read_catalogue())
    probes.close()
    assert replayed.is_fixed, replayed.text
