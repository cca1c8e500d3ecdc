"""What was found out about one slot of a dump in one sample; plain data, to and from JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any


@dataclass(frozen=True, slots=True, order=True)
class Candidate:
    """A state that a slot may be: boundary ``k``, as it is or after the final norm."""

    k: int
    normed: bool = False


class Fit(StrEnum):
    """How the rows of a slot go together with a boundary."""

    SAME = "same"  # all rows are the boundary's, within the tolerance of the dtype
    NEAR = "near"  # nearer to it than to any other, with an error that the dtype does not explain
    UNCLEAR = "unclear"  # two boundaries are too much alike to tell them apart
    SHIFTED = "shifted"  # row t is the boundary's row t + offset
    CUT = "cut"  # the rows from token ``start`` on are another token's, or of nothing known
    ROWS = "rows"  # single rows are of nothing known
    SCALED = "scaled"  # the boundary, multiplied by ``factor``
    NONE = "none"  # no boundary of this target on these tokens


class Trouble(StrEnum):
    """What is wrong with a slot, one word for programs; a sentence says the same."""

    OFF_BY_ONE = "off-by-one"  # the boundary beside the one that SGLang will capture
    OTHER_LAYER = "other-layer"
    REORDERED = "reordered"  # what SGLang will capture, in another order
    REPEATED = "repeated"  # the state of an earlier slot once more
    NORMED = "normed"  # after the final norm; SGLang captures before it
    NEXT_TOKEN = "next-token"  # every row is that of a neighbouring token
    ROW_LEFT_OUT = "row-left-out"
    ROW_PUT_IN = "row-put-in"
    OTHER_TOKENS = "other-tokens"  # the target was run on other tokens from some token on
    SPOILT_ROWS = "spoilt-rows"
    SCALED = "scaled"
    FOREIGN = "foreign"  # no state of this target on these tokens
    IMPRECISE = "imprecise"
    ALIKE = "alike"


@dataclass(frozen=True, slots=True)
class Match:
    """The best boundary of a slot, and how far it is from the second best.

    ``error`` is the median over rows of |s - b| / |b|, ``second_error`` that of the second best
    boundary. ``offset`` is the number of tokens that rows are late (+1: row t is of token t + 1),
    ``start`` the first row that does not fit, ``misfits`` the number of such rows, ``factor`` what
    the boundary was multiplied by. Without a fit, ``best`` is merely the nearest.
    """

    fit: Fit
    best: Candidate
    error: float
    second: Candidate | None = None
    second_error: float = 0.0
    offset: int = 0
    start: int | None = None
    misfits: int = 0
    factor: float = 1.0

    @property
    def margin(self) -> float:
        """How many times farther the second best is; at most a million."""
        return min(self.second_error / max(self.error, 1e-12), 1e6)

    @property
    def trouble(self) -> Trouble | None:
        """What is wrong with the rows, whatever the boundary should be."""
        if self.fit is not Fit.CUT or not self.offset:
            return _TROUBLES.get(self.fit)
        return Trouble.ROW_LEFT_OUT if self.offset > 0 else Trouble.ROW_PUT_IN

    def as_json(self) -> dict[str, Any]:
        """Return the match as a JSON object."""
        return asdict(self)


_TROUBLES = {
    Fit.NEAR: Trouble.IMPRECISE,
    Fit.UNCLEAR: Trouble.ALIKE,
    Fit.SHIFTED: Trouble.NEXT_TOKEN,
    Fit.CUT: Trouble.OTHER_TOKENS,
    Fit.ROWS: Trouble.SPOILT_ROWS,
    Fit.SCALED: Trouble.SCALED,
    Fit.NONE: Trouble.FOREIGN,
}


def match_from_json(data: Mapping[str, Any]) -> Match:
    """Return the match that ``as_json`` turned into ``data``."""
    second = data["second"] and Candidate(**data["second"])
    best = Candidate(**data["best"])
    return Match(**{**data, "fit": Fit(data["fit"]), "best": best, "second": second})
