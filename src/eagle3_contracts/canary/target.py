"""The canary's target, a Llama: it looks the digits of the next token up and turns some of them.

Register ``here`` holds the digits of the current token. Every layer turns the digits of the
states on by one, so that a state tells how many layers it went through. Register ``next`` gets
the digits that the rule reads in earlier tokens, one layer at a time, as they were written.
"""

from __future__ import annotations

from eagle3_contracts.canary.matrices import (
    CONST,
    HEADS,
    HIDDEN,
    SHARP,
    Array,
    Attention,
    Channels,
    Mlp,
    Norm,
    norm,
    zeros,
)
from eagle3_contracts.canary.tokens import (
    BOUNDARIES,
    DIGITS,
    NUM_LAYERS,
    NUM_TOKENS,
    VOCAB,
    digits_of,
    token_ids,
)

STATES = range(len(BOUNDARIES))
"""The digits that the layers turn."""

CHANNELS = Channels(
    [
        ("here", range(len(DIGITS))),
        ("next", [i for i, digit in enumerate(DIGITS) if digit.back]),
    ],
    seed=1,
)

_LOOKED_UP = {0: (0,), 1: (1,), 3: (2,), 4: (5,), 5: (4, 6)}
"""By layer, the digits that its attention brings; those of one layer lie equally far back."""


def target_weights() -> dict[str, Array]:
    """Return all weights under the names of transformers' LlamaForCausalLM."""
    weights = {"model.embed_tokens.weight": _embedding()}
    filled = len(DIGITS)
    for layer in range(NUM_LAYERS):
        before = norm(100 + layer, filled)
        filled += len(_LOOKED_UP.get(layer, ()))
        after = norm(200 + layer, filled)
        prefix = f"model.layers.{layer}"
        weights[f"{prefix}.input_layernorm.weight"] = before.weight
        weights[f"{prefix}.post_attention_layernorm.weight"] = after.weight
        weights |= _look_up(layer, before).named(f"{prefix}.self_attn")
        weights |= _turn(after).named(f"{prefix}.mlp")
    last = norm(300, filled)
    return {**weights, "model.norm.weight": last.weight, "lm_head.weight": _head(last)}


def _embedding() -> Array:
    table = zeros(VOCAB, HIDDEN)
    table[:, CHANNELS.const] = CONST
    for rank, token in enumerate(token_ids()[:NUM_TOKENS]):
        for i, value in enumerate(digits_of(rank)):
            table[token, CHANNELS["here", i][value]] = 1.0
    return table


def _look_up(layer: int, before: Norm) -> Attention:
    attention = Attention()
    head = (3 * layer + 1) % HEADS
    for i in _LOOKED_UP.get(layer, ()):
        const = CHANNELS.const
        attention.aim(head, DIGITS[i].back, const, before.undo(const))
        turned = layer if i in STATES else 0
        for value, channel in enumerate(CHANNELS["here", i]):
            written = CHANNELS["next", i][(value - turned) % DIGITS[i].radix]
            attention.carry(head, channel, before.undo(channel), {written: 1.0})
    return attention


def _turn(after: Norm) -> Mlp:
    mlp = Mlp(after, CHANNELS.const)
    for i in STATES:
        channels = CHANNELS["here", i]
        for value, channel in enumerate(channels):
            mlp.carry(channel, {channels[(value + 1) % len(channels)]: 1.0, channel: -1.0})
    return mlp


def _head(last: Norm) -> Array:
    """A token's logit is highest where all digits that the rule reads are its own."""
    head = zeros(VOCAB, HIDDEN)
    head[:, CHANNELS.const] = -SHARP / CONST * last.undo(CHANNELS.const)
    for rank, token in enumerate(token_ids()[:NUM_TOKENS]):
        head[token, CHANNELS.const] = 0.0
        for i, value in enumerate(digits_of(rank)):
            source = CHANNELS["next" if DIGITS[i].back else "here", i]
            channel = source[(value - DIGITS[i].step) % DIGITS[i].radix]
            head[token, channel] = SHARP * last.undo(channel)
    return head
