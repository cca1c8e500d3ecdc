"""The two attention kernels that speculation runs, in plain PyTorch.

SGLang's Triton backend prepares everything around them: slots of the KV pool, tree masks, chains of
draft steps. Under Triton's interpreter nearly all of a step's time goes into these two; only their
arithmetic is replaced, and it is the same.
"""

from __future__ import annotations

from typing import Any

import torch


def install() -> None:
    """Put the plain kernels where the backend looks for them; before it is built."""
    from sglang.kernels.ops.attention import decode_attention, extend_attention

    extend_attention.extend_attention_fwd = extend
    decode_attention.decode_attention_fwd = decode


def extend(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    out: torch.Tensor,
    k_pool: torch.Tensor,
    v_pool: torch.Tensor,
    q_starts: torch.Tensor,
    kv_starts: torch.Tensor,
    kv_slots: torch.Tensor,
    mask: torch.Tensor | None,
    is_causal: bool,
    mask_starts: torch.Tensor | None,
    _longest: int,
    _k_scale: float,
    _v_scale: float,
    sm_scale: float | None = None,
    logit_cap: float = 0.0,
    skip_prefix_custom_mask: bool = True,
    sliding_window_size: int = -1,
    sinks: torch.Tensor | None = None,
    **_: Any,
) -> None:
    """Attend from new tokens, [tokens, heads, d], to a prefix in the pool and to one another."""
    scale = sm_scale or q.shape[-1] ** -0.5
    for row in range(q_starts.shape[0] - 1):
        new = slice(int(q_starts[row]), int(q_starts[row + 1]))
        slots = kv_slots[int(kv_starts[row]) : int(kv_starts[row + 1])].long()
        count, prefix = new.stop - new.start, len(slots)
        if not count:
            continue
        visible = _window(count, prefix, is_causal and mask is None, sliding_window_size)
        if mask is not None and mask_starts is not None:
            size = count * (prefix + count)
            tree = mask[int(mask_starts[row]) :][:size].view(count, -1).bool().clone()
            tree[:, :prefix] |= skip_prefix_custom_mask
            visible &= tree
        keys, values = k[new], v[new]
        if prefix:  # MLA's first extend has decompressed keys, unlike those in the pool
            keys = torch.cat([k_pool[slots].to(q.dtype), keys])
            values = torch.cat([v_pool[slots].to(q.dtype), values])
        out[new] = attend(q[new], keys, values, visible, scale, logit_cap, sinks)


def decode(
    q: torch.Tensor,
    k_pool: torch.Tensor,
    v_pool: torch.Tensor,
    out: torch.Tensor,
    kv_starts: torch.Tensor,
    kv_slots: torch.Tensor,
    _logits: torch.Tensor,
    _lse: torch.Tensor,
    _splits: torch.Tensor,
    _max_splits: int,
    sm_scale: float,
    _k_scale: float,
    _v_scale: float,
    logit_cap: float = 0.0,
    sinks: torch.Tensor | None = None,
    **_: Any,
) -> None:
    """Attend from one token of each row, [rows, heads, d], to what its slots hold."""
    for row in range(q.shape[0]):
        slots = kv_slots[int(kv_starts[row]) : int(kv_starts[row + 1])].long()
        if len(slots):  # rows beyond the batch have none
            keys, values = k_pool[slots].to(q.dtype), v_pool[slots].to(q.dtype)
            every = torch.ones(1, len(slots), dtype=torch.bool)
            query = q[row : row + 1]
            out[row] = attend(query, keys, values, every, sm_scale, logit_cap, sinks)[0]


def attend(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    visible: torch.Tensor,
    scale: float,
    cap: float,
    sinks: torch.Tensor | None,
) -> torch.Tensor:
    """Softmax attention: q [n, heads, d], k [m, kv heads, d], v [m, kv heads, dv], visible [n, m].

    A score is cut off by ``cap`` x tanh(score / ``cap``); a sink is one more score per head that
    takes weight and gives nothing.
    """
    groups = q.shape[1] // k.shape[1]
    scores = torch.einsum("nhd,mhd->hnm", q, k.repeat_interleave(groups, 1)) * scale
    if cap > 0:
        scores = cap * torch.tanh(scores / cap)
    scores = scores.masked_fill(~visible, float("-inf"))
    if sinks is not None:
        sink = sinks.to(scores.dtype).view(-1, 1, 1).expand(-1, scores.shape[1], 1)
        scores = torch.cat([scores, sink], dim=-1)
    weights = scores.softmax(dim=-1)[..., : k.shape[0]]
    return torch.einsum("hnm,mhd->nhd", weights, v.repeat_interleave(groups, 1))


def _window(count: int, prefix: int, is_causal: bool, size: int) -> torch.Tensor:
    """Return [count, prefix + count]: what each of the last ``count`` tokens can see."""
    distance = torch.arange(prefix, prefix + count)[:, None] - torch.arange(prefix + count)[None]
    visible = distance >= 0 if is_causal else torch.ones_like(distance, dtype=torch.bool)
    return visible & (distance <= size) if size and size > 0 else visible
