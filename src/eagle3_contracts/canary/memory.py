"""The memory canary: a draft that knows by heart what a target says after a few prompts.

For a target of any class, with any weights. Every token of the draft's vocabulary is a row of
digits, one for each captured state, and the draft's fc reads each digit from its state alone. It is
the least squares solution for the states at hand: state k at a remembered place gives digit k of
the token to draft, and what the neighbouring boundaries hold there gives the digit before it or
after it. So the digits of a wrong draft say which state is wrong, and by how many layers.
Attention and MLP add nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

NEIGHBOURS = (-1, 0, 1)
"""Boundaries, counted from the trained one, that a state is told apart from."""

EXACT = 1e-3
"""Largest error of a digit, which is 0 or 1; what a solution that exists is short of float32."""

_HEADS, _HEAD_DIM, _INTERMEDIATE = 4, 16, 32


class NotFittedError(ValueError):
    """No linear map takes these states to the tokens that follow them."""


@dataclass(frozen=True, slots=True)
class Remembered:
    """What a target said, and its states: one row for each token that the draft has to foretell.

    ``boundaries`` are the trained ones, in the order of the fc. ``states`` are [rows, hidden] by
    boundary, those of the token two places before ``drafted`` [rows]: a draft is given the state of
    one token and the id of the next. Boundaries beside the trained ones may be left out.
    """

    boundaries: tuple[int, ...]
    states: Mapping[int, Array]
    drafted: Sequence[int]

    @property
    def hidden(self) -> int:
        """Width of a state."""
        return int(self.states[self.boundaries[0]].shape[1])


@dataclass(frozen=True, slots=True)
class Code:
    """The digits of tokens: row ``i`` of the draft's vocabulary is the token ``ids[i]``."""

    ids: tuple[int, ...]
    radix: int
    places: int

    def digits(self, token: int) -> tuple[int, ...] | None:
        """Return the digits of a token, one for each state; None: the draft does not name it."""
        if token not in self.ids:
            return None
        row = self.ids.index(token)
        return tuple(row // self.radix**k % self.radix for k in range(self.places))


def code_of(remembered: Remembered, vocab: int, seed: int = 0) -> Code:
    """Return a code in which all remembered tokens have digits, in no order.

    Row 0 is another token, because a head that is given nothing names the first.
    """
    places = len(remembered.boundaries)
    radix = min(math.floor(vocab ** (1 / places) + 1e-9), remembered.hidden // places)
    first = sorted(set(remembered.drafted))
    others = [token for token in range(vocab) if token not in first]
    order = np.random.default_rng(seed).permutation(radix**places - 1) + 1
    rows = dict(zip([0, *order.tolist()], [others[0], *first, *others[1:]], strict=False))
    return Code(tuple(rows[row] for row in range(radix**places)), radix, places)


def fit(remembered: Remembered, code: Code) -> Array:
    """Return the fc, [hidden, states x hidden]; NotFittedError when the states do not decide.

    Digit d of state k is channel ``k * radix + d`` of its output.
    """
    hidden = remembered.hidden
    fc = np.zeros((hidden, code.places * hidden))
    for k in range(code.places):
        fc[k * code.radix :, k * hidden :][: code.radix, :hidden] = _solved(remembered, code, k).T
    return fc


def _solved(remembered: Remembered, code: Code, k: int) -> Array:
    """Tell the neighbours apart where that has a solution; an embedding has none before it."""
    for neighbours in (NEIGHBOURS, (0,)):
        states, digits = _rows(remembered, code, k, neighbours)
        scale = 1 / float(np.abs(states).max())
        solution = np.linalg.lstsq(states * scale, digits, rcond=None)[0]
        if np.abs((states * scale) @ solution - digits).max() < EXACT:
            return np.asarray(solution * scale, dtype=np.float64)
    boundary = remembered.boundaries[k]
    raise NotFittedError(f"the states of boundary {boundary} do not decide the next token")


def _rows(
    remembered: Remembered, code: Code, k: int, neighbours: Iterable[int]
) -> tuple[Array, Array]:
    right = np.array([code.digits(token) for token in remembered.drafted])[:, k]
    at = remembered.boundaries[k]
    there = [off for off in neighbours if at + off in remembered.states]
    states = np.concatenate([remembered.states[at + off] for off in there])
    digits = np.concatenate([(right + off) % code.radix for off in there])
    return states.astype(np.float64), np.eye(code.radix)[digits]


def draft_weights(fc: Array, code: Code) -> dict[str, NDArray[Any]]:
    """Return an EAGLE-3 checkpoint around ``fc``: float32, and d2t with t2d as they are shipped."""
    hidden, vocab = fc.shape[0], max(code.ids) + 1
    weights = {
        "fc.weight": fc,
        "lm_head.weight": _head(hidden, code),
        "norm.weight": np.ones(hidden),
        **{f"midlayer.{name}.weight": np.ones(hidden) for name in _NORMS},
        **{f"midlayer.{name}.weight": np.zeros(size) for name, size in _sizes(hidden).items()},
    }
    ids = np.array(code.ids, dtype=np.int64)
    return {
        **{name: weight.astype(np.float32) for name, weight in weights.items()},
        "d2t": ids - np.arange(len(ids)),
        "t2d": np.isin(np.arange(vocab), ids),
    }


_NORMS = ("input_layernorm", "hidden_norm", "post_attention_layernorm")


def _sizes(hidden: int) -> dict[str, tuple[int, int]]:
    width = _HEADS * _HEAD_DIM
    attention = {f"self_attn.{name}_proj": (width, 2 * hidden) for name in "qkv"}
    gates = {f"mlp.{name}_proj": (_INTERMEDIATE, hidden) for name in ("gate", "up")}
    out = {"self_attn.o_proj": (hidden, width), "mlp.down_proj": (hidden, _INTERMEDIATE)}
    return {**attention, **gates, **out}


def _head(hidden: int, code: Code) -> Array:
    head = np.zeros((len(code.ids), hidden))
    for row, token in enumerate(code.ids):
        for k, digit in enumerate(code.digits(token) or ()):
            head[row, k * code.radix + digit] = 1.0
    return head


def draft_config(hidden: int, vocab: int, code: Code, eagle: Mapping[str, Any]) -> dict[str, Any]:
    """Return the config.json; ``eagle`` is the ``eagle_config`` of the draft that it stands for."""
    return {
        "architectures": ["LlamaForCausalLMEagle3"],
        "model_type": "llama",
        "hidden_size": hidden,
        "intermediate_size": _INTERMEDIATE,
        "num_hidden_layers": 1,
        "num_attention_heads": _HEADS,
        "num_key_value_heads": _HEADS,
        "head_dim": _HEAD_DIM,
        "vocab_size": vocab,
        "draft_vocab_size": len(code.ids),
        "hidden_act": "silu",
        "rms_norm_eps": 1e-6,
        "max_position_embeddings": 512,
        "rope_theta": 10000.0,
        "tie_word_embeddings": False,
        "attention_bias": False,
        "dtype": "float32",
        "num_aux_hidden_states": code.places,
        "eagle_config": {key: value for key, value in eagle.items() if key != "norm_before_fc"},
    }


def wrong_states(
    boundaries: Sequence[int], code: Code, pairs: Iterable[tuple[int, int]]
) -> list[str]:
    """Return a phrase for each state whose digit is ever wrong; nothing: all are right.

    ``pairs`` are ids, the drafted one and the remembered one.
    """
    offsets: list[set[int | None]] = [set() for _ in boundaries]
    for drafted, right in pairs:
        said, wanted = code.digits(drafted), code.digits(right)
        for k, off in enumerate(offsets):
            off.add((said[k] - wanted[k]) % code.radix if said and wanted else None)
    return [_phrase(k, boundaries[k], off, code) for k, off in enumerate(offsets) if off - {0}]


def _phrase(k: int, boundary: int, offsets: set[int | None], code: Code) -> str:
    for off in NEIGHBOURS if code.radix >= len(NEIGHBOURS) else ():
        if offsets == {off % code.radix}:
            return f"state {k} is boundary {boundary + off}, not {boundary}"
    return f"state {k} is not boundary {boundary}"
