"""Facts of the engine tier: what a server gives out with the draft, and without it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated


@dataclass(frozen=True, slots=True)
class EngineFacts:
    """The twins of target and draft, served greedily by SGLang's real Scheduler.

    The twin of the draft has random weights: it drafts in earnest and is hardly ever right.
    """

    algorithm: Annotated[str, "speculative algorithm that was served"]
    refusal: Annotated[str | None, "the exception with which the server stopped"]
    requests: Annotated[int, "requests served at once"]
    verify_steps: Annotated[int, "times that the target verified drafts"]
    kept: Annotated[list[int], "verify steps in which 0, 1, ... drafts were kept"]
    accept_length: Annotated[
        float, "tokens of a verify step, the target's own one included; 0: there was no step"
    ]
    equal: Annotated[bool, "every request got the token ids that it gets without a draft"]
    difference: Annotated[str | None, "the first token that differs; null: none does"]


@dataclass(frozen=True, slots=True)
class CanaryFacts:
    """The wiring canary, served by SGLang's real Engine: each drafted token is right, or says why.

    Its weights are chosen by hand. Wired rightly, its draft foretells every token of its target.
    """

    refusal: Annotated[str | None, "the exception with which the engine stopped; null: it served"]
    verify_steps: Annotated[int, "times that the target verified drafts"]
    kept: Annotated[list[int], "verify steps in which 0, 1, ... drafts were kept"]
    accept_length: Annotated[
        float, "tokens of a verify step, the target's own one included; 0: there was no step"
    ]
    most: Annotated[float, "accept length when everything is wired rightly"]
    text_is_right: Annotated[bool, "the target gave out the tokens that its weights are made for"]
    broken: Annotated[list[str], "roads to the draft whose digit of a drafted token is wrong"]


@dataclass(frozen=True, slots=True)
class MemoryFacts:
    """The memory canary: a draft that knows the twin's answers by heart, served with the twin.

    It was fitted to the states of the trained boundaries, extracted without SGLang's capture.
    """

    refusal: Annotated[str | None, "the exception with which the server stopped; null: it served"]
    source: Annotated[str, "class that computed the states the draft was fitted to"]
    verify_steps: Annotated[int, "times that the target verified a drafted token"]
    kept: Annotated[list[int], "verify steps in which 0 or 1 drafts were kept"]
    accept_length: Annotated[
        float, "tokens of a verify step, the target's own one included; 0: there was no step"
    ]
    most: Annotated[float, "accept length when all that is drafted is right"]
    drafts: Annotated[int, "drafted tokens that were looked at"]
    right: Annotated[int, "drafted tokens that the target says as well"]
    wrong: Annotated[list[str], "states whose digit of a drafted token is wrong"]
    same_text: Annotated[bool, "the twin's answers are those that the draft was fitted to"]


def accept_length(kept: Sequence[int]) -> float:
    """Return the mean of tokens that a verify step gives, from how many kept 0, 1, ... drafts.

    From the histogram: SGLang's own spec_accept_length counts the prefill's token as well.
    """
    steps = sum(kept)
    return sum((at + 1) * n for at, n in enumerate(kept)) / steps if steps else 0.0
