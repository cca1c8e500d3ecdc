"""What SGLang's native operators lack on a plain CPU, and nothing else.

Each function says what is missing; none of them touches how a model captures its states.
"""

from __future__ import annotations

import inspect
import sys
from typing import Any

import torch

from eagle3_contracts.serving.sglang import gated_delta


def complete_operators() -> None:
    """Complete the operators that models call; once per process, before any model is built."""
    _triton_trees()
    _plain_rope()
    _rope_in_place()
    _router_weight_on_input()
    # Some drafts call it whatever they run on.
    torch.cuda.synchronize = _nothing


def complete_models() -> None:
    """Correct the models that take a way of their own off CUDA; they must be imported already."""
    llama4: Any = sys.modules.get("sglang.srt.models.llama4")
    if llama4 is not None:
        # Off CUDA its attention computes in bfloat16 whatever the model's dtype is. Its experts
        # need streams on CUDA, so they stay on the other way.
        llama4._is_cuda = True
        llama4.Llama4MoE._forward_core = lambda self, hidden, _: self._forward_core_normal(hidden)
    gated_delta.complete_models()
    minimax: Any = sys.modules.get("sglang.srt.models.minimax_m2")
    if minimax is not None:
        # The norm over all heads of queries and keys is a kernel that insists on CUDA tensors.
        minimax.rms_sumsq_serial = _square_sums
        minimax.rms_apply_serial = _apply_norms


def _square_sums(q: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
    """Return the sums of squares of q and k, each [tokens, width], as [tokens, 2]."""
    return torch.stack([x.float().square().sum(-1) for x in (q, k)], dim=-1)


def _apply_norms(
    q: torch.Tensor,
    k: torch.Tensor,
    q_weight: torch.Tensor,
    k_weight: torch.Tensor,
    sums: torch.Tensor,
    world_size: int,
    eps: float,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the RMS norms of q and k, whose width is split over ``world_size`` ranks."""
    parts = ((q, q_weight, sums[:, :1]), (k, k_weight, sums[:, 1:]))
    normed = [
        (x.float() * torch.rsqrt(total / (x.shape[-1] * world_size) + eps) * weight).to(x.dtype)
        for x, weight, total in parts
    ]
    return normed[0], normed[1]


def skip_warm_ups() -> None:
    """Leave out the first run of the KV copy kernel: a second when interpreted, for trees only."""
    from sglang.srt.mem_cache.memory_pool import MHATokenToKVPool

    MHATokenToKVPool._init_kv_copy_and_warmup = _nothing


def _nothing(_: Any = None) -> None:
    """Stand in for a function that has nothing to do on a CPU."""


def _triton_trees() -> None:
    """Send tree building and cache locations to SGLang's Triton versions.

    The out-of-tree branches of these two modules refuse or return None; their XPU branches use
    nothing but Triton, which TRITON_INTERPRET runs on CPU tensors.
    """
    from sglang.kernels.ops.speculative import cache_locs, spec_tree

    spec_tree._is_xpu = True
    cache_locs._is_xpu = True


def _plain_rope() -> None:
    """Let the CPU's rope factory, which knows deepseek_yarn alone, pass on all others."""
    from sglang.srt.layers.rotary_embedding import factory

    only_yarn = factory.get_rope_cpu
    signature = inspect.signature(only_yarn)

    def get_rope_cpu(*args: Any, **kwargs: Any) -> Any:
        given = signature.bind(*args, **kwargs).arguments
        if (given.get("rope_scaling") or {}).get("rope_type") == "deepseek_yarn":
            return only_yarn(**given)
        return factory.get_rope(**{k: v for k, v in given.items() if k != "device"})

    factory.get_rope_cpu = get_rope_cpu


def _rope_in_place() -> None:
    """Rotate queries and keys in place, as the CUDA kernel does; Llama 4 relies on it."""
    from sglang.srt.layers.rotary_embedding.base import RotaryEmbedding

    out_of_place = RotaryEmbedding.forward_native

    def forward_native(
        self: Any, positions: Any, query: torch.Tensor, key: torch.Tensor, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        rotated = out_of_place(self, positions, query, key, *args, **kwargs)
        return query.copy_(rotated[0]), key.copy_(rotated[1])

    RotaryEmbedding.forward_native = forward_native


def _router_weight_on_input() -> None:
    """Multiply an expert's input by its router weight when asked to, for one expert per token."""
    from sglang.srt.layers.moe import fused_moe_native

    on_output = fused_moe_native.moe_forward_native

    def moe_forward_native(layer: Any, x: torch.Tensor, topk: Any, config: Any) -> torch.Tensor:
        if config.apply_router_weight_on_input and topk.topk_weights.shape[-1] == 1:
            x = x * topk.topk_weights.to(x.dtype)
            topk = topk._replace(topk_weights=torch.ones_like(topk.topk_weights))
            config = type(config)(**{**vars(config), "apply_router_weight_on_input": False})
        result: torch.Tensor = on_output(layer, x, topk, config)
        return result

    fused_moe_native.moe_forward_native = moe_forward_native
