"""What the drafted tokens of a canary say about its wiring."""

from __future__ import annotations

from collections.abc import Iterable

from eagle3_contracts.canary.tokens import BOUNDARIES, DIGITS, read


def broken_parts(pairs: Iterable[tuple[int, int]]) -> list[str]:
    """Return what is broken, a phrase for each digit that is ever wrong; nothing: all are right.

    ``pairs`` are ids: the first token drafted after verified ones, and the token that follows.
    """
    pairs = list(pairs)
    off = [_offsets(i, pairs) for i in range(len(DIGITS))]
    return [_phrase(i, found) for i, found in enumerate(off) if found - {0}]


def _offsets(i: int, pairs: Iterable[tuple[int, int]]) -> set[int | None]:
    """Return by how much digit i is off, modulo its radix; None: absent."""
    found: set[int | None] = set()
    for drafted, following in pairs:
        said, right = read(drafted), read(following).digits
        if right is None:
            continue
        if said.digits is not None:
            found.add((said.digits[i] - right[i]) % DIGITS[i].radix)
        elif i in said.absent or not said.absent:
            found.add(None)
    return found


def _phrase(i: int, off: set[int | None]) -> str:
    """A state that is off by the same number of layers everywhere is another boundary's."""
    (first, *others) = off
    if i >= len(BOUNDARIES) or others or first is None:
        return f"{DIGITS[i].name} is lost"
    boundary = (BOUNDARIES[i] + first) % DIGITS[i].radix
    return f"{DIGITS[i].name} is boundary {boundary}, not {BOUNDARIES[i]}"
