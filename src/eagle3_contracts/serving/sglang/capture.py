"""Reading what a running SGLang target captures, and the residual stream to compare it with.

Nothing here changes what the model computes: module hooks read the decoder layers' inputs, and
the logits processor, where every target hands over its aux hidden states, is listened to at
class level (wrappers call their inner model's instance).
"""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from sglang.srt.layers.logits_processor import LogitsProcessor


@dataclass(slots=True)
class Recording:
    """One forward: boundaries 0 to n as [tokens, hidden], and the aux states that arrived.

    ``aux`` is None when the logits processor got none; ``handed`` is what the engine gives the
    draft: the aux states side by side or, without any, the last hidden state. ``final`` is the
    state that the head reads, [tokens, hidden].
    """

    boundaries: dict[int, torch.Tensor] = field(default_factory=dict)
    aux: list[torch.Tensor] | None = None
    handed: torch.Tensor | None = None
    final: torch.Tensor | None = None


@contextlib.contextmanager
def recording(model: torch.nn.Module, num_layers: int, hidden_size: int) -> Iterator[Recording]:
    """Record one forward of ``model``, a target with ``num_layers`` layers."""
    record = Recording()
    layers = decoder_layers(model, num_layers)
    hooks = [hook for at, layer in enumerate(layers) for hook in _listen(layer, at, record)]
    try:
        with _listening(record, hidden_size):
            yield record
    finally:
        for hook in hooks:
            hook.remove()


def decoder_layers(model: torch.nn.Module, num_layers: int) -> list[torch.nn.Module]:
    """Return the decoder layers: the outermost list of that length whose members attend.

    Raises LookupError when there is none, for instance for a class that builds its layers lazily.
    """
    for name, module in model.named_modules():
        is_list = isinstance(module, torch.nn.ModuleList) and len(module) == num_layers
        if is_list and "vision" not in name and "visual" not in name:
            return list(module)
    raise LookupError(f"{type(model).__name__} has no list of {num_layers} decoder layers")


def _listen(layer: torch.nn.Module, at: int, record: Recording) -> list[Any]:
    signature = inspect.signature(layer.forward)

    def before(_: Any, args: Any, kwargs: Any) -> None:
        given = signature.bind(*args, **kwargs).arguments
        given = {**given.pop("kwargs", {}), **given}
        hidden, batch = given["hidden_states"], given.get("forward_batch")
        record.boundaries[at] = _stream(hidden, given.get("residual"), batch)

    def after(_: Any, args: Any, kwargs: Any, output: Any) -> None:
        given = signature.bind(*args, **kwargs).arguments
        hidden, residual = output[:2] if isinstance(output, tuple) else (output, None)
        record.boundaries[at + 1] = _stream(hidden, residual, given.get("forward_batch"))

    return [
        layer.register_forward_pre_hook(before, with_kwargs=True),
        layer.register_forward_hook(after, with_kwargs=True),
    ]


def _stream(hidden: torch.Tensor, residual: Any, batch: Any) -> torch.Tensor:
    """Return the residual stream, wherever this layer keeps the part not yet added."""
    if isinstance(residual, torch.Tensor):
        return hidden + residual
    if batch is not None and getattr(batch, "residual_stream", None) is not None:
        # Releases without such a stream lack the module.
        from sglang.srt.layers.layer_boundary.residual import batch as residual_batch

        return torch.as_tensor(residual_batch.snapshot(hidden, batch))
    return hidden.clone()


@contextlib.contextmanager
def _listening(record: Recording, hidden_size: int) -> Iterator[None]:
    original = LogitsProcessor.forward
    signature = inspect.signature(original)

    def forward(self: Any, *args: Any, **kwargs: Any) -> Any:
        given = signature.bind(self, *args, **kwargs).arguments
        record.aux = _as_list(given.get("aux_hidden_states"), hidden_size)
        record.final = given["hidden_states"].detach().clone()
        output = original(self, *args, **kwargs)
        if output.hidden_states is not None:
            record.handed = output.hidden_states.detach().clone()
        return output

    LogitsProcessor.forward = forward
    try:
        yield
    finally:
        LogitsProcessor.forward = original


def _as_list(aux: Any, hidden_size: int) -> list[torch.Tensor] | None:
    """Return the states one by one; they arrive as a list or packed [tokens, k x hidden]."""
    if aux is None:
        return None
    if isinstance(aux, torch.Tensor):
        return [part.detach().clone() for part in aux.split(hidden_size, dim=-1)]
    return [state.detach().clone() for state in aux]


def marked_layers(model: torch.nn.Module) -> list[int] | None:
    """Return the layers that the inner decoder has marked for capture, as it numbers them.

    Decoders either hold a list ``layers_to_capture`` or flag the layers; None: neither is there.
    """
    listed = [m.layers_to_capture for m in model.modules() if hasattr(m, "layers_to_capture")]
    flagged = [
        at
        for module in model.modules()
        if isinstance(module, torch.nn.ModuleList)
        for at, layer in enumerate(module)
        if getattr(layer, "_is_layer_to_capture", False)
    ]
    if flagged:
        return flagged
    return sorted(int(at) for at in listed[0]) if listed else None


def inner_flag(model: torch.nn.Module) -> bool | None:
    """Return the capture flag of the innermost causal model; None: it has none."""
    flags = [
        bool(module.capture_aux_hidden_states)
        for module in model.modules()
        if hasattr(module, "capture_aux_hidden_states")
    ]
    return flags[-1] if flags else None
