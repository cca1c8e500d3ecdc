"""The checker says of every case for which SGLang runs what it must."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from eagle3_contracts.catalogue import read_catalogue
from eagle3_contracts.corpus import Judge, case_files, table, tier_of
from eagle3_contracts.data import fixtures_dir
from eagle3_contracts.facts import Tier
from eagle3_contracts.options import Options
from eagle3_contracts.plan import waivers_of

TIERS = (Tier.LOAD, Tier.MODEL)
CASES = [file for file in case_files(fixtures_dir() / "cases") if tier_of(file) in TIERS]


@pytest.fixture(scope="module")
def session() -> Iterator[Judge]:
    """Judge all cases in one session of SGLang."""
    entries = read_catalogue()
    judge = Judge(entries, waivers_of(Options(), entries))
    yield judge
    judge.close()


@pytest.mark.xdist_group("sglang")
@pytest.mark.parametrize("file", CASES, ids=lambda file: file.stem)
def test_a_bad_case_is_caught_in_its_families_and_a_good_one_is_clean(
    session: Judge, file: Path
) -> None:
    judged = session.judge(file)
    assert judged is not None
    assert judged.is_right, table([judged])
