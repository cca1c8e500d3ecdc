"""The gated delta rule in a few lines of PyTorch, over SGLang's own state pool.

SGLang's kernels for it use builtins that Triton's interpreter lacks. Source of the formula: Yang
et al., "Gated Delta Networks" (arXiv:2412.06464), equation 10, after a short causal convolution.
"""

from __future__ import annotations

import sys
from typing import Any

import torch
from torch.nn import functional


def install() -> None:
    """Serve the plain rule, split and gated norm wherever SGLang's models reach for the kernels."""
    from sglang.kernels.ops.attention.fla.fused_norm_gate import FusedRMSNormGated
    from sglang.srt.layers.attention.linear.gdn_backend import GDNAttnBackend

    GDNAttnBackend.forward_extend = _extend
    GDNAttnBackend.forward_decode = _decode
    FusedRMSNormGated.forward = _gated_norm
    torch.cuda.current_device = _cpu


def complete_models() -> None:
    """Replace the kernels that imported models call by name: right, but slow when interpreted."""
    models = "sglang.srt.models"
    qwen3_next: Any = sys.modules.get(f"{models}.qwen3_next")
    if qwen3_next is not None:
        # The class has a way of its own for projections in the order of the checkpoint.
        qwen3_next._is_cpu, qwen3_next._is_amx_available = True, False
    qwen3_5: Any = sys.modules.get(f"{models}.qwen3_5")
    if qwen3_5 is not None:
        qwen3_5.fused_qkvzba_split_reshape_cat_contiguous = _split
        qwen3_5.fused_sigmoid_mul = _gate
    qwen2_moe: Any = sys.modules.get(f"{models}.qwen2_moe")
    if qwen2_moe is not None:
        qwen2_moe.fused_gate_sigmoid_mul_add = _add_shared_expert


