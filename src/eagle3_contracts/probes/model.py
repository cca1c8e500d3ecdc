"""The model tier: the twins of target and draft, run once through SGLang's real ModelRunner."""

from __future__ import annotations

from typing import Any

from eagle3_contracts.facts import Gap, GapKind, Tier, from_json
from eagle3_contracts.probes import Request, Yield, sglang
from eagle3_contracts.subject import ResolvedSubject

_EAGLE = {"EAGLE3", "EAGLE"}


class ModelProbe:
    """Runs an extend and a decode, and hands the captured states to the draft."""

    name = "model"
    tier = Tier.MODEL
    groups = ("capture", "fusion")

    def run(self, subject: ResolvedSubject, request: Request) -> Yield:
        """Return ``capture`` and ``fusion``; SubjectError for an architecture SGLang lacks."""
        gap = sglang.prerequisite(subject) or other_algorithm(subject)
        if gap is not None:
            return {"capture": gap, "fusion": gap}
        assert subject.target is not None
        assert subject.draft is not None
        payload = {
            "target": subject.target.config,
            "draft": subject.draft.config,
            "algorithm": sglang.algorithm(subject),
        }
        answer = sglang.run("run_twin", payload, request)
        if isinstance(answer, Gap):
            return {"capture": answer, "fusion": answer}
        if "refused" in answer:
            return _refused(answer, payload, request)
        return {group: _record(group, answer[group]) for group in self.groups}


def other_algorithm(subject: ResolvedSubject) -> Gap | None:
    """Return why nothing is captured for an EAGLE-3 draft; None: something is."""
    name = sglang.algorithm(subject)
    if name in _EAGLE:
        return None
    return Gap(GapKind.ABSENT, f"{name} captures nothing for an EAGLE-3 draft")


def _refused(answer: dict[str, Any], payload: dict[str, Any], request: Request) -> Yield:
    """Tell a class that refuses to capture from one that this platform cannot run at all."""
    plain = sglang.run("run_plain", payload, request)
    if isinstance(plain, Gap):
        return {"capture": plain, "fusion": plain}
    nothing = Gap(GapKind.ABSENT, f"the target refused to capture: {answer['refused']}")
    return {"capture": from_json("capture", answer["capture"]), "fusion": nothing}


def _record(group: str, answer: dict[str, Any]) -> Any:
    if "unavailable" in answer:
        return Gap(GapKind.UNTESTABLE, answer["unavailable"])
    return from_json(group, answer)
