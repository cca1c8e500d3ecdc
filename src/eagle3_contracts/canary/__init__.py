"""The wiring canary: a target and an EAGLE-3 draft whose weights are chosen by hand.

Wired rightly, the draft foretells every token of its target. Each digit of the token that it
drafts reaches it by a road of its own, so the digits that are wrong name the road that is broken.
"""

from eagle3_contracts.canary.diagnosis import broken_parts
from eagle3_contracts.canary.files import Canary, write_canary
from eagle3_contracts.canary.tokens import BOUNDARIES, DIGITS, Reading, expected, prompts, read

__all__ = [
    "BOUNDARIES",
    "DIGITS",
    "Canary",
    "Reading",
    "broken_parts",
    "expected",
    "prompts",
    "read",
    "write_canary",
]
