"""The attention of a speculating engine in plain PyTorch, in place of two interpreted kernels.

Under Triton's interpreter nearly all the time of a step goes into these two. SGLang's Triton
backend still prepares everything around them: indices, tree masks, places in the KV pool.
"""

from __future__ import annotations

from typing import Any

import torch


def install() -> None:
    """Replace both kernels; before the first backend is built, which keeps what it finds."""
    from sglang.kernels.ops.attention import decode_attention, extend_attention

    extend_attention.extend_attention_fwd = extend
    decode_attention.decode_attention_fwd = decode


def extend(
    q: torch.Tensor,
    k_new: torch.Tensor,
    v_new: torch.Tensor,
    out: torch.Tensor,
    k_pool: torch.Tensor,
    v_pool: torch.Tensor,
    new_ends: torch.Tensor,
    old_ends: torch.Tensor,
    slots: torch.Tensor,
    mask: torch.Tensor | None,
    causal: bool,
    mask_ends: torch.Tensor | None,
    *args: Any,
    sm_scale: float | None = None,
    skip_prefix_custom_mask: bool = True,
    **options: Any,
) -> None:
    """Attend from new tokens to those in the pool and to each other, under the tree's mask.

    q [new, heads, d], k_new [new, kv heads, d]; ``*_ends`` delimit the sequences. Raises
    NotImplementedError for what a canary does not need: logit caps, windows, sinks.
    """
    _refuse(options)
    scale = q.shape[-1] ** -0.5 if sm_scale is None else sm_scale
    for at in range(len(new_ends) - 1):
        new = slice(int(new_ends[at]), int(new_ends[at + 1]))
        old = slots[int(old_ends[at]) : int(old_ends[at + 1])].long()
        keys = torch.cat([k_pool[old].to(q.dtype), k_new[new]])
        values = torch.cat([v_pool[old].to(q.dtype), v_new[new]])
        count, total = new.stop - new.start, len(keys)
        if mask is not None and mask_ends is not None:
            start = int(mask_ends[at])
            seen = mask[start : start + count * total].view(count, total).bool().clone()
            if skip_prefix_custom_mask:
                seen[:, : len(old)] = True
        else:
            seen = torch.ones(count, total, dtype=torch.bool)
            seen = seen.tril(len(old)) if causal else seen
        out[new] = _attend(q[new], keys, values, scale, seen)


def decode(
    q: torch.Tensor,
    k_pool: torch.Tensor,
    v_pool: torch.Tensor,
    out: torch.Tensor,
    ends: torch.Tensor,
    slots: torch.Tensor,
    attn_logits: Any,
    attn_lse: Any,
    num_kv_splits: Any,
    max_kv_splits: Any,
    sm_scale: float,
    *args: Any,
    **options: Any,
) -> None:
    """Attend from one token of each sequence to all that lie in the pool; shapes as `extend`."""
    _refuse(options)
    for at in range(q.shape[0]):
        old = slots[int(ends[at]) : int(ends[at + 1])].long()
        if len(old):
            seen = torch.ones(1, len(old), dtype=torch.bool)
            out[at] = _attend(q[at : at + 1], k_pool[old], v_pool[old], sm_scale, seen)[0]


def _attend(
    q: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, scale: float, seen: torch.Tensor
) -> torch.Tensor:
    groups = q.shape[1] // keys.shape[1]
    keys, values = keys.repeat_interleave(groups, 1), values.repeat_interleave(groups, 1)
    scores = torch.einsum("qhd,khd->hqk", q, keys.to(q.dtype)) * scale
    weights = scores.masked_fill(~seen, float("-inf")).softmax(-1)
    return torch.einsum("hqk,khd->qhd", weights, values.to(q.dtype))


def _refuse(options: dict[str, Any]) -> None:
    window = options.get("sliding_window_size")
    if options.get("logit_cap") or options.get("sinks") is not None or (window or -1) > 0:
        raise NotImplementedError("plain attention for trees knows no caps, sinks or windows")
