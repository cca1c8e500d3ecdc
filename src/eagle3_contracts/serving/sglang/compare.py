"""Which boundary a captured state is: the arithmetic, with its tolerances in one table."""

from __future__ import annotations

import math

import torch

from eagle3_contracts.serving.sglang.capture import Recording

SAME = {torch.float32: 1e-5, torch.float16: 2e-3, torch.bfloat16: 1.6e-2}
"""Relative error up to which two readings of one SGLang forward are equal."""

REFERENCE = {torch.float32: 1e-3, torch.float16: 3e-2, torch.bfloat16: 1e-1}
"""Relative error up to which SGLang and transformers, with other kernels, are equal."""


INCOMPARABLE = 1e30
"""Error of states that cannot be compared; unlike infinity, it is a number in JSON."""


def error_between(state: torch.Tensor, boundary: torch.Tensor) -> float:
    """Return the largest difference as a fraction of the boundary's largest absolute value.

    INCOMPARABLE when the shapes differ or a value is not finite.
    """
    if state.shape != boundary.shape:
        return INCOMPARABLE
    difference = (state.float().cpu() - boundary.float().cpu()).abs().max().item()
    scale = boundary.float().abs().max().item()
    error = difference / scale if scale else difference
    return error if math.isfinite(error) else INCOMPARABLE


class Comparison:
    """The captured states of one recording against its boundaries."""

    def __init__(self, record: Recording, dtype: torch.dtype) -> None:
        self.tolerance = SAME[dtype]
        self.reference_tolerance = REFERENCE[dtype]
        ranked = [_ranked(state, record.boundaries) for state in record.aux or ()]
        self.nearest = [order[0][1] for order in ranked if order]
        """Nearest boundary of each state, in the order of arrival."""
        self.error = max((order[0][0] for order in ranked if order), default=0.0)
        """Largest error of a state against its nearest boundary."""
        self.runner_up = min((order[1][0] for order in ranked if len(order) > 1), default=0.0)
        """Smallest error of a state against any other boundary."""
        self.exact = bool(ranked) and self.error <= self.tolerance
        """Every state equals its boundary."""


def _ranked(state: torch.Tensor, boundaries: dict[int, torch.Tensor]) -> list[tuple[float, int]]:
    return sorted((error_between(state, values), k) for k, values in boundaries.items())