def _split(
    qkvz: torch.Tensor, ba: torch.Tensor, key_heads: int, value_heads: int, key: int, value: int
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return q, k and v side by side, z by heads, b and a, from [q | k | v | z] and [b | a]."""
    width = value_heads * value
    mixed, z = qkvz.split([2 * key_heads * key + width, width], dim=-1)
    b, a = ba.chunk(2, dim=-1)
    return mixed.contiguous(), z.unflatten(-1, (value_heads, value)), b, a


def _gate(x: torch.Tensor, gate: torch.Tensor, inplace: bool = False) -> torch.Tensor:
    """Return ``x`` [tokens, width] times the sigmoid of the gate, which may come by heads."""
    gated = x * gate.reshape(x.shape).float().sigmoid().to(x.dtype)
    return x.copy_(gated) if inplace else gated


def _add_shared_expert(
    hidden: torch.Tensor, weight: torch.Tensor, shared: torch.Tensor, final: torch.Tensor
) -> None:
    """Add the shared expert's output to that of the routed ones, in place, gated per token."""
    final.add_(shared * (hidden @ weight).sigmoid().unsqueeze(-1))


def _cpu() -> torch.device:
    """Return where a module is to be built that asks for the current GPU."""
    return torch.device("cpu")


def _extend(
    self: Any,
    layer: Any,
    forward_batch: Any,
    mixed_qkv: torch.Tensor,
    a: torch.Tensor,
    b: torch.Tensor,
    **_: Any,
) -> torch.Tensor:
    """Go on from each sequence's state, or from nothing at its start."""
    lengths = [int(n) for n in forward_batch.extend_seq_lens]
    fresh = [int(n) == 0 for n in forward_batch.extend_prefix_lens]
    return _forward(self, layer, (mixed_qkv, a, b), lengths, fresh)


def _decode(
    self: Any,
    layer: Any,
    forward_batch: Any,  # noqa: ARG001
    mixed_qkv: torch.Tensor,
    a: torch.Tensor,
    b: torch.Tensor,
    **_: Any,
) -> torch.Tensor:
    """Go on by one token for each sequence."""
    lengths = [1] * mixed_qkv.shape[0]
    return _forward(self, layer, (mixed_qkv, a, b), lengths, [False] * len(lengths))


def _forward(
    backend: Any,
    layer: Any,
    inputs: tuple[torch.Tensor, torch.Tensor, torch.Tensor],
    lengths: list[int],
    fresh: list[bool],
) -> torch.Tensor:
    """Return [1, tokens, value heads, value width]; the states of the pool move on."""
    cache = backend.req_to_token_pool.mamba2_layer_cache(layer.layer_id)
    slots = [int(slot) for slot in backend.forward_metadata.mamba_cache_indices[: len(lengths)]]
    parts = zip(*(tensor.split(lengths) for tensor in inputs), slots, fresh, strict=True)
    outputs = []
    for mixed_qkv, a, b, slot, is_fresh in parts:
        if is_fresh:
            cache.conv[0][slot].zero_()
            cache.temporal[slot].zero_()
        mixed = _convolve(mixed_qkv, cache.conv[0][slot], layer)
        outputs.append(_one_sequence(mixed, a, b, cache.temporal[slot], layer))
    return torch.cat(outputs).unsqueeze(0)


def _convolve(mixed: torch.Tensor, state: torch.Tensor, layer: Any) -> torch.Tensor:
    """Convolve [tokens, width]; ``state`` [width, kernel - 1] holds the tokens before them."""
    line = torch.cat([state.to(mixed.dtype), mixed.T], dim=-1)
    state.copy_(line[:, -state.shape[-1] :])
    weights = layer.conv_weights.unsqueeze(1)
    result = functional.conv1d(line, weights, layer.bias, groups=weights.shape[0])
    return functional.silu(result).T if layer.activation in ("silu", "swish") else result.T


def _one_sequence(
    mixed: torch.Tensor, a: torch.Tensor, b: torch.Tensor, state: torch.Tensor, layer: Any
) -> torch.Tensor:
    """Return [tokens, value heads, value width]; ``state`` is [value heads, value, key]."""
    q, k, v = mixed.split([layer.q_dim, layer.k_dim, layer.v_dim], dim=-1)
    groups = layer.num_v_heads // layer.num_k_heads
    q, k = (_unit(x.unflatten(-1, (layer.num_k_heads, -1)), groups) for x in (q, k))
    q = q * layer.head_k_dim**-0.5
    v = v.unflatten(-1, (layer.num_v_heads, -1)).float()
    decay = (-layer.A_log.float().exp() * functional.softplus(a.float() + layer.dt_bias)).exp()
    rate = b.float().sigmoid()
    now, outputs = state.float(), []
    for at in range(mixed.shape[0]):
        now = now * decay[at, :, None, None]
        error = v[at] - torch.einsum("hvk,hk->hv", now, k[at])
        now = now + torch.einsum("hv,hk->hvk", error * rate[at, :, None], k[at])
        outputs.append(torch.einsum("hvk,hk->hv", now, q[at]))
    state.copy_(now)
    return torch.stack(outputs).to(mixed.dtype)


def _unit(x: torch.Tensor, groups: int) -> torch.Tensor:
    """Return [tokens, heads, width] at length one, each head repeated for its value heads."""
    x = x.float()
    x = x * torch.rsqrt(x.square().sum(-1, keepdim=True) + 1e-6)
    return x.repeat_interleave(groups, dim=1)


def _gated_norm(self: Any, x: torch.Tensor, g: torch.Tensor, *_: Any, **__: Any) -> torch.Tensor:
    """Return the RMS norm of ``x`` times the activation of the gate."""
    normed = x.float() * torch.rsqrt(x.float().square().mean(-1, keepdim=True) + self.eps)
    gate = g.float().sigmoid() if self.activation == "sigmoid" else functional.silu(g.float())
    return (normed * self.weight.float() * gate).to(x.dtype)
