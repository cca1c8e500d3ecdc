"""The checker says of every static case of the corpus what it must."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from eagle3_contracts.catalogue import read_catalogue
from eagle3_contracts.corpus import Judge, case_files, table, tier_of
from eagle3_contracts.data import fixtures_dir
from eagle3_contracts.facts import Tier

CASES = [file for file in case_files(fixtures_dir() / "cases") if tier_of(file) is Tier.STATIC]


@pytest.fixture(scope="module")
def session() -> Iterator[Judge]:
    """Judge all cases with one reading of the contracts."""
    judge = Judge(read_catalogue())
    yield judge
    judge.close()


@pytest.mark.parametrize("file", CASES, ids=lambda file: file.stem)
def test_a_bad_case_is_caught_in_its_families_and_a_good_one_is_clean(
    session: Judge, file: Path
) -> None:
    judged = session.judge(file)
    assert judged is not None
    assert judged.is_right, table([judged])


def test_every_bad_case_has_a_good_neighbour() -> None:
    names = {file.stem for file in case_files(fixtures_dir() / "cases")}
    bad = {name.removesuffix("-bad") for name in names if name.endswith("-bad")}
    assert names == {f"{name}-{kind}" for name in bad for kind in ("bad", "good")}
