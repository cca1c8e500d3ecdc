"""The load tier: the real classes at their real size, filled from safetensors headers."""

from __future__ import annotations

from eagle3_contracts.facts import Gap, GapKind, Record, Tier, from_json
from eagle3_contracts.probes import Request, Yield, sglang
from eagle3_contracts.probes.static import environment
from eagle3_contracts.subject import ResolvedSubject


class LoadProbe:
    """Asks SGLang's registry and the draft's real loader; reads no weights."""

    name = "load"
    tier = Tier.LOAD
    groups = ("hooks", "parser", "load")

    def run(self, subject: ResolvedSubject, request: Request) -> Yield:
        """Return the three groups; SubjectError for an architecture SGLang lacks."""
        gap = sglang.prerequisite(subject)
        if gap is not None:
            return dict.fromkeys(self.groups, gap)
        return {
            "hooks": _hooks(subject, request),
            "parser": _parser(subject, request),
            "load": _load(subject, request),
        }


def _hooks(subject: ResolvedSubject, request: Request) -> Record | Gap:
    assert subject.target is not None
    names = {"architectures": subject.target.config["architectures"]}
    answer = sglang.run_once("find_hooks", {"target": names}, request)
    return answer if isinstance(answer, Gap) else from_json("hooks", answer)


def _parser(subject: ResolvedSubject, request: Request) -> Record | Gap:
    launch, installed = subject.launch, environment(request.device).sglang
    if launch is None:
        return Gap(GapKind.ABSENT, "the subject names no launch")
    if launch.sglang not in (None, installed):
        text = f"the flags are meant for SGLang {launch.sglang}, and {installed} is installed"
        return Gap(GapKind.ABSENT, text)
    answer = sglang.run_once("parse_flags", {"args": launch.args}, request)
    return answer if isinstance(answer, Gap) else from_json("parser", answer)


def _load(subject: ResolvedSubject, request: Request) -> Record | Gap:
    assert subject.target is not None
    assert subject.draft is not None
    tensors = subject.draft.tensors
    if tensors is None:
        return Gap(GapKind.ABSENT, "nothing is known of the draft's tensors")
    payload = {
        "target": subject.target.config,
        "draft": subject.draft.config,
        "tensors": {name: [tensor.dtype, list(tensor.shape)] for name, tensor in tensors.items()},
        "algorithm": sglang.algorithm(subject),
    }
    answer = sglang.run("load_draft", payload, request)
    return answer if isinstance(answer, Gap) else from_json("load", answer)
