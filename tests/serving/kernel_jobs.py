"""Jobs for the tests of the plain kernels, run where SGLang and its Triton kernels are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from sglang.kernels.ops.attention.decode_attention import decode_attention_fwd
from sglang.kernels.ops.attention.extend_attention import extend_attention_fwd

from eagle3_contracts.serving.sglang import kernels

HEADS, KV_HEADS, WIDTH = 4, 2, 16
PREFIXES, NEW = (5, 0, 9), (4, 3, 1)


def kernel_errors(_: Mapping[str, Any]) -> dict[str, float]:
    """Return the largest difference from SGLang's interpreted Triton kernels, by case."""
    torch.manual_seed(0)
    cases: dict[str, dict[str, Any]] = {
        "causal": {},
        "tree": {"tree": True},
        "window": {"sliding_window_size": 2},
        "logit cap": {"logit_cap": 2.0},
        "sinks": {"sinks": torch.randn(HEADS)},
    }
    errors = {name: _extend_error(**options) for name, options in cases.items()}
    return {**errors, "decode": _decode_error()}


def _extend_error(*, tree: bool = False, **options: Any) -> float:
    q, k, v, pools, starts, slots = _batch(sum(NEW))
    mask, mask_starts = _trees() if tree else (None, None)
    outs = [torch.zeros(sum(NEW), HEADS, WIDTH) for _ in range(2)]
    for out, kernel in zip(outs, (extend_attention_fwd, kernels.extend), strict=True):
        kernel(
            q, k, v, out, *pools, _starts(NEW), starts, slots, mask, True, mask_starts, max(NEW),
            1.0, 1.0, sm_scale=0.3, **options,
        )  # fmt: skip
    return float((outs[0] - outs[1]).abs().max())


def _decode_error() -> float:
    q, _, _, pools, _, slots = _batch(2)
    starts = torch.tensor([0, 5, 14])
    outs = [torch.zeros(2, HEADS, WIDTH) for _ in range(2)]
    logits, lse = torch.zeros(2, HEADS, 1, WIDTH), torch.zeros(2, HEADS, 1)
    splits = torch.ones(2, dtype=torch.int32)
    for out, kernel in zip(outs, (decode_attention_fwd, kernels.decode), strict=True):
        kernel(q, *pools, out, starts, slots, logits, lse, splits, 1, 0.3, 1.0, 1.0)
    return float((outs[0] - outs[1]).abs().max())


def _batch(new: int) -> tuple[Any, ...]:
    q, k = torch.randn(new, HEADS, WIDTH), torch.randn(new, KV_HEADS, WIDTH)
    pools = [torch.randn(32, KV_HEADS, WIDTH) for _ in range(2)]
    slots = torch.randperm(32)[: sum(PREFIXES)]
    return q, k, torch.randn_like(k), pools, _starts(PREFIXES), slots


def _starts(lengths: tuple[int, ...]) -> torch.Tensor:
    return torch.tensor([0, *lengths]).cumsum(0)


def _trees() -> tuple[torch.Tensor, torch.Tensor]:
    """Return masks in which every second new token cannot see the first one."""
    parts = []
    for prefix, new in zip(PREFIXES, NEW, strict=True):
        mask = torch.ones(new, prefix + new).tril(prefix).bool()
        mask[2::2, prefix] = False
        parts.append(mask.flatten())
    return torch.cat(parts), _starts(tuple(len(part) for part in parts))
