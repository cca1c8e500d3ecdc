"""Facts of the engine tier: what a server gives out with the draft, and without it."""

from __future__ import annotations

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
