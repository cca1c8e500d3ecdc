"""Faults of extraction, put into the states of a real target, and what has to be said of each.

Faults are drawn by seed. The target is :mod:`tiny_llama`'s, of which SGLang is to capture
:data:`CAPTURED`; the states are computed once for each text, and a fault takes other ones of them.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import torch

from eagle3_contracts.features.dump import Kind, Layout
from eagle3_contracts.features.match import Trouble
from feature_dumps import write_sample
from tiny_llama import LAYERS, VOCAB, boundaries_of, make_llama, normed, some_tokens

CAPTURED = (2, 4, 6)
DTYPES = (torch.float32, torch.bfloat16, torch.float16)
LENGTHS = (24, 48, 90)
"""Tokens of the texts, one each."""

LAST = "last state"


@cache
def target() -> torch.nn.Module:
    """Return the target; its weights are the same in every process."""
    model: torch.nn.Module = make_llama()
    return model


@cache
def states(text: int) -> torch.Tensor:
    """Return boundaries 0 to n of a text, [n + 1, T, H]."""
    return boundaries_of(target(), some_tokens(LENGTHS[text], text))


@dataclass
class Draft:
    """A sample before it is written, and what a fault makes of it.

    ``expected`` is what has to be wrong, by slot, and nothing else; "" is the sample as a whole.
    """

    text: int
    tokens: torch.Tensor
    slots: torch.Tensor
    last: torch.Tensor
    fault: str = "clean"
    expected: dict[str, set[str]] = field(default_factory=dict)
    boundaries: list[int] = field(default_factory=lambda: list(CAPTURED))
    """Boundary of each slot, to be named as well."""
    bytes_kept: float = 1.0
    """Share of the file that is not cut away."""

    def expect(self, trouble: str, *slots: int) -> None:
        """Demand that this is said of these slots, or of all and the last state."""
        names = [f"slot {at}" for at in slots] or [*(f"slot {at}" for at in range(3)), LAST]
        for name in names:
            self.expected.setdefault(name, set()).add(trouble)


def clean(rng: random.Random) -> Draft:
    """Return a sample as it should be, of one of the texts."""
    text = rng.randrange(len(LENGTHS))
    slots = states(text)[list(CAPTURED)].transpose(0, 1).contiguous()
    last = states(text)[LAYERS]
    last = normed(target(), last) if rng.random() < 0.7 else last
    return Draft(text, some_tokens(LENGTHS[text], text), slots, last)


def off_by_one(draft: Draft, rng: random.Random) -> None:
    """Take the layer before or after, in one slot or in all."""
    shift = rng.choice((-1, 1))
    wrong = rng.choice([(0,), (1,), (2,), (0, 1, 2)])
    for at in wrong:
        draft.boundaries[at] += shift
        draft.slots[:, at] = states(draft.text)[draft.boundaries[at]]
    draft.expect(Trouble.OFF_BY_ONE, *wrong)


def swapped(draft: Draft, rng: random.Random) -> None:
    """Store the slots in another order."""
    order = rng.choice([[1, 0, 2], [0, 2, 1], [2, 1, 0], [1, 2, 0], [2, 0, 1]])
    draft.slots = draft.slots[:, order]
    draft.boundaries = [CAPTURED[at] for at in order]
    draft.expect(Trouble.REORDERED, *(at for at in range(3) if order[at] != at))


def after_the_norm(draft: Draft, rng: random.Random) -> None:
    """Apply the final norm to one slot, or to all."""
    wrong = rng.choice([(0,), (1,), (2,), (0, 1, 2)])
    for at in wrong:
        draft.slots[:, at] = normed(target(), draft.slots[:, at])
    draft.expect(Trouble.NORMED, *wrong)


def repeated(draft: Draft, rng: random.Random) -> None:
    """Store one slot in the place of another as well."""
    one, two = rng.sample(range(3), 2)
    draft.slots[:, one] = draft.slots[:, two]
    draft.boundaries[one] = draft.boundaries[two]
    draft.expect(Trouble.OTHER_LAYER, one)
    draft.expect(Trouble.REPEATED, one)


def another_last_layer(draft: Draft, rng: random.Random) -> None:
    """Store the state of an earlier layer as the last one, normed as the last one is."""
    k = rng.randrange(1, LAYERS)
    state = states(draft.text)[k]
    draft.last = normed(target(), state) if rng.random() < 0.5 else state
    said = Trouble.OFF_BY_ONE if k == LAYERS - 1 else Trouble.OTHER_LAYER
    draft.expected[LAST] = {said}


def row_left_out(draft: Draft, rng: random.Random) -> None:
    """Leave the states of one token out, and pad at the end."""
    at = rng.randrange(2, len(draft.tokens) - 3)
    rows = [*range(at), *range(at + 1, len(draft.tokens)), len(draft.tokens) - 1]
    draft.slots, draft.last = draft.slots[rows], draft.last[rows]
    draft.expect(Trouble.ROW_LEFT_OUT)


def row_put_in(draft: Draft, rng: random.Random) -> None:
    """Store the states of one token twice, and cut at the end."""
    at = rng.randrange(2, len(draft.tokens) - 3)
    rows = [*range(at), *range(at - 1, len(draft.tokens) - 1)]
    draft.slots, draft.last = draft.slots[rows], draft.last[rows]
    draft.expect(Trouble.ROW_PUT_IN)


def token_dropped(draft: Draft, rng: random.Random) -> None:
    """Run the target without one of the tokens; the stored tokens have it."""
    at = rng.randrange(2, len(draft.tokens) - 3)
    # Another token at the end: the same one at the same place may have nearly the same state.
    seen = torch.cat([draft.tokens[:at], draft.tokens[at + 1 :], (draft.tokens[-1:] + 1) % VOCAB])
    found = boundaries_of(target(), seen)
    draft.slots = found[list(CAPTURED)].transpose(0, 1).contiguous()
    draft.last = found[LAYERS]
    draft.expect(Trouble.OTHER_TOKENS)


def rows_shifted(draft: Draft, rng: random.Random) -> None:
    """Store every row one token early or late."""
    by = rng.choice((-1, 1))
    draft.slots, draft.last = draft.slots.roll(by, 0), draft.last.roll(by, 0)
    draft.expect(Trouble.NEXT_TOKEN)


def truncated(draft: Draft, rng: random.Random) -> None:
    """Cut the file, as an interrupted copy does."""
    draft.bytes_kept = rng.uniform(0.05, 0.95)
    draft.expected = {"": {Kind.UNREADABLE}}


def rows_missing(draft: Draft, rng: random.Random) -> None:
    """Store fewer rows than tokens."""
    kept = rng.randrange(1, len(draft.tokens))
    draft.slots, draft.last = draft.slots[:kept], draft.last[:kept]
    draft.expected = {"": {Kind.COUNT}}


def never_written(draft: Draft, rng: random.Random) -> None:
    """Leave one slot as it was allocated, zero."""
    draft.slots[:, rng.randrange(3)] = 0
    draft.expected = {"": {Kind.ZERO}}


FAULTS: Mapping[str, Callable[[Draft, random.Random], None]] = {
    "off by one": off_by_one,
    "swapped": swapped,
    "after the norm": after_the_norm,
    "repeated": repeated,
    "another last layer": another_last_layer,
    "row left out": row_left_out,
    "row put in": row_put_in,
    "token dropped": token_dropped,
    "rows shifted": rows_shifted,
    "truncated": truncated,
    "rows missing": rows_missing,
    "never written": never_written,
}


def drawn(count: int, seed: int) -> Iterator[Draft]:
    """Yield as many samples with one fault each, every fault in its turn."""
    rng, names = random.Random(seed), list(FAULTS)
    for number in range(count):
        draft = clean(rng)
        draft.fault = names[number % len(names)]
        FAULTS[draft.fault](draft, rng)
        yield draft


def write(draft: Draft, folder: Path, layout: Layout, dtype: torch.dtype) -> Path:
    """Write the sample into a folder of its own; return its file."""
    slots, last = draft.slots.to(dtype), draft.last.to(dtype)
    file = write_sample(folder, layout, 0, draft.tokens, slots, last)
    raw = file.read_bytes()
    file.write_bytes(raw[: int(len(raw) * draft.bytes_kept)])
    return file
