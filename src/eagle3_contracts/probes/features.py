"""What the slots of a dump are: the job of SGLang that says it, and the samples it is about."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from eagle3_contracts.errors import OptionError, Problem
from eagle3_contracts.facts import Gap
from eagle3_contracts.features.dump import Damage, Dump
from eagle3_contracts.features.match import Match, match_from_json
from eagle3_contracts.probes import Request, sglang
from eagle3_contracts.subject import ResolvedSubject

_JOBS = "eagle3_contracts.serving.features.jobs"


@dataclass(frozen=True, slots=True)
class Identified:
    """The slots of the samples that could be used, and the samples that could not.

    ``samples`` holds, for every sample, the matches of its slots and of the last state, if any.
    """

    target_class: str
    num_layers: int
    samples: dict[str, tuple[tuple[Match, ...], Match | None]]
    damaged: tuple[Damage, ...]


def identify(
    dump: Dump, files: tuple[Path, ...], subject: ResolvedSubject, tokens: int, request: Request
) -> Identified | Gap:
    """Identify the slots of ``files``, up to ``tokens`` tokens of each.

    Raises OptionError for a target whose weights are not in a local directory.
    """
    target = subject.target
    if target is None or target.path is None:
        text = "the target must be a local directory with its weights, which compute the boundaries"
        raise OptionError(Problem("--target", text))
    if gap := sglang.prerequisite(subject, ["target"]):
        return gap
    payload = {
        "target": str(target.path.resolve()),
        "config": target.config,
        "layout": str(dump.layout),
        "samples": {dump.name(file): str(file.resolve()) for file in files},
        "tokens": tokens,
    }
    answer = sglang.run("identify_slots", payload, request, module=_JOBS)
    if isinstance(answer, Gap):
        return answer
    return Identified(
        target_class=answer["target_class"],
        num_layers=answer["num_layers"],
        samples={
            sample["sample"]: (
                tuple(match_from_json(slot) for slot in sample["slots"]),
                sample["last"] and match_from_json(sample["last"]),
            )
            for sample in answer["samples"]
        },
        damaged=tuple(Damage(**damage) for damage in answer["damaged"]),
    )
