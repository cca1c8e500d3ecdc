"""Judging: order, gaps, dependencies, waivers, and what a verdict says."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Any

import pytest

from eagle3_contracts.errors import Problem, SubjectError
from eagle3_contracts.facts import Gap, GapKind, HookFacts, Tier
from eagle3_contracts.probes import Request
from eagle3_contracts.probes.static import StaticProbe
from eagle3_contracts.run import Checker, in_order
from eagle3_contracts.verdict import Result, Verdict
from eagle3_contracts.waiver import Waiver
from tiny import Told, entries, subject

HOOKS = {"id": "HOOKS", "tier": "load", "rule": "hooks.sets_capture", "message": "no hook"}
THERE = HookFacts(target_class="Llama", sets_capture=True, gives_embed_and_head=True)
GONE = HookFacts(target_class="Llama", sets_capture=False, gives_embed_and_head=True)
TODAY = date(2027, 1, 1)


def _hooks(found: Any) -> Told:
    return Told(Tier.LOAD, found if isinstance(found, Exception) else {"hooks": found}, ("hooks",))


def _results(
    folder: Path, *contracts: dict[str, Any], hooks: Any = THERE, fc_in: int = 48, **more: Any
) -> dict[str, Result]:
    probes = (StaticProbe(), _hooks(hooks))
    checker = Checker(entries(folder, *contracts), probes=probes, today=TODAY, **more)
    return {result.contract: result for result in checker.check(subject(fc_in=fc_in))}


def _verdicts(results: dict[str, Result]) -> dict[str, tuple[str, str]]:
    return {name: (str(result.verdict), result.message) for name, result in results.items()}


def _waiver(contract: str) -> Waiver:
    return Waiver(contract, "tiny", "known", "a/b#1", "me", date(2027, 6, 30), "w.yaml:4")


def test_a_failure_says_what_was_expected_why_it_matters_and_how_to_reproduce_it(
    tmp_path: Path,
) -> None:
    contract = {"refs": ["a/b#1"], "severity": "warning"}
    result = _results(tmp_path, contract, fc_in=32)["WIDTH"]
    assert result == Result(
        contract="WIDTH",
        title="The fc fits",
        family="width",
        tier="static",
        severity="warning",
        subject="tiny",
        where="files",
        verdict=Verdict.FAIL,
        message="fc takes 32; 48 expected",
        cause="It does not load.",
        fix="Take another draft.",
        refs=("a/b#1",),
        reproduce="eagle3-contracts check tiny.yaml --contract WIDTH",
        facts=result.facts,
        seconds=result.seconds,
    )
    assert result.facts["checkpoint"]["fc_in"] == 32
    assert set(result.facts) == {"checkpoint", "draft"}
    assert not result.is_failure


def test_the_first_cause_that_matches_is_suspected(tmp_path: Path) -> None:
    causes = [
        {"when": "target.vocab_size > 0", "says": "undecided: the size is null"},
        {"when": "checkpoint.fc_in > 100", "says": "too wide"},
        {"when": "checkpoint.fc_in < 48", "says": "only {{checkpoint.fc_in}}"},
        {"when": "true", "says": "anything"},
    ]
    assert _results(tmp_path, {"causes": causes}, fc_in=32)["WIDTH"].cause == "only 32"


@pytest.mark.parametrize(
    ("kind", "verdict"),
    [
        (GapKind.ABSENT, "not-applicable"),
        (GapKind.UNTESTABLE, "not-testable"),
        (GapKind.BROKEN, "harness-error"),
    ],
)
def test_missing_facts_are_a_verdict_with_their_reason(
    tmp_path: Path, kind: GapKind, verdict: str
) -> None:
    results = _results(tmp_path, HOOKS, hooks=Gap(kind, "the reason"))
    assert _verdicts(results) == {"HOOKS": (verdict, "the reason")}


def test_a_part_that_the_subject_lacks_is_not_applicable_where_the_condition_needs_it(
    tmp_path: Path,
) -> None:
    results = _results(tmp_path, {"applies": "training.layer_ids != null"})
    said = "the subject names no training section"
    assert _verdicts(results) == {"WIDTH": ("not-applicable", said)}


def test_a_condition_that_is_false_anyway_does_not_run_a_dear_probe(tmp_path: Path) -> None:
    contract = {**HOOKS, "applies": "!subject.has_draft && hooks.sets_capture"}
    probe = _hooks(THERE)
    checker = Checker(entries(tmp_path, contract), probes=(StaticProbe(), probe))
    (result,) = checker.check(subject())
    said = "applies only if !subject.has_draft && hooks.sets_capture"
    assert (result.verdict, result.message) == (Verdict.NOT_APPLICABLE, said)
    assert probe.runs == 0


def test_a_part_missing_from_the_files_spares_the_dear_probe(tmp_path: Path) -> None:
    contract = {**HOOKS, "rule": "hooks.sets_capture && training.tool == 'hf'"}
    probe = _hooks(THERE)
    checker = Checker(entries(tmp_path, contract), probes=(StaticProbe(), probe))
    assert checker.check(subject())[0].verdict is Verdict.NOT_APPLICABLE
    assert probe.runs == 0


def test_a_rule_over_null_is_an_error_of_the_harness_that_names_the_rule(tmp_path: Path) -> None:
    results = _results(tmp_path, {"rule": "draft.vocab_size > 1"})
    said = (
        "rule `draft.vocab_size > 1` cannot be evaluated: draft.vocab_size is null; "
        "rule that out in `applies`"
    )
    assert _verdicts(results) == {"WIDTH": ("harness-error", said)}


def test_a_condition_over_null_is_an_error_of_the_harness_too(tmp_path: Path) -> None:
    results = _results(tmp_path, {"applies": "draft.vocab_size > 1"})
    assert results["WIDTH"].verdict is Verdict.HARNESS_ERROR


def test_a_failure_stays_one_when_its_message_does_not_work_out(tmp_path: Path) -> None:
    contract = {
        "message": "{{draft.vocab_size + 1}} expected",
        "fix": "see {{draft.vocab_size + 1}}",
    }
    result = _results(tmp_path, contract, fc_in=32)["WIDTH"]
    reason = (
        "rule `draft.vocab_size + 1` cannot be evaluated: draft.vocab_size is null; "
        "rule that out in `applies`"
    )
    assert result.verdict is Verdict.FAIL
    assert result.message == f"{{{{draft.vocab_size + 1}}}} expected ({reason})"
    assert result.fix == f"see {{{{draft.vocab_size + 1}}}} ({reason})"


def test_a_probe_runs_once_for_all_contracts_of_a_subject(tmp_path: Path) -> None:
    probe = _hooks(THERE)
    found = entries(tmp_path, HOOKS, {**HOOKS, "id": "EMBED"})
    checker = Checker(found, probes=(StaticProbe(), probe))
    one = subject()
    checker.check(one)
    checker.check(one)
    assert probe.runs == 1
    checker.check(subject("other"))
    assert probe.runs == 2


def test_a_probe_that_crashes_breaks_the_contracts_about_its_facts_only(tmp_path: Path) -> None:
    results = _results(tmp_path, {}, HOOKS, hooks=ValueError("boom"))
    assert _verdicts(results) == {
        "WIDTH": ("pass", ""),
        "HOOKS": ("harness-error", "the told-load probe raised ValueError: boom"),
    }


def test_a_subject_that_a_probe_refuses_is_bad_input_each_time(tmp_path: Path) -> None:
    probe = _hooks(SubjectError(Problem("tiny.yaml", "unknown architecture 'X'")))
    checker = Checker(entries(tmp_path, HOOKS), probes=(StaticProbe(), probe))
    one = subject()
    for _ in range(2):
        with pytest.raises(SubjectError, match=r"^tiny\.yaml: unknown architecture 'X'$"):
            checker.check(one)
    assert probe.runs == 1


def test_facts_that_no_probe_yields_are_an_error_of_the_harness(tmp_path: Path) -> None:
    checker = Checker(entries(tmp_path, HOOKS), probes=(StaticProbe(),))
    said = "no probe finds out about 'hooks'"
    assert checker.check(subject())[0].message == said


def test_contracts_come_by_tier_and_id_after_those_they_depend_on(tmp_path: Path) -> None:
    found = entries(
        tmp_path,
        {"id": "A", "depends": ["C"]},
        {"id": "B"},
        {"id": "C", "depends": ["D"]},
        {"id": "D"},
        {**HOOKS, "id": "AA"},
    )
    assert [e.contract.id for e in in_order(reversed(found))] == ["D", "C", "A", "B", "AA"]


@pytest.mark.parametrize(
    ("hooks", "said"),
    [
        (GONE, "blocked by HOOKS, which fails"),
        (Gap(GapKind.UNTESTABLE, "no"), "blocked by HOOKS, which is not testable"),
        (Gap(GapKind.BROKEN, "no"), "blocked by HOOKS, which could not be judged"),
    ],
)
def test_a_contract_is_blocked_by_the_root_of_what_it_depends_on(
    tmp_path: Path, hooks: Any, said: str
) -> None:
    second = {**HOOKS, "id": "SECOND", "rule": "true", "depends": ["HOOKS"]}
    third = {**HOOKS, "id": "THIRD", "rule": "true", "depends": ["SECOND"]}
    results = _results(tmp_path, HOOKS, second, third, hooks=hooks)
    assert _verdicts(results)["SECOND"] == ("blocked", said)
    assert _verdicts(results)["THIRD"] == ("blocked", said)
    assert results["THIRD"].blocked_by == "HOOKS"
    assert not results["THIRD"].is_failure


def test_a_waived_dependency_blocks_and_the_text_says_that_it_is_waived(tmp_path: Path) -> None:
    second = {**HOOKS, "id": "SECOND", "rule": "true", "depends": ["HOOKS"]}
    results = _results(tmp_path, HOOKS, second, hooks=GONE, waivers=[_waiver("HOOKS")])
    assert _verdicts(results) == {
        "HOOKS": ("waived", "no hook"),
        "SECOND": ("blocked", "blocked by HOOKS, which fails; that failure is waived"),
    }
    assert results["HOOKS"].waiver == "until 2027-06-30: known (a/b#1; me)"


def test_a_dependency_that_does_not_apply_does_not_block(tmp_path: Path) -> None:
    absent = Gap(GapKind.ABSENT, "no")
    second = {"id": "SECOND", "tier": "load", "depends": ["HOOKS"]}
    assert _results(tmp_path, HOOKS, second, hooks=absent)["SECOND"].verdict is Verdict.PASS


def test_what_does_not_apply_is_not_called_blocked(tmp_path: Path) -> None:
    second = {**HOOKS, "id": "SECOND", "applies": "!subject.has_draft", "depends": ["HOOKS"]}
    results = _results(tmp_path, HOOKS, second, hooks=GONE)
    assert results["SECOND"].verdict is Verdict.NOT_APPLICABLE


def test_the_failing_root_is_reported_although_it_was_not_selected(tmp_path: Path) -> None:
    second = {**HOOKS, "id": "SECOND", "rule": "true", "depends": ["HOOKS"]}
    found = entries(tmp_path, HOOKS, second)
    checker = Checker(found, probes=(StaticProbe(), _hooks(GONE)))
    chosen = [entry for entry in found if entry.contract.id == "SECOND"]
    verdicts = [(r.contract, r.verdict) for r in checker.check(subject(), chosen)]
    assert verdicts == [("HOOKS", Verdict.FAIL), ("SECOND", Verdict.BLOCKED)]


def test_only_contracts_of_the_selected_tiers_are_judged(tmp_path: Path) -> None:
    assert list(_results(tmp_path, {}, HOOKS, tiers=[Tier.LOAD])) == ["HOOKS"]


def test_contracts_about_sglang_do_not_apply_to_a_subject_served_by_vllm(tmp_path: Path) -> None:
    probe = _hooks(GONE)
    checker = Checker(entries(tmp_path, {}, HOOKS), probes=(StaticProbe(), probe))
    width, hooks = checker.check(subject(engine="vllm"))
    said = "served by vllm, and contracts of tier load run SGLang"
    assert (hooks.verdict, hooks.message) == (Verdict.NOT_APPLICABLE, said)
    assert width.verdict is Verdict.PASS
    assert probe.runs == 0


def test_progress_is_told_before_a_slow_probe_runs(tmp_path: Path) -> None:
    seen: list[tuple[str, Tier]] = []

    def note(name: str, tier: Tier) -> None:
        seen.append((name, tier))

    _results(tmp_path, {}, HOOKS, {**HOOKS, "id": "EMBED"}, progress=note)
    assert seen == [("tiny", Tier.LOAD)]


def test_the_line_that_reproduces_a_verdict_holds_all_that_it_depends_on(tmp_path: Path) -> None:
    contract = {**HOOKS, "tier": "engine"}
    found = entries(tmp_path, contract)
    checker = Checker(
        found,
        probes=(StaticProbe(), _hooks(GONE)),
        request=Request(device="cuda"),
        flags=["--contracts", "my contracts"],
    )
    one = subject().model_copy(update={"origin": "my subject.yaml"})
    options = subject().model_copy(update={"origin": "--target 'a b' --draft d"})
    rest = "--contract HOOKS --tier engine --device cuda --contracts 'my contracts'"
    lines = [checker.judge(found[0], chosen).reproduce for chosen in (one, options)]
    assert lines == [
        f"eagle3-contracts check 'my subject.yaml' {rest}",
        f"eagle3-contracts check --target 'a b' --draft d {rest}",
    ]


def test_a_forgotten_subject_is_probed_again(tmp_path: Path) -> None:
    probe = _hooks(THERE)
    checker = Checker(entries(tmp_path, HOOKS), probes=(StaticProbe(), probe))
    one = subject()
    checker.check(one)
    checker.forget(one)
    checker.check(one)
    assert probe.runs == 2
