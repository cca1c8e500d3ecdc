"""The wiring canary, served by the real engine on behalf of subjects of the same classes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any

from eagle3_contracts.engine_facts import CanaryFacts, accept_length
from eagle3_contracts.facts import Gap, GapKind, Tier
from eagle3_contracts.probes import Request, Yield, sglang
from eagle3_contracts.subject import ResolvedSubject

CLASSES = ("LlamaForCausalLM", "LlamaForCausalLMEagle3")
"""Classes of the canary's target and draft."""

STEPS = 3
"""Tokens drafted between two verifications."""

COUNT = 1 + 3 * (STEPS + 1)
"""Tokens of an answer: one of the prefill, and three verifications that keep every draft."""

NUM_PROMPTS = 3

_EXCEPTION = re.compile(r"^(?:\w+\.)*\w+(?:Error|Exception): .*", re.MULTILINE)

_LAUNCH = {
    "speculative_eagle_topk": 1,
    "speculative_num_steps": STEPS,
    "speculative_num_draft_tokens": STEPS + 1,
}


class CanaryProbe:
    """Starts one engine for the canary, with the subject's algorithm."""

    name = "canary"
    tier = Tier.ENGINE
    groups = ("canary",)

    def run(self, subject: ResolvedSubject, request: Request) -> Yield:
        """Return ``canary``; SubjectError for an architecture SGLang lacks."""
        gap = sglang.prerequisite(subject) or _of_other_classes(subject) or _without_numpy()
        if gap is not None:
            return {"canary": gap}
        launch = {**_LAUNCH, "speculative_algorithm": sglang.algorithm(subject)}
        served = _served(launch, request)
        if not isinstance(served, Gap):
            return {"canary": _facts(served)}
        plain = _served({}, request) if served.kind is GapKind.BROKEN else served
        return {"canary": served if isinstance(plain, Gap) else _stopped(served.reason)}


def _served(options: Mapping[str, Any], request: Request) -> dict[str, Any] | Gap:
    from eagle3_contracts.canary import prompts

    payload = {"prompts": prompts(NUM_PROMPTS), "count": COUNT, "options": options}
    return sglang.run("serve_canary", payload, request, module="engine_jobs")


def _stopped(reason: str) -> CanaryFacts:
    """Return the facts of an engine that stops with the draft and serves without it.

    The exception stands in what the engine's processes printed before SGLang ended them all.
    """
    raised = _EXCEPTION.findall(reason)
    return CanaryFacts(
        refusal=raised[-1] if raised else reason.partition("\n")[0],
        verify_steps=0,
        kept=[],
        accept_length=0.0,
        most=STEPS + 1.0,
        text_is_right=False,
        broken=[],
    )


def _of_other_classes(subject: ResolvedSubject) -> Gap | None:
    models = (subject.target, subject.draft)
    classes = [(model.config.get("architectures") or [""])[0] for model in models if model]
    if tuple(classes) == CLASSES:
        return None
    return Gap(GapKind.ABSENT, f"the canary is one of the classes {' and '.join(CLASSES)}")


def _without_numpy() -> Gap | None:
    if find_spec("numpy") is not None:
        return None
    reason = "numpy is not installed: pip install 'eagle3-contracts[weights]'"
    return Gap(GapKind.UNTESTABLE, reason)


def _facts(served: Mapping[str, Any]) -> CanaryFacts:
    from eagle3_contracts.canary import broken_parts, expected, prompts

    answers = served["answers"]
    histograms = [answer["histogram"] for answer in answers]
    longest = max(map(len, histograms))
    kept = [sum(one[at] for one in histograms if at < len(one)) for at in range(longest)]
    rule = [expected(prompt, COUNT) for prompt in prompts(NUM_PROMPTS)]
    first = ((drafted[0], target[0]) for drafted, target in served["verified"])
    return CanaryFacts(
        refusal=None,
        verify_steps=sum(answer["verifications"] for answer in answers),
        kept=kept,
        accept_length=accept_length(kept),
        most=STEPS + 1.0,
        text_is_right=[answer["tokens"] for answer in answers] == rule,
        broken=broken_parts(first),
    )
