"""The same tokens through a target in one extend and in other steps: their states must agree."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from eagle3_contracts.serving.sglang import capture
from eagle3_contracts.serving.sglang.compare import REFERENCE, error_between
from eagle3_contracts.serving.sglang.jobs import PROMPT
from eagle3_contracts.serving.sglang.runtime import Runtime, request
from eagle3_contracts.serving.sglang.starting import fill
from eagle3_contracts.serving.sglang.untouched import untouched

CHUNK = 4
"""Tokens of the first of two chunks."""

LONGER = (2, *PROMPT, 37, 41)
"""Token ids of another request in the same batch."""


class Steps:
    """A loaded target whose capture is configured, and the ways to run PROMPT through it."""

    def __init__(self, runtime: Runtime, num_layers: int, hidden_size: int) -> None:
        self.runtime = runtime
        self.layers, self.hidden = num_layers, hidden_size

    def facts(self) -> dict[str, Any]:
        """Return how far the states of each way are from those of one extend."""
        whole = self._states(self._whole)
        tolerance = REFERENCE[self.runtime.target.dtype]
        ways = {"chunked": self._chunked, "decoded": self._decoded, "batched": self._batched}
        errors = {name: error_between(self._states(way), whole) for name, way in ways.items()}
        agrees = {f"{name}_agrees": error <= tolerance for name, error in errors.items()}
        return {"tokens": len(PROMPT), "states_of": whole.shape[0], **errors, **agrees}

    def _states(self, way: Callable[[], list[torch.Tensor]]) -> torch.Tensor:
        """Return the states of PROMPT as [tokens, states x hidden]; without any, [0, 0]."""
        with untouched(self.runtime.target):
            parts = way()
        widths = {part.shape[-1] for part in parts}
        return torch.cat(parts) if len(widths) == 1 else torch.empty(0, 0)

    def _whole(self) -> list[torch.Tensor]:
        return [self._seen(lambda: self.runtime.extend(PROMPT))[0]]

    def _chunked(self) -> list[torch.Tensor]:
        chunk = request(PROMPT)
        fill(chunk, 0, CHUNK)
        first, _ = self._seen(lambda: self.runtime.extend_requests([chunk]))
        fill(chunk, CHUNK, len(PROMPT), self.runtime.target.req_to_token_pool.req_to_token)
        second, _ = self._seen(lambda: self.runtime.extend_requests([chunk]))
        return [first, second]

    def _decoded(self) -> list[torch.Tensor]:
        before, (batch, _) = self._seen(lambda: self.runtime.extend(PROMPT[:-1]))
        last, _ = self._seen(lambda: self.runtime.decode(batch, PROMPT[-1]))
        return [before, last]

    def _batched(self) -> list[torch.Tensor]:
        requests = [request(LONGER), request(PROMPT)]
        both, _ = self._seen(lambda: self.runtime.extend_requests(requests))
        return [both[len(LONGER) :]]

    def _seen(self, run: Callable[[], Any]) -> tuple[torch.Tensor, Any]:
        model = self.runtime.target.model
        with capture.recording(model, self.layers, self.hidden) as record:
            result = run()
        return torch.cat(record.aux, dim=-1) if record.aux else torch.empty(0, 0), result
