"""Which boundary a slot of a dump is: arithmetic on numpy arrays, without any model.

The error of a row is ``|s - b| / |b|`` (Euclidean norms over the hidden size): free of the
model's scale, but not blind to it, so a state that was multiplied by a constant is no match. The
error of a slot is the median over its rows. A mean would be decided by the first token alone,
whose state is a thousand times larger than the others in many models and hardly changes between
layers.

Boundary k is the residual stream after k decoder layers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from eagle3_contracts.features.match import Candidate, Fit, Match

Array = npt.NDArray[np.float32]
Candidates = Mapping[Candidate, Array]
"""What a slot may be: the states of every candidate, [T, H]."""

TOLERANCE = {"float32": 1e-3, "float16": 5e-3, "bfloat16": 3e-2}
"""Error up to which states of this dtype are those of one model, run by two sets of kernels."""

CLEAR = 3.0
"""How many times farther than the best the second best has to be."""

NEAR = 0.3
"""Error up to which the nearest boundary is worth a name, whatever the dtype."""

_OFFSETS = (0, 1, -1)
_ROUNDING = 1e-6
_TAIL = 0.8
"""Share of misfits among the rows from the first one on that makes them a tail."""


def identify(slot: Array, candidates: Candidates, tolerance: float) -> Match:
    """Return which of the candidates ``slot`` [T, H] is, row by row of one sequence.

    ValueError when a candidate has another shape. Rows that are not finite fit nothing.
    """
    plain = {c: _row_errors(slot, states) for c, states in candidates.items()}
    match = _best(plain, 0)
    if match.error <= tolerance and not _is_clear(match):
        return replace(match, fit=Fit.UNCLEAR)
    if match.error > tolerance and (multiple := _scaled(slot, candidates, tolerance)):
        return multiple
    if match.error <= NEAR and _is_clear(match):
        return _row_by_row(match, slot, candidates, plain, tolerance)
    return _moved(slot, candidates, tolerance) or match


def _row_errors(slot: Array, states: Array, offset: int = 0) -> Array:
    """Return |s - b| / |b| of every row [T]; NaN where the offset leaves no row to compare."""
    if slot.shape != states.shape:
        raise ValueError(f"a slot {slot.shape} cannot be a state {states.shape}")
    errors = np.full(len(slot), np.nan, np.float32)
    rows = slice(max(0, -offset), len(slot) - max(0, offset))
    wanted = states[rows.start + offset : rows.stop + offset]
    with np.errstate(invalid="ignore", over="ignore"):
        distance = np.linalg.norm(slot[rows] - wanted, axis=1)
        relative = distance / np.maximum(np.linalg.norm(wanted, axis=1), 1e-30)
    errors[rows] = np.where(np.isfinite(relative), np.minimum(relative, 1e30), 1e30)
    return errors


def _best(errors: Mapping[Candidate, Array], offset: int) -> Match:
    """Return the candidate of the smallest median, as no match yet, with the second best."""
    medians = sorted((_median(rows), candidate) for candidate, rows in errors.items())
    (error, best), *others = medians
    second_error, second = others[0] if others else (1e30, None)
    return Match(Fit.NONE, best, error, second, second_error, offset=offset)


def _median(rows: Array) -> float:
    there = rows[~np.isnan(rows)]
    return float(np.median(there)) if len(there) else 1e30


def _is_clear(match: Match) -> bool:
    return match.second_error >= CLEAR * max(match.error, _ROUNDING)


def _row_by_row(
    match: Match,
    slot: Array,
    candidates: Candidates,
    plain: Mapping[Candidate, Array],
    tolerance: float,
) -> Match:
    """Look whether every row fits the boundary that most rows are."""
    misfit = _misfits(match.best, plain, tolerance)
    if not misfit.any():
        return replace(match, fit=Fit.SAME if match.error <= tolerance else Fit.NEAR)
    start, count = int(np.argmax(misfit)), int(misfit.sum())
    offset = _offset_of(slot, candidates[match.best], slice(start, None), tolerance)
    is_tail = offset != 0 or misfit[start:].mean() >= _TAIL
    fit = Fit.CUT if is_tail else Fit.ROWS
    return replace(match, fit=fit, start=start, misfits=count, offset=offset)


def _misfits(best: Candidate, errors: Mapping[Candidate, Array], tolerance: float) -> Array:
    """Return which rows are neither within the tolerance nor clearly nearest to ``best``."""
    others = [rows for candidate, rows in errors.items() if candidate != best]
    second = np.min(others, axis=0) if others else np.full_like(errors[best], 1e30)
    own = errors[best]
    misfit: Array = (own > tolerance) & ((second < CLEAR * own) | (own > NEAR))
    return misfit


def _offset_of(slot: Array, states: Array, rows: slice, tolerance: float) -> int:
    """Return by how many tokens ``rows`` are late, 1 or -1; 0: by none, they fit nothing."""
    for offset in _OFFSETS[1:]:
        if _median(_row_errors(slot, states, offset)[rows]) <= tolerance:
            return offset
    return 0


def _moved(slot: Array, candidates: Candidates, tolerance: float) -> Match | None:
    """Return a match of rows that are another token's, or that fit at the start alone."""
    for offset in _OFFSETS[1:]:
        errors = {c: _row_errors(slot, states, offset) for c, states in candidates.items()}
        match = _best(errors, offset)
        if match.error <= tolerance and _is_clear(match):
            return _since_when(match, slot, candidates[match.best], errors[match.best], tolerance)
    return _fits_at_first(slot, candidates, tolerance)


def _since_when(match: Match, slot: Array, states: Array, moved: Array, tolerance: float) -> Match:
    """Tell rows that are all another token's from those that are so from one token on."""
    if (moved[~np.isnan(moved)] <= tolerance).all():
        return replace(match, fit=Fit.SHIFTED)
    misfit = ~(_row_errors(slot, states) <= tolerance)
    start, count = int(np.argmax(misfit)), int(misfit.sum())
    return replace(match, fit=Fit.CUT, start=start, misfits=count)


def _fits_at_first(slot: Array, candidates: Candidates, tolerance: float) -> Match | None:
    """Return the boundary that the first rows are, of a slot whose other rows fit nothing.

    One row proves nothing: every text that starts with the same token has it.
    """
    lengths = {}
    for candidate, states in candidates.items():
        misfit = ~(_row_errors(slot, states) <= tolerance)
        lengths[candidate] = int(np.argmax(misfit)) if misfit.any() else len(slot)
    best = max(lengths, key=lambda candidate: lengths[candidate])
    start = lengths[best]
    if start < 2:
        return None
    head = {c: _row_errors(slot[:start], states[:start]) for c, states in candidates.items()}
    match = _best(head, 0)
    return replace(match, fit=Fit.CUT, start=start, misfits=len(slot) - start)


def _scaled(slot: Array, candidates: Candidates, tolerance: float) -> Match | None:
    """Return the boundary that the slot is a multiple of."""
    factors = {c: _factor(slot, states) for c, states in candidates.items()}
    errors = {
        c: _row_errors(slot, (factors[c] * states).astype(np.float32))
        for c, states in candidates.items()
    }
    match = _best(errors, 0)
    if match.error > tolerance or not _is_clear(match):
        return None
    return replace(match, fit=Fit.SCALED, factor=factors[match.best])


def _factor(slot: Array, states: Array) -> float:
    """Return the median over rows of the least-squares factor <s, b> / <b, b>."""
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
        rows = (slot * states).sum(1) / np.maximum((states * states).sum(1), 1e-30)
    rows = rows[np.isfinite(rows)]
    return float(np.median(rows)) if len(rows) else 0.0
