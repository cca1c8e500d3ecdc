"""The boundaries of a sequence, computed anew with SGLang's real class and the real weights."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from eagle3_contracts.features.identify import Array
from eagle3_contracts.features.match import Candidate
from eagle3_contracts.modelconfig import language_model
from eagle3_contracts.serving.sglang.capture import decoder_layers, recording
from eagle3_contracts.serving.sglang.compare import REFERENCE, error_between
from eagle3_contracts.serving.sglang.runtime import Plan, Runtime

DTYPES = {"cpu": "float32", "cuda": "bfloat16"}
"""Dtype to compute in, by device; a plain CPU has no half-precision kernels that are right."""


class Target:
    """A target with its weights, run by SGLang without any speculation.

    ``path`` is a directory with config.json and safetensors; ``tokens`` is the length of the
    longest sequence. Whatever SGLang raises for a class or weights that it cannot run passes
    through.
    """

    def __init__(self, path: Path, config: Mapping[str, Any], device: str, tokens: int) -> None:
        text = language_model(config)[0]
        self.num_layers, self.hidden = text["num_hidden_layers"], text["hidden_size"]
        self.vocab_size = text["vocab_size"]
        plan = Plan(path, None, None, device, DTYPES[device], context=tokens + 1)
        self._runtime = Runtime(plan)
        self._runtime.configure()
        self.class_name = type(self._runtime.target.model).__name__

    def states(self, tokens: Sequence[int]) -> dict[Candidate, Array]:
        """Return every boundary of ``tokens``, [T, H], and what the final norm makes of each.

        The last boundary's is the state that the head reads. The others are left out when no
        module of the model computes that one.
        """
        model = self._runtime.target.model
        with recording(model, self.num_layers, self.hidden) as record:
            self._runtime.extend(tokens)
        self._runtime.forget()
        found = {Candidate(k): _array(state) for k, state in record.boundaries.items()}
        last = record.boundaries[self.num_layers]
        assert record.final is not None
        norm = _final_norm(model, self.num_layers, last, record.final)
        if norm is not None:
            for k, state in record.boundaries.items():
                found[Candidate(k, True)] = _array(norm(state.clone()))
        found[Candidate(self.num_layers, True)] = _array(record.final)
        return found


@torch.no_grad()
def _final_norm(model: Any, num_layers: int, last: torch.Tensor, final: torch.Tensor) -> Any:
    """Return the module beside the decoder layers that turns ``last`` into ``final``."""
    for module in _beside(model, decoder_layers(model, num_layers)[0]):
        weight = getattr(module, "weight", None)
        if weight is not None and weight.shape == last.shape[-1:]:
            error = error_between(module(last.clone()), final)
            if error <= REFERENCE[final.dtype]:
                return module
    return None


def _beside(model: Any, layer: Any) -> Iterator[Any]:
    """Yield the modules whose parent holds the list that ``layer`` is in."""
    for parent in model.modules():
        children = list(parent.children())
        if any(layer in child.children() for child in children):
            yield from children


def _array(states: torch.Tensor) -> Array:
    array: Array = states.detach().float().cpu().numpy()
    return array
