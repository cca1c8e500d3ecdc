"""Jobs for the tests, run in a process that has SGLang: plain JSON in, plain JSON out."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import torch
from sglang.srt.layers.radix_attention import AttentionType
from sglang.srt.models.registry import ModelRegistry
from transformers import CONFIG_MAPPING

from eagle3_contracts.serving.sglang import configs, loading, starting
from eagle3_contracts.serving.sglang.attention import _one_sequence
from eagle3_contracts.serving.sglang.capture import Recording
from eagle3_contracts.serving.sglang.compare import Comparison
from eagle3_contracts.serving.sglang.reference import make_up

Answer = dict[str, Any]


def attention_errors(_: Mapping[str, Any]) -> Answer:
    """Return the largest difference from an explicit computation in float64, by case."""
    torch.manual_seed(0)
    query, key, value = torch.randn(3, 4, 8), torch.randn(7, 2, 8), torch.randn(7, 2, 6)
    sinks = torch.randn(4)
    cases = {
        "grouped heads, prefix": (_layer(), None),
        "sliding window": (_layer(sliding_window_size=2), None),
        "logit cap": (_layer(logit_cap=1.5), None),
        "sinks": (_layer(), sinks),
    }
    return {name: _error(query, key, value, layer, sink) for name, (layer, sink) in cases.items()}


def unfilled_layers(_: Mapping[str, Any]) -> Answer:
    """Return what is said of layers that were loaded whole, and of one that was not."""
    with starting.unfilled_as_nan():
        layers = [
            torch.nn.utils.skip_init(torch.nn.Linear, 3, 2),
            torch.nn.utils.skip_init(torch.nn.Linear, 3, 2),
        ]
    for parameter in [*layers[0].parameters(), layers[1].bias]:
        torch.nn.init.zeros_(parameter)
    said = {}
    for name, part in {"whole": layers[:1], "gap": layers}.items():
        try:
            starting.require_filled(part)
            said[name] = ""
        except LookupError as error:
            said[name] = str(error)
    return {**said, "still_filling": torch.are_deterministic_algorithms_enabled()}


def _layer(**options: Any) -> SimpleNamespace:
    plain = {"sliding_window_size": -1, "logit_cap": 0.0, "scaling": 0.3, "tp_q_head_num": 4}
    kinds = {"is_cross_attention": False, "attn_type": AttentionType.DECODER}
    return SimpleNamespace(**{**plain, **kinds, **options})


def _error(query: Any, key: Any, value: Any, layer: Any, sinks: Any) -> float:
    ours = _one_sequence(query, key, value, layer, sinks)
    worst = 0.0
    for row in range(query.shape[0]):
        at = key.shape[0] - query.shape[0] + row
        first = max(0, at - layer.sliding_window_size) if layer.sliding_window_size > 0 else 0
        for head in range(4):
            keys, values = key[first : at + 1, head // 2], value[first : at + 1, head // 2]
            scores = (keys.double() @ query[row, head].double()) * layer.scaling
            if layer.logit_cap:
                scores = layer.logit_cap * torch.tanh(scores / layer.logit_cap)
            weights = scores.exp()
            total = weights.sum() + (sinks[head].double().exp() if sinks is not None else 0)
            expected = (weights / total) @ values.double()
            worst = max(worst, (ours[row, head].double() - expected).abs().max().item())
    return worst


class _Draft(torch.nn.Module):
    """Loads as SGLang's drafts do: fuses q and k, keeps a map, passes over other names."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv_proj = torch.nn.Parameter(torch.empty(4, 3))
        self.norm = torch.nn.Parameter(torch.empty(3))
        self.map: Any = None

    def load_weights(self, weights: Any) -> None:
        for name, tensor in weights:
            if name in ("q", "k"):
                half = self.qkv_proj.data.narrow(0, 0 if name == "q" else 2, 2)
                assert half.shape == tensor.shape
                half.copy_(tensor)
            elif name == "norm":
                self.norm.data.copy_(tensor)
            elif name == "d2t":
                self.map = tensor + 1


def loaded(payload: Mapping[str, Any]) -> Answer:
    """Return what became of the tensors of a header."""
    with torch.device("meta"):
        model = _Draft()
    result = loading.load(model, payload["header"])
    return {
        "ignored": result.ignored,
        "wrong_shapes": result.wrong_shapes,
        "refusal": result.refusal,
        "unfilled": loading.unfilled(model, result.filled, payload.get("shared", [])),
    }


def compared(_: Mapping[str, Any]) -> Answer:
    """Return how states that are, nearly are, and are not boundaries are judged."""
    torch.manual_seed(0)
    boundaries = {k: torch.randn(4, 8) for k in range(4)}
    nearly = boundaries[3] * (1 + 1e-7)
    other = 0.5 * (boundaries[1] + boundaries[2])
    broken = torch.full((4, 8), float("nan"))
    states = {
        "in order": [boundaries[1], nearly],
        "swapped": [boundaries[3], boundaries[1]],
        "between": [other],
        "not a number": [broken],
        "another width": [torch.randn(4, 9)],
        "none": [],
    }
    answer = {}
    for name, aux in states.items():
        seen = Comparison(Recording(boundaries=boundaries, aux=aux), torch.float32)
        answer[name] = [seen.nearest, seen.exact]
    return answer


def capturing(_: Mapping[str, Any]) -> Answer:
    """Return the registered classes that have the hook which configures capture."""
    models = ModelRegistry.models.items()
    return {"names": [n for n, kind in models if hasattr(kind, "set_eagle3_layers_to_capture")]}


def registered(payload: Mapping[str, Any]) -> Answer:
    """Return whether transformers knows a config's model type afterwards, and what it reads."""
    config = payload["config"]
    configs.register(config)
    if config["model_type"] not in CONFIG_MAPPING:
        return {"known": False}
    read = CONFIG_MAPPING[config["model_type"]].from_dict(dict(config))
    return {"known": True, "class": type(read).__name__, "rope": read.rope_parameters}


def made_up(_: Mapping[str, Any]) -> Answer:
    """Return the mean size of the made-up weights of a module, by parameter."""
    parts = {"norm": torch.nn.RMSNorm(512), "proj": torch.nn.Linear(64, 64)}
    model = torch.nn.ModuleDict(parts)
    for parameter in model.parameters():
        parameter.data.fill_(1e-3)
    make_up(model)
    return {name: p.abs().mean().item() for name, p in model.named_parameters()}
