"""What the target's class makes of layer ids that this draft does not ask for."""

from __future__ import annotations

from typing import Any

from eagle3_contracts.facts import Gap, GapKind, Record, Tier, from_json
from eagle3_contracts.modelconfig import language_model
from eagle3_contracts.probes import Request, Yield, sglang
from eagle3_contracts.subject import ResolvedSubject

MIN_LAYERS = 8
"""Layers of the smallest target whose ordinary ids are all different."""


class QuestionProbe:
    """Asks the real class, on the twin of the subject's target."""

    name = "questions"
    tier = Tier.MODEL
    groups = ("reading", "dflash", "steps", "lending")

    def run(self, subject: ResolvedSubject, request: Request) -> Yield:
        """Return the groups of class_facts; SubjectError for an architecture SGLang lacks."""
        gap = sglang.prerequisite(subject) or _unasked(subject)
        if gap is not None:
            return dict.fromkeys(self.groups, gap)
        assert subject.target is not None
        assert subject.draft is not None
        payload = {
            "target": subject.target.config,
            "draft": subject.draft.config,
            "algorithm": "EAGLE3",
        }
        answer = sglang.run("ask_ids", payload, request, module="questions")
        if isinstance(answer, Gap):
            return dict.fromkeys(self.groups, answer)
        return {group: _record(group, answer[group]) for group in self.groups}


def _record(group: str, answer: dict[str, Any]) -> Record | Gap:
    if "absent" in answer:
        return Gap(GapKind.ABSENT, answer["absent"])
    return from_json(group, answer)


def _unasked(subject: ResolvedSubject) -> Gap | None:
    name = sglang.algorithm(subject)
    if name != "EAGLE3":
        return Gap(GapKind.ABSENT, f"{name} configures no capture by layer ids of EAGLE-3")
    assert subject.target is not None
    layers = language_model(subject.target.config)[0].get("num_hidden_layers")
    if isinstance(layers, int) and layers < MIN_LAYERS:
        return Gap(GapKind.ABSENT, f"{layers} layers are too few to tell ids apart")
    return None
