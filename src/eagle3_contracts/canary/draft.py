"""The canary's draft, of SGLang's LlamaForCausalLMEagle3: a shift register with three registers.

``held`` holds digits of the token that the hidden state belongs to, as the fc fused them out of
the captured states or as the step before left them. One step moves them to ``ahead``, puts those
of the embedded token in their place, adds to ``ahead`` what the attention reads in embeddings, and
writes the drafted token to ``next``, each digit one step on.
"""

from __future__ import annotations

import numpy as np

from eagle3_contracts.canary.matrices import (
    CONST,
    HEADS,
    HIDDEN,
    KV_HEADS,
    SHARP,
    Array,
    Attention,
    Channels,
    Mlp,
    Norm,
    norm,
    zeros,
)
from eagle3_contracts.canary.target import CHANNELS as TARGET
from eagle3_contracts.canary.target import STATES
from eagle3_contracts.canary.tokens import (
    BOUNDARIES,
    DIGITS,
    DRAFT_VOCAB,
    NUM_TOKENS,
    absences,
    digits_of,
    token_ids,
)

_NORMED = 6
"""The digit that all states carry alike; only hidden_norm turns its sign."""

HELD = (*STATES, _NORMED)
CHANNELS = Channels(
    [("held", HELD), ("ahead", range(len(DIGITS))), ("next", range(len(DIGITS)))], seed=2
)

_STATE_FILLED = len(HELD) + len(DIGITS)
"""Fields of the state that a step starts with. Keys are made of the normed constant channel, so a
state with fewer fields would have larger keys and draw the look of the others to it."""


def draft_weights() -> dict[str, Array]:
    """Return all weights under the names of an EAGLE-3 checkpoint; integers for d2t and t2d."""
    embedded, state = norm(400, len(DIGITS)), _hidden_norm()
    inner = norm(500, _STATE_FILLED + len(DIGITS))
    last = norm(600, _STATE_FILLED)
    return {
        "fc.weight": _fc(),
        "midlayer.input_layernorm.weight": embedded.weight,
        "midlayer.hidden_norm.weight": state.weight,
        "midlayer.post_attention_layernorm.weight": inner.weight,
        **_attention(embedded, state).named("midlayer.self_attn"),
        **_mlp(inner).named("midlayer.mlp"),
        "norm.weight": last.weight,
        "lm_head.weight": _head(last),
    }


def vocabulary_map() -> dict[str, np.ndarray[tuple[int], np.dtype[np.generic]]]:
    """Return d2t, the offset of each draft id's target id, and t2d, which target ids have one."""
    ids = token_ids()
    has_draft = np.zeros(len(ids), dtype=np.bool_)
    has_draft[ids[:DRAFT_VOCAB]] = True
    return {"d2t": ids[:DRAFT_VOCAB] - np.arange(DRAFT_VOCAB), "t2d": has_draft}


def _fc() -> Array:
    """Fuse the states: one digit from each, turned back, and thirds of what all of them carry.

    Register ``next`` is filled with zeros, so that the state is as large as a step leaves it.
    """
    fc = zeros(HIDDEN, len(STATES) * HIDDEN)
    for state in STATES:
        at = state * HIDDEN
        for value, channel in enumerate(TARGET["here", state]):
            back = (value - BOUNDARIES[state]) % DIGITS[state].radix
            fc[CHANNELS["held", state][back], at + channel] = 1.0
        shared = [(CHANNELS.const, TARGET.const)]
        shared += zip(CHANNELS["held", _NORMED], TARGET["here", _NORMED], strict=True)
        for to, channel in shared:
            fc[to, at + channel] = 1 / len(STATES)
        for i in range(len(DIGITS)):
            fc[CHANNELS["next", i][0], at + TARGET.const] = 1 / len(STATES) / CONST
    return fc


def _hidden_norm() -> Norm:
    """Turn the sign of one digit only, so that this digit alone is lost with the weights."""
    weight = np.ones(HIDDEN)
    weight[CHANNELS["held", _NORMED]] = -1.0
    return Norm(weight, _STATE_FILLED)


def _attention(embedded: Norm, state: Norm) -> Attention:
    """Columns 0 to HIDDEN of the input are the normed embedding, the others the normed state.

    Only the first head's query and key are made of the state: what is read in embeddings is
    read whatever the state is.
    """
    attention = Attention(2 * HIDDEN)
    group = HEADS // KV_HEADS
    held, put, near, far = range(0, HEADS, group)
    attention.aim(held, 0, HIDDEN + CHANNELS.const, state.undo(CHANNELS.const))
    for i in HELD:
        for value, channel in enumerate(CHANNELS["held", i]):
            moved = {CHANNELS["ahead", i][value]: 1.0, channel: -1.0}
            attention.carry(held, HIDDEN + channel, state.undo(channel), moved)
    roads = [(put, i, "held", 0) for i in HELD]
    roads += [(near, 3, "ahead", 0), (near + 1, 4, "ahead", 1), (far, 5, "ahead", DIGITS[5].back)]
    for head, i, register, back in roads:
        attention.aim(head, back, TARGET.const, embedded.undo(TARGET.const))
        for value, channel in enumerate(TARGET["here", i]):
            to = {CHANNELS[register, i][value]: 1.0}
            attention.carry(head, channel, embedded.undo(channel), to)
    return attention


def _mlp(inner: Norm) -> Mlp:
    mlp = Mlp(inner, CHANNELS.const)
    for i, digit in enumerate(DIGITS):
        drafted = CHANNELS["next", i]
        for value, channel in enumerate(CHANNELS["ahead", i]):
            mlp.carry(channel, {drafted[(value + digit.step) % digit.radix]: 1.0, channel: -1.0})
        for channel in drafted:
            mlp.carry(channel, {channel: -1.0})
    return mlp


def _head(last: Norm) -> Array:
    """A digit that is there counts one, an absent one a half for the tokens that say so."""
    head = zeros(DRAFT_VOCAB, HIDDEN)
    for rank in range(NUM_TOKENS):
        for i, value in enumerate(digits_of(rank)):
            channel = CHANNELS["next", i][value]
            head[rank, channel] = SHARP * last.undo(channel)
    for rank, absent in enumerate(absences(), start=NUM_TOKENS):
        half = 0.5 * len(absent) * SHARP / CONST
        head[rank, CHANNELS.const] = half * last.undo(CHANNELS.const)
        for i in set(range(len(DIGITS))) - absent:
            for channel in CHANNELS["next", i]:
                head[rank, channel] = SHARP * last.undo(channel)
    return head
