"""Causal attention in a few lines of PyTorch, over SGLang's own KV pools.

SGLang's torch_native backend knows neither MLA nor logit caps nor sinks, and its Triton kernels
take seconds under the interpreter. What is tested is which states a model hands out, so the
attention only has to be right.
"""

from __future__ import annotations

from typing import Any

import torch
from sglang.srt.layers.attention.attention_registry import ATTENTION_BACKENDS
from sglang.srt.layers.attention.base_attn_backend import AttentionBackend
from sglang.srt.layers.radix_attention import AttentionType
from sglang.srt.mem_cache.memory_pool import KVWriteLoc

REPLACES = "triton"
"""Backend whose place it takes: the name decides which MLA path SGLang's models choose."""


def install() -> None:
    """Serve the plain attention where SGLang asks for the backend that it replaces."""
    ATTENTION_BACKENDS[REPLACES] = PlainAttention


class PlainAttention(AttentionBackend):
    """One sequence after the other, softmax over explicit scores, in the dtype of the query."""

    def __init__(self, runner: Any) -> None:
        super().__init__()
        self.req_to_token_pool = runner.req_to_token_pool
        self.token_to_kv_pool = runner.token_to_kv_pool

    def init_forward_metadata(self, forward_batch: Any) -> None:
        """Do nothing: everything needed stands in the batch."""

    def forward_extend(
        self,
        q: torch.Tensor,
        k: torch.Tensor | None,
        v: torch.Tensor | None,
        layer: Any,
        forward_batch: Any,
        save_kv_cache: bool = True,
        **options: Any,
    ) -> torch.Tensor:
        """Attend from the new tokens of each sequence; shapes [tokens, heads x head_dim]."""
        self._save(k, v, layer, forward_batch, save_kv_cache)
        lengths = [int(n) for n in forward_batch.extend_seq_lens]
        fresh = not any(int(n) for n in forward_batch.extend_prefix_lens)
        if fresh and k is not None and v is not None:
            # MLA's first extend attends to decompressed keys that never enter the pool.
            keys, values = list(k.split(lengths)), list(v.split(lengths))
        else:
            keys, values = self._cached(layer, forward_batch)
        return _attend(q, keys, values, lengths, layer, options.get("sinks"))

    def forward_decode(
        self,
        q: torch.Tensor,
        k: torch.Tensor | None,
        v: torch.Tensor | None,
        layer: Any,
        forward_batch: Any,
        save_kv_cache: bool = True,
        **options: Any,
    ) -> torch.Tensor:
        """Attend from one new token of each sequence; shapes [sequences, heads x head_dim]."""
        self._save(k, v, layer, forward_batch, save_kv_cache)
        keys, values = self._cached(layer, forward_batch)
        return _attend(q, keys, values, [1] * len(keys), layer, options.get("sinks"))

    def _save(
        self, k: torch.Tensor | None, v: torch.Tensor | None, layer: Any, batch: Any, save: bool
    ) -> None:
        if save and k is not None and v is not None:
            self.token_to_kv_pool.set_kv_buffer(layer, KVWriteLoc(batch.out_cache_loc, None), k, v)

    def _cached(self, layer: Any, batch: Any) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
        keys = self.token_to_kv_pool.get_key_buffer(layer.layer_id)
        values = self.token_to_kv_pool.get_value_buffer(layer.layer_id)
        rows = zip(batch.req_pool_indices, batch.seq_lens, strict=True)
        slots = [self.req_to_token_pool.req_to_token[row, : int(n)].long() for row, n in rows]
        return [keys[at] for at in slots], [values[at] for at in slots]


def _attend(
    q: torch.Tensor,
    keys: list[torch.Tensor],
    values: list[torch.Tensor],
    lengths: list[int],
    layer: Any,
    sinks: torch.Tensor | None,
) -> torch.Tensor:
    queries = q.reshape(-1, layer.tp_q_head_num, layer.qk_head_dim).split(lengths)
    parts = [
        _one_sequence(query, key.to(q.dtype), value.to(q.dtype), layer, sinks)
        for query, key, value in zip(queries, keys, values, strict=True)
    ]
    return torch.cat(parts).reshape(q.shape[0], layer.tp_q_head_num * layer.v_head_dim)


def _one_sequence(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, layer: Any, sinks: Any
) -> torch.Tensor:
    """query [new, heads, d], key [all, kv heads, d], value [all, kv heads, dv]."""
    groups = layer.tp_q_head_num // key.shape[1]
    key = key.repeat_interleave(groups, dim=1)
    value = value.repeat_interleave(groups, dim=1)
    scores = torch.einsum("qhd,khd->hqk", query, key) * layer.scaling
    if layer.logit_cap and layer.logit_cap > 0:
        scores = layer.logit_cap * torch.tanh(scores / layer.logit_cap)
    scores = scores.masked_fill(~_visible(scores, layer), float("-inf"))
    if sinks is not None:
        sink = sinks.to(scores.dtype).view(-1, 1, 1).expand(-1, scores.shape[1], 1)
        scores = torch.cat([scores, sink], dim=-1)
    weights = scores.softmax(dim=-1)[..., : key.shape[0]]
    return torch.einsum("hqk,khd->qhd", weights, value)


def _visible(scores: torch.Tensor, layer: Any) -> torch.Tensor:
    new, total = scores.shape[1:]
    if layer.is_cross_attention or layer.attn_type == AttentionType.ENCODER_ONLY:
        return torch.ones(new, total, dtype=torch.bool, device=scores.device)
    at = torch.arange(total - new, total, device=scores.device).unsqueeze(1)
    to = torch.arange(total, device=scores.device).unsqueeze(0)
    visible = to <= at
    if layer.sliding_window_size and layer.sliding_window_size > 0:
        visible &= to >= at - layer.sliding_window_size
    return visible
