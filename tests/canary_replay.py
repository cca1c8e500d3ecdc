"""EAGLE-3 in plain PyTorch, written from its definition: a target's states, and a draft on them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from eagle3_contracts.canary import matrices

Weights = Mapping[str, torch.Tensor]


def boundaries(model: Any, tokens: list[int]) -> list[torch.Tensor]:
    """Return the residual stream before each layer and after the last, each [tokens, hidden]."""
    kept: list[torch.Tensor] = []
    hooks = [
        layer.register_forward_pre_hook(lambda _, args: kept.append(args[0][0]))
        for layer in model.model.layers
    ]
    with torch.no_grad():
        model(torch.tensor([tokens]))
    for hook in hooks:
        hook.remove()
    return kept


def drafted(
    weights: Weights, embedding: torch.Tensor, tokens: list[int], states: torch.Tensor, count: int
) -> list[int]:
    """Return the ``count`` tokens drafted after ``tokens``.

    ``states`` [tokens - 1, states x hidden] belong to all tokens but the last.
    """
    hidden, tokens = states @ weights["fc.weight"].T, list(tokens)
    for _ in range(count):
        output = _layer(weights, embedding[tokens[1:]], hidden)
        logits = _norm(output[-1], weights["norm.weight"]) @ weights["lm_head.weight"].T
        best = int(logits.argmax())
        tokens.append(best + int(weights["d2t"][best]))
        hidden = torch.cat([hidden, output[-1:]])
    return tokens[-count:]


def _layer(weights: Weights, embeds: torch.Tensor, hidden: torch.Tensor) -> torch.Tensor:
    own = {name.removeprefix("midlayer."): tensor for name, tensor in weights.items()}
    normed = [
        _norm(embeds, own["input_layernorm.weight"]),
        _norm(hidden, own["hidden_norm.weight"]),
    ]
    stream = hidden + _attention(own, torch.cat(normed, dim=-1))
    inner = _norm(stream, own["post_attention_layernorm.weight"])
    gate = torch.nn.functional.silu(inner @ own["mlp.gate_proj.weight"].T)
    return stream + (gate * (inner @ own["mlp.up_proj.weight"].T)) @ own["mlp.down_proj.weight"].T


def _attention(own: Weights, inputs: torch.Tensor) -> torch.Tensor:
    q, k, v = (
        (inputs @ own[f"self_attn.{name}_proj.weight"].T).unflatten(-1, (-1, matrices.HEAD_DIM))
        for name in "qkv"
    )
    group = matrices.HEADS // matrices.KV_HEADS
    k, v = (part.repeat_interleave(group, dim=1) for part in (_rotated(k), v))
    scores = torch.einsum("qhd,khd->hqk", _rotated(q), k) / matrices.HEAD_DIM**0.5
    later = torch.ones_like(scores[0], dtype=torch.bool).triu(1)
    probabilities = scores.masked_fill(later, float("-inf")).softmax(-1)
    read = torch.einsum("hqk,khd->qhd", probabilities, v).flatten(1)
    return read @ own["self_attn.o_proj.weight"].T


def _rotated(x: torch.Tensor) -> torch.Tensor:
    half = x.shape[-1] // 2
    frequencies = matrices.ROPE_BASE ** (-torch.arange(half) / half)
    angles = (torch.arange(len(x))[:, None] * frequencies)[:, None]
    first, second = x.split(half, dim=-1)
    cos, sin = angles.cos(), angles.sin()
    return torch.cat([first * cos - second * sin, second * cos + first * sin], dim=-1)


def _norm(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + matrices.EPS) * weight
