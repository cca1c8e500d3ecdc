"""The memory canary: a draft fitted to the trained boundaries of the twin, served with it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from eagle3_contracts.engine_facts import MemoryFacts, accept_length
from eagle3_contracts.facts import Gap, GapKind, Tier
from eagle3_contracts.probes import Request, Yield, sglang, static
from eagle3_contracts.probes.model import other_algorithm
from eagle3_contracts.subject import ResolvedSubject

_MOST = 2.0
"""One token is drafted between two verifications."""


class MemoryProbe:
    """Extracts in one process, and serves in another."""

    name = "memory"
    tier = Tier.ENGINE
    groups = ("memory",)

    def run(self, subject: ResolvedSubject, request: Request) -> Yield:
        """Return ``memory``; SubjectError for an architecture SGLang lacks."""
        gap = sglang.prerequisite(subject) or other_algorithm(subject)
        if gap is not None:
            return {"memory": gap}
        trained = static.trained_boundaries(subject)
        if trained is None:
            return {"memory": Gap(GapKind.ABSENT, "nobody wrote down the trained boundaries")}
        if len(trained) == 1:  # as wide as the embedding, a state passes by the fc
            return {"memory": Gap(GapKind.ABSENT, "one state alone goes through no fc")}
        return {"memory": _remembering(subject, trained, request)}


def _remembering(
    subject: ResolvedSubject, trained: list[int], request: Request
) -> MemoryFacts | Gap:
    assert subject.target is not None
    assert subject.draft is not None
    payload = {
        "target": subject.target.config,
        "draft": subject.draft.config,
        "algorithm": sglang.algorithm(subject),
        "boundaries": trained,
    }
    # A fault of the served classes is none of the extraction.
    learnt = sglang.run("remember", payload, replace(request, fault=None), module="memory")
    if isinstance(learnt, Gap):
        return learnt
    if "absent" in learnt:
        return Gap(GapKind.ABSENT, learnt["absent"])
    served = sglang.run("serve", {**payload, "remembered": learnt}, request, module="memory")
    return served if isinstance(served, Gap) else _facts(learnt, served)


def _facts(learnt: Mapping[str, Any], served: Mapping[str, Any]) -> MemoryFacts:
    kept = served.get("kept", [])
    return MemoryFacts(
        refusal=served.get("refusal"),
        source=learnt["source"],
        verify_steps=sum(kept),
        kept=kept,
        accept_length=accept_length(kept),
        most=_MOST,
        drafts=served.get("drafts", 0),
        right=served.get("right", 0),
        wrong=served.get("wrong", []),
        same_text=served.get("outputs") == learnt["outputs"],
    )
