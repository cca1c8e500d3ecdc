"""What was found out about a slot, as a sentence for a person who knows the tool, not the code."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from eagle3_contracts.features.match import Candidate, Fit, Match


def place(candidate: Candidate) -> str:
    """Return a state's name: by its layer, and by its boundary."""
    name = f"the output of layer {candidate.k - 1}" if candidate.k else "the embedding"
    after = " after the final norm" if candidate.normed else ""
    return f"{name}{after} (boundary {candidate.k})"


def say(match: Match) -> str:
    """Return what a slot is, a predicate that starts with "is"."""
    return _SAYS[match.fit](match)


def measured(match: Match) -> str:
    """Return the error, and how far the second best is."""
    if match.second is None:
        return f"error {match.error:.2g}"
    after = " after the final norm" if match.second.normed else ""
    second = f"second best boundary {match.second.k}{after}, {match.second_error:.2g} away"
    return f"error {match.error:.2g}; {second}"


def _same(match: Match) -> str:
    return f"is {place(match.best)}"


def _near(match: Match) -> str:
    why = "other precision, quantized weights, or another revision of the target"
    return f"is nearest to {place(match.best)}, with more error than its dtype explains: {why}"


def _unclear(match: Match) -> str:
    other = "" if match.second is None else f" or {place(match.second)}"
    return f"is {place(match.best)}{other}: the two are too much alike to tell"


def _shifted(match: Match) -> str:
    return f"is {place(match.best)}, of {_token(match.offset)} in every row"


def _cut(match: Match) -> str:
    here = f"is {place(match.best)} up to token {match.start}, and from there on"
    if match.offset:
        change = "left out" if match.offset > 0 else "put in"
        return f"{here} of {_token(match.offset)}: a row was {change}"
    return f"{here} nothing that the target computes: other tokens were extracted than are stored"


def _rows(match: Match) -> str:
    rows = "1 row" if match.misfits == 1 else f"{match.misfits} rows"
    return f"is {place(match.best)}, but for {rows} of nothing known, first token {match.start}"


def _scaled(match: Match) -> str:
    return f"is {place(match.best)} times {match.factor:.4g}"


def _none(_: Match) -> str:
    why = "other weights, other tokens, or damaged"
    return f"is no boundary of this target on these tokens: {why}"


def _token(offset: int) -> str:
    return "the next token" if offset > 0 else "the token before"


_SAYS: Mapping[Fit, Callable[[Match], str]] = {
    Fit.SAME: _same,
    Fit.NEAR: _near,
    Fit.UNCLEAR: _unclear,
    Fit.SHIFTED: _shifted,
    Fit.CUT: _cut,
    Fit.ROWS: _rows,
    Fit.SCALED: _scaled,
    Fit.NONE: _none,
}
