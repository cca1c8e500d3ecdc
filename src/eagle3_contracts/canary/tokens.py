"""The canary's tokens: seven digits each, and the rule by which one follows the others.

Digit i of the next token is digit i of an earlier token, ``back`` places before the last one,
plus ``step`` modulo the digit's radix. Which token that is, and where in it the digit can be read,
decides by which road the digit reaches the draft.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Digit:
    """One digit: how many values it has, where it comes from, and what carries it to the draft."""

    name: str
    radix: int
    back: int
    step: int


FAR = 24
"""How far back the farthest digit is read: here a wrong rotary base reads another place."""

DIGITS = (
    Digit("state 0", 8, 1, 1),
    Digit("state 1", 8, 1, 2),
    Digit("state 2", 8, 1, 3),
    Digit("embedding", 2, 0, 1),
    Digit("attention 1 back", 3, 1, 1),
    Digit(f"attention {FAR} back", 3, FAR, 1),
    Digit("hidden_norm", 2, 1, 1),
)
"""In order: one for each captured state, then the shared embedding, the draft's own attention
near and far, and the norm of the fused states."""

NUM_LAYERS = 7
BOUNDARIES = (2, 4, 6)
"""Boundaries of the target that the draft reads: the residual stream after so many layers. Every
layer turns the digits of the states on by one, and 8 values tell all 8 boundaries apart."""

NUM_TOKENS: int = math.prod(digit.radix for digit in DIGITS)
NUM_ABSENCES = 2 ** len(DIGITS) - 1
"""One token for every set of digits that the draft could not read at all."""

DRAFT_VOCAB = NUM_TOKENS + NUM_ABSENCES
VOCAB: int = -(-(DRAFT_VOCAB + 1) // 128) * 128
_SPREAD = 7919  # coprime with VOCAB, so that no two ids lie next to each other
_SHIFT = 3571


@dataclass(frozen=True, slots=True)
class Reading:
    """What one drafted token says: its digits, or which of them are absent.

    ``digits`` is None for a token of absences and for an id that the draft never names.
    """

    digits: tuple[int, ...] | None
    absent: frozenset[int] = frozenset()


def token_ids() -> NDArray[np.int64]:
    """Return the id of every rank, [VOCAB]: a permutation, as the ids of a reduced vocabulary."""
    ids: NDArray[np.int64] = (np.arange(VOCAB, dtype=np.int64) * _SPREAD + _SHIFT) % VOCAB
    return ids


_RANKS = {int(token): rank for rank, token in enumerate(token_ids())}


def digits_of(rank: int) -> tuple[int, ...]:
    """Return the digits of a rank below NUM_TOKENS, the first the fastest."""
    found = []
    for digit in DIGITS:
        rank, value = divmod(rank, digit.radix)
        found.append(value)
    return tuple(found)


def token_of(digits: Sequence[int]) -> int:
    """Return the id of the token with these digits."""
    rank = 0
    for digit, value in reversed(list(zip(DIGITS, digits, strict=True))):
        rank = rank * digit.radix + value % digit.radix
    return (rank * _SPREAD + _SHIFT) % VOCAB


def absences() -> list[frozenset[int]]:
    """Return the sets of absent digits in the order of their ranks, from NUM_TOKENS on."""
    places = range(len(DIGITS))
    return [frozenset(i for i in places if bits >> i & 1) for bits in range(1, NUM_ABSENCES + 1)]


def read(token: int) -> Reading:
    """Return what a token says; KeyError for an id outside the vocabulary."""
    rank = _RANKS[token]
    if rank < NUM_TOKENS:
        return Reading(digits_of(rank))
    if rank < DRAFT_VOCAB:
        return Reading(None, absences()[rank - NUM_TOKENS])
    return Reading(None)


def following(tokens: Sequence[int]) -> int:
    """Return the token after ``tokens``, of which there must be more than FAR."""
    sources = [digits_of(_RANKS[tokens[-1 - digit.back]]) for digit in DIGITS]
    return token_of([source[i] + DIGITS[i].step for i, source in enumerate(sources)])


def expected(prompt: Sequence[int], count: int) -> list[int]:
    """Return the ``count`` tokens that the target gives after a prompt, in plain integers."""
    tokens = list(prompt)
    for _ in range(count):
        tokens.append(following(tokens))
    return tokens[len(prompt) :]


def prompts(count: int, length: int = FAR + 8, seed: int = 0) -> list[list[int]]:
    """Return prompts of random tokens, always the same; ValueError if one is too short."""
    if length <= FAR:
        raise ValueError(f"prompts of {length} tokens: the rule looks {FAR} tokens back")
    ranks = np.random.default_rng(seed).integers(NUM_TOKENS, size=(count, length))
    ids = token_ids()
    return [[int(ids[rank]) for rank in row] for row in ranks]
