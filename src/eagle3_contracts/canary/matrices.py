"""How both models of the canary are put together: channels, norms to undo, look-backs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from eagle3_contracts.canary.tokens import DIGITS

Array = NDArray[np.float64]

HIDDEN = 160
HEADS = 8
KV_HEADS = 4
HEAD_DIM = 32
INTERMEDIATE = 96
ROPE_BASE = 1500.0
"""Not the default, 10000: a draft that falls back to it reads the far digit somewhere else."""
EPS = 1e-6

CONST = 8.0
"""Value of the constant channel. It outweighs the one-hot fields, so that the root mean square
hardly depends on how many of them are filled."""
SHARP = 12.0
"""Logit that one right digit gives."""
_PEAK = 16.0
"""Size of the components of queries and keys."""
_GATE = 4.0
"""What every gate of an MLP is set to."""


class Channels:
    """Channels of a residual stream by register and digit, dealt in a shuffled order."""

    def __init__(self, registers: Iterable[tuple[str, Sequence[int]]], seed: int) -> None:
        free = [int(i) for i in np.random.default_rng(seed).permutation(HIDDEN)]
        self.const = free.pop()
        self._at = {
            (name, i): [free.pop() for _ in range(DIGITS[i].radix)]
            for name, digits in registers
            for i in digits
        }

    def __getitem__(self, key: tuple[str, int]) -> list[int]:
        """Return the channels of the values of a digit in a register."""
        return self._at[key]


@dataclass(frozen=True, slots=True)
class Norm:
    """An RMSNorm whose input has ``filled`` one-hot fields beside the constant channel."""

    weight: Array
    filled: float

    def undo(self, channel: int) -> float:
        """Return the factor that gives the channel's value before the norm."""
        rms = math.sqrt((self.filled + CONST**2) / HIDDEN + EPS)
        return rms / float(self.weight[channel])


def norm(seed: int, filled: float) -> Norm:
    """Return a norm with weights of both signs: without them, half of the channels turn over."""
    random = np.random.default_rng(seed)
    signs = np.where(random.random(HIDDEN) < 0.5, -1.0, 1.0)
    return Norm(signs * (0.5 + random.random(HIDDEN)), filled)


def zeros(*shape: int) -> Array:
    """Return a matrix with nothing in it."""
    return np.zeros(shape)


class Attention:
    """The four matrices of an attention whose heads each read a fixed number of tokens back."""

    def __init__(self, inputs: int = HIDDEN) -> None:
        self.q = zeros(HEADS * HEAD_DIM, inputs)
        self.k = zeros(KV_HEADS * HEAD_DIM, inputs)
        self.v = zeros(KV_HEADS * HEAD_DIM, inputs)
        self.o = zeros(HIDDEN, HEADS * HEAD_DIM)
        self._used = [0] * KV_HEADS

    def aim(self, head: int, back: int, const: int, undo: float) -> None:
        """Let ``head`` look ``back`` tokens back, its query and key made of the constant channel.

        The score of a query and key that are m tokens apart is the sum of cos(f (m - back)) over
        the rotary frequencies f, which is largest for m = back.
        """
        angles = _frequencies() * back
        query = _PEAK * np.concatenate([np.cos(angles), -np.sin(angles)])
        key = _PEAK * np.concatenate([np.ones(HEAD_DIM // 2), np.zeros(HEAD_DIM // 2)])
        self.q[_rows(head), const] = query * undo / CONST
        self.k[_rows(head // (HEADS // KV_HEADS)), const] = key * undo / CONST

    def carry(self, head: int, column: int, undo: float, to: dict[int, float]) -> None:
        """Add the value of an input channel, where ``head`` looks, to the channels ``to``."""
        kv = head // (HEADS // KV_HEADS)
        slot, self._used[kv] = self._used[kv], self._used[kv] + 1
        assert slot < HEAD_DIM, "a head has no room for another value"
        self.v[kv * HEAD_DIM + slot, column] = undo
        for channel, factor in to.items():
            self.o[channel, head * HEAD_DIM + slot] = factor

    def named(self, prefix: str) -> dict[str, Array]:
        """Return the matrices under the names of a checkpoint."""
        parts = {"q": self.q, "k": self.k, "v": self.v, "o": self.o}
        return {f"{prefix}.{name}_proj.weight": matrix for name, matrix in parts.items()}


class Mlp:
    """A gated MLP all of whose gates are open: it adds multiples of channels to channels."""

    def __init__(self, before: Norm, const: int) -> None:
        self.gate = zeros(INTERMEDIATE, HIDDEN)
        self.up = zeros(INTERMEDIATE, HIDDEN)
        self.down = zeros(HIDDEN, INTERMEDIATE)
        self._before, self._const, self._used = before, const, 0

    def carry(self, channel: int, to: dict[int, float]) -> None:
        """Add multiples of the channel's value to the channels ``to``."""
        neuron, self._used = self._used, self._used + 1
        self.gate[neuron, self._const] = _GATE * self._before.undo(self._const) / CONST
        self.up[neuron, channel] = self._before.undo(channel)
        for other, factor in to.items():
            self.down[other, neuron] = factor * (1 + math.exp(-_GATE)) / _GATE

    def named(self, prefix: str) -> dict[str, Array]:
        """Return the matrices under the names of a checkpoint."""
        parts = {"gate": self.gate, "up": self.up, "down": self.down}
        return {f"{prefix}.{name}_proj.weight": matrix for name, matrix in parts.items()}


def _rows(head: int) -> slice:
    return slice(head * HEAD_DIM, (head + 1) * HEAD_DIM)


def _frequencies() -> Array:
    half = HEAD_DIM // 2
    return ROPE_BASE ** (-np.arange(half) / half)
