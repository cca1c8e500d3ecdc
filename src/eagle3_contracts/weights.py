"""Weights, on request: what a tensor's values say without looking at what they mean.

Every tensor is read once, memory-mapped, in pieces of bounded size, as the integers that its bits
are: whether all values are finite and whether they are all the same can be seen there, faster
than a disk delivers them. Mean and deviation come from values spread evenly over the tensor.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from eagle3_contracts.checkpoint import Place

_PIECE = 8 * 2**20
"""Elements that are looked at together."""

_SAMPLE = 2**18
"""Elements that mean and deviation are computed of, at the most: good for half a percent."""


class _Kind(NamedTuple):
    stored: type[np.unsignedinteger[Any]]
    not_finite: int
    """The smallest pattern without a sign that is infinite or not a number."""
    decode: Callable[[NDArray[Any]], NDArray[Any]]


@dataclass(frozen=True, slots=True)
class Statistics:
    """Values of one tensor; moments are of the finite ones and not a number without any."""

    count: int
    not_finite: int
    constant: float | None
    """The value that all elements have; None: they differ, or there are none."""
    mean: float
    deviation: float


def is_readable(dtype: str) -> bool:
    """Return whether values of ``dtype`` can be looked at; packed ones cannot."""
    return dtype in _KINDS


def read_statistics(place: Place, dtype: str) -> Statistics:
    """Return the statistics of the tensor at ``place``; KeyError for an unreadable dtype."""
    kind = _KINDS[dtype]
    count = (place.end - place.begin) // np.dtype(kind.stored).itemsize
    if count == 0:
        return Statistics(0, 0, None, math.nan, math.nan)
    bits = np.memmap(place.file, kind.stored, "r", place.begin, (count,))
    pieces = [bits[start : start + _PIECE] for start in range(0, count, _PIECE)]
    not_finite = sum(_count_not_finite(piece, kind) for piece in pieces)
    is_constant = all(piece.min() == bits[0] == piece.max() for piece in pieces)
    with np.errstate(invalid="ignore"):  # not a number may be a signalling one
        sample = kind.decode(bits[:: max(1, count // _SAMPLE)]).astype(np.float64)
    sample = sample[np.isfinite(sample)]
    mean, deviation = (sample.mean(), sample.std()) if len(sample) else (math.nan, math.nan)
    constant = float(sample[0]) if is_constant and len(sample) else None
    return Statistics(count, not_finite, constant, float(mean), float(deviation))


def _count_not_finite(bits: NDArray[Any], kind: _Kind) -> int:
    size = bits.dtype.itemsize * 8
    magnitude = bits & kind.stored((1 << (size - 1)) - 1)
    if magnitude.max() < kind.not_finite:
        return 0
    return int((magnitude >= kind.not_finite).sum())


def _from_bf16(bits: NDArray[Any]) -> NDArray[Any]:
    return (bits.astype(np.uint32) << 16).view(np.float32)


def _from_e5m2(bits: NDArray[Any]) -> NDArray[Any]:
    """E5M2 is the upper half of a half-precision number."""
    return (bits.astype(np.uint16) << 8).view(np.float16)


def _from_e4m3(bits: NDArray[Any]) -> NDArray[Any]:
    """E4M3 without infinities: bias 7, all ones is not a number (OCP 8-bit floating point)."""
    whole = bits.astype(np.int64)
    exponent, mantissa = (whole >> 3) & 0xF, whole & 0x7
    normal = np.ldexp(1 + mantissa / 8, exponent - 7)
    value = np.where(exponent == 0, np.ldexp(mantissa / 8, -6), normal)
    signed = np.where(whole & 0x80, -value, value)
    return np.where((whole & 0x7F) == 0x7F, np.nan, signed)


_KINDS: Mapping[str, _Kind] = {
    "F64": _Kind(np.uint64, 0x7FF0000000000000, lambda bits: bits.copy().view(np.float64)),
    "F32": _Kind(np.uint32, 0x7F800000, lambda bits: bits.copy().view(np.float32)),
    "F16": _Kind(np.uint16, 0x7C00, lambda bits: bits.copy().view(np.float16)),
    "BF16": _Kind(np.uint16, 0x7F80, _from_bf16),
    "F8_E5M2": _Kind(np.uint8, 0x7C, _from_e5m2),
    "F8_E4M3": _Kind(np.uint8, 0x7F, _from_e4m3),
}
