"""Answers that subjects have in common are asked for once, and never in place of another one."""

from __future__ import annotations

from dataclasses import replace
from time import perf_counter

from eagle3_contracts.facts import Gap
from eagle3_contracts.probes import Request, sglang

LLAMA = {"target": {"architectures": ["LlamaForCausalLM"]}}


def test_an_answer_is_kept_for_its_payload_and_its_request() -> None:
    try:
        first = sglang.run_once("find_hooks", LLAMA, Request())
        started = perf_counter()
        again = sglang.run_once("find_hooks", LLAMA, Request())
        seconds = perf_counter() - started
        broken = sglang.run_once("find_hooks", LLAMA, replace(Request(), fault="hook-missing"))
        late = sglang.run_once("parse_flags", {"args": ""}, Request(timeout=0.001))
        in_time = sglang.run_once("parse_flags", {"args": ""}, Request())
    finally:
        sglang.close()
    assert first == again
    assert seconds < 0.005
    assert not isinstance(first, Gap)
    assert not isinstance(broken, Gap)
    assert (first["sets_capture"], broken["sets_capture"]) == (True, False)
    assert isinstance(late, Gap)
    assert in_time == {"refusal": None}
