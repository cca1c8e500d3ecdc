"""Fuzzing: what is drawn is right or broken as it says, and what is found is small and replayed."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from eagle3_contracts import probes
from eagle3_contracts.catalogue import read_catalogue
from eagle3_contracts.cli import main
from eagle3_contracts.contract import Family
from eagle3_contracts.errors import OptionError
from eagle3_contracts.facts import Tier
from eagle3_contracts.fuzz import command, regressions
from eagle3_contracts.fuzz.changes import Change, changes_of, is_fuzzable
from eagle3_contracts.fuzz.example import Example, Finding, Judge, Kind
from eagle3_contracts.fuzz.search import Broken, search
from eagle3_contracts.fuzz.spelling import spelling
from eagle3_contracts.options import Options
from eagle3_contracts.plan import make_plan, read_subjects
from eagle3_contracts.probes import Request
from eagle3_contracts.subject import ResolvedSubject

ENTRIES = read_catalogue()
SUBJECTS = {subject.name: subject for subject in read_subjects(Options()) if is_fuzzable(subject)}
WAIVERS = make_plan(Options()).waivers
LLAMA = SUBJECTS["llama-eagle3"]
WRONG = [change for change in changes_of(LLAMA) if change.harm]


@pytest.fixture(scope="module", autouse=True)
def _close() -> Iterator[None]:
    yield
    probes.close()


@pytest.fixture(scope="module")
def judge() -> Judge:
    """Judge examples on all tiers, with one SGLang for all of them."""
    return Judge(ENTRIES, (), [Tier.STATIC, Tier.LOAD, Tier.MODEL])


def example(subject: ResolvedSubject, *changes: Change) -> Example:
    """Return six layers of the subject with the plainest value of each change."""
    return Example(subject, 6, (1, 2, 4), tuple((change, change.values[0]) for change in changes))


def say_nothing(text: str) -> None:
    """Drop what a command says."""


@pytest.mark.parametrize("name", SUBJECTS)
def test_right_changes_keep_every_static_contract_whole(name: str) -> None:
    subject = SUBJECTS[name]
    judge = Judge(ENTRIES, WAIVERS, [Tier.STATIC])
    right = [change for change in changes_of(subject) if not change.harm]
    for change in right:
        for value in change.values:
            drawn = Example(subject, 6, (1, 2, 4), ((change, value),))
            assert judge.finding(drawn) is None, drawn
    assert judge.finding(example(subject, *right)) is None


@pytest.mark.parametrize("change", WRONG, ids=lambda change: change.field)
def test_a_broken_integration_is_refused_as_soon_as_it_can_be(judge: Judge, change: Change) -> None:
    before = judge.counts[Tier.MODEL]
    assert judge.finding(example(LLAMA, change)) is None
    assert judge.counts[Tier.MODEL] - before == (change.needs is Tier.MODEL)


def test_the_same_draft_in_one_file_and_in_shards_is_judged_alike() -> None:
    assert spelling(ENTRIES, example(LLAMA)) is None


def count_states(drawn: Example) -> Finding | None:
    """Find fault with four states and a draft in another dtype, and with nothing else."""
    if len(drawn.ids) < 4 or "draft.dtype" not in drawn.fields() or drawn.harm:
        return None
    return Finding(Kind.FAILURE, "FOUR", "width", Tier.STATIC, "four states")


def test_what_is_found_is_made_as_small_as_it_can_be() -> None:
    (broken,) = search(LLAMA, count_states, seed=1, budget=3)
    assert (broken.example.depth, broken.example.ids) == (5, (0, 1, 2, 3))
    assert list(broken.example.fields()) == ["draft.dtype"]


def test_the_seed_alone_says_what_is_drawn() -> None:
    def drawn(seed: int) -> list[str]:
        seen: list[str] = []
        list(search(LLAMA, lambda one: seen.append(str(one)), seed, budget=1))
        return seen[:100]

    first = drawn(1)
    assert len(set(first)) > 50
    assert drawn(1)[: len(first)] == first[: len(drawn(1))]
    assert drawn(2) != first


def test_a_fault_in_the_class_is_found_with_few_layers(tmp_path: Path) -> None:
    request = Request(fault="all-off-by-one")
    tiers = (Tier.STATIC, Tier.MODEL)
    campaign = command.Campaign(ENTRIES, [LLAMA], tiers, 1, 12.0, tmp_path, request=request)
    found = campaign.run(say_nothing).broken
    kinds = {(one.finding.kind, one.finding.contract) for one in found}
    assert (Kind.FAILURE, "BOUNDARY-TRAINED") in kinds
    assert all(one.example.depth <= 8 for one in found)
    assert {regressions.write(one, 1, tmp_path) for one in found} == set(tmp_path.iterdir())


def test_a_regression_is_failing_until_it_is_fixed(tmp_path: Path) -> None:
    dtype = next(change for change in changes_of(LLAMA) if change.field == "draft.dtype")
    silent = Finding(Kind.SILENCE, "", Family.WIDTH, Tier.MODEL, "nothing fails")
    whole = Finding(Kind.FAILURE, "FC", "width", Tier.STATIC, "it failed once")
    drawn = example(LLAMA, dtype)
    for finding in (silent, whole):
        regressions.write(Broken(finding, drawn, 0.1), 7, tmp_path)
    said: list[str] = []
    assert command.replay([tmp_path], ENTRIES, said.append) == 1
    fixed, failing, why = sorted(said, key=lambda text: text.split()[0] != "fixed")
    assert fixed.startswith(f"fixed          {tmp_path}/llama-eagle3-failure-")
    assert failing.startswith(f"still failing  {tmp_path}/llama-eagle3-silence-")
    assert why == "  nothing of the family width fails"


def test_the_seed_is_said_first(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["fuzz", "--subject", "llama-eagle3", "--tier", "static", "--budget", "1s"]
    assert main([*words, "--seed", "5", "--out", str(tmp_path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "seed 5"
    assert lines[1].startswith("llama-eagle3: examples static ")


def test_too_little_time_is_no_success(tmp_path: Path) -> None:
    said: list[str] = []
    campaign = command.Campaign(ENTRIES, [LLAMA], [Tier.STATIC], 1, 1e-6, tmp_path)
    assert campaign.run(said.append).exit_code == 4
    assert said[-1] == ("too little time: not one example of llama-eagle3 reached the last tier")


def test_what_is_waived_is_known(judge: Judge) -> None:
    kimi = SUBJECTS["kimi-k2.5-eagle3"]
    drawn = Example(kimi, 4, (0, 1), ())
    found = judge.finding(drawn)
    assert found is not None
    assert (found.kind, found.contract) == (Kind.FAILURE, "BOUNDARY-TRAINED")
    assert Judge(ENTRIES, WAIVERS).finding(drawn) is None


def test_a_class_nobody_has_a_subject_of_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fuzz", "--model", "LlamaForCausalLm"]) == 2
    assert "; did you mean 'LlamaForCausalLM'?" in capsys.readouterr().err


@pytest.mark.parametrize(("text", "seconds"), [("60s", 60), ("1.5m", 90), ("2h", 7200), ("9", 9)])
def test_a_budget_is_a_time(text: str, seconds: float) -> None:
    assert command.seconds_of(text) == seconds


@pytest.mark.parametrize("text", ["", "0s", "-1s", "5d", "1e9", "x" * 99])
def test_a_budget_that_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(OptionError, match="is no time; write it as 60s, 5m or 2h"):
        command.seconds_of(text)


def test_without_hypothesis_it_says_what_to_install() -> None:
    code = (
        "import sys; sys.modules['hypothesis'] = None; from eagle3_contracts.cli import main; "
        "sys.exit(main(['fuzz', '--subject', 'llama-eagle3', '--tier', 'static']))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    said = "fuzz: fuzzing needs hypothesis: pip install 'eagle3-contracts[fuzz]'\n"
    assert done.stderr == said
