"""The engine tier: the twins served by SGLang's real Scheduler, with the draft and without it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from eagle3_contracts.engine_facts import EngineFacts, accept_length
from eagle3_contracts.facts import Gap, Tier
from eagle3_contracts.probes import Request, Yield, sglang
from eagle3_contracts.probes.model import other_algorithm
from eagle3_contracts.subject import ResolvedSubject


class EngineProbe:
    """Serves three requests twice; each time in a process of its own."""

    name = "engine"
    tier = Tier.ENGINE
    groups = ("engine",)

    def run(self, subject: ResolvedSubject, request: Request) -> Yield:
        """Return ``engine``; SubjectError for an architecture SGLang lacks."""
        gap = sglang.prerequisite(subject) or other_algorithm(subject)
        if gap is not None:
            return {"engine": gap}
        plain = _served(subject, request, None)
        if isinstance(plain, Gap):
            return {"engine": plain}
        algorithm = sglang.algorithm(subject)
        drafted = _served(subject, request, algorithm)
        if isinstance(drafted, Gap):
            return {"engine": drafted}
        return {"engine": _facts(algorithm, plain["outputs"], drafted)}


def _served(
    subject: ResolvedSubject, request: Request, algorithm: str | None
) -> dict[str, Any] | Gap:
    assert subject.target is not None
    assert subject.draft is not None
    payload = {
        "target": subject.target.config,
        "draft": subject.draft.config,
        "algorithm": algorithm,
    }
    return sglang.run("serve_twins", payload, request, module="scheduler")


def _facts(algorithm: str, plain: list[list[int]], drafted: dict[str, Any]) -> EngineFacts:
    kept = drafted.get("kept", [])
    difference = first_difference(plain, drafted.get("outputs", []))
    return EngineFacts(
        algorithm=algorithm,
        refusal=drafted.get("refused"),
        requests=len(plain),
        verify_steps=sum(kept),
        kept=kept,
        accept_length=accept_length(kept),
        equal=difference is None,
        difference=difference,
    )


def first_difference(plain: Sequence[list[int]], drafted: Sequence[list[int]]) -> str | None:
    """Say which token is the first that differs; None: all requests got the same token ids."""
    if len(plain) != len(drafted):
        return f"{len(drafted)} of {len(plain)} requests were served"
    for number, (ours, theirs) in enumerate(zip(plain, drafted, strict=True), 1):
        for at, (one, other) in enumerate(zip(ours, theirs, strict=False)):
            if one != other:
                return f"token {at + 1} of request {number} is {other}, and {one} without a draft"
        if len(ours) != len(theirs):
            return f"request {number} got {len(theirs)} tokens, and {len(ours)} without a draft"
    return None
