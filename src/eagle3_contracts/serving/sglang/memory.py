"""The memory canary of a twin: what it says by the training path, learnt by heart, then served.

Two jobs: the first extracts, the second fits a draft to what was extracted and serves both. Only
the first knows nothing of capture, so where the two disagree, extraction and inference do.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.numpy import save_file

from eagle3_contracts.canary import memory
from eagle3_contracts.serving.sglang import reference, starting, twin
from eagle3_contracts.serving.sglang.jobs import (
    Payload,
    UnavailableError,
    answered,
    language_of,
    needed,
    plan_twins,
)
from eagle3_contracts.serving.sglang.scheduler import Serving, total_kept
from eagle3_contracts.serving.sglang.verified import Verified, watch

PROMPTS = 4
"""Prompts of a canary: with the neighbours of a boundary told apart, three rows for each remembered
token have to be fewer than the twin is wide."""

NEW_TOKENS = 5
"""Tokens of an answer: the prefill's own, and two steps of a drafted one and the one after it."""

_CANDIDATES, _LENGTH = 16, 8


@answered
def remember(payload: Payload) -> dict[str, Any]:
    """Let the target's twin answer by the training path; yields what `serve` needs.

    ``payload``: as for ``run_twin``, and ``boundaries``, the trained ones. Yields ``prompts``,
    ``outputs``, ``states`` and ``drafted`` of `memory.Remembered`, and ``source``: whose they are.
    """
    with tempfile.TemporaryDirectory() as folder, needed("computing the twin's states"):
        plan = plan_twins({**payload, "algorithm": None}, Path(folder), payload["draft"])
        if plan.reference is None:
            return {"absent": "transformers has no class for the target"}
        text = language_of(twin.target_twin(payload["target"], plan.dtype))
        model = reference.build(text)
        said = _answers(model, _candidates())
        streams = reference.boundaries(model, said)
    if not set(payload["boundaries"]) <= set(range(len(streams))):
        return {"absent": f"the target has no boundary {max(payload['boundaries'])}"}
    return {
        "source": plan.reference.name,
        "prompts": said[:, :_LENGTH].tolist(),
        "outputs": said[:, _LENGTH:].tolist(),
        **_remembered(said, streams, payload["boundaries"]),
    }


def _candidates() -> torch.Tensor:
    """Return prompts of tokens that no config gives a meaning, [candidates, length]."""
    tokens = np.random.default_rng(0).integers(1, twin.VOCAB // 2, (_CANDIDATES, _LENGTH))
    return torch.from_numpy(tokens)


@torch.no_grad()
def _answers(model: Any, ids: torch.Tensor) -> torch.Tensor:
    """Return the prompts that are answered most decidedly, with their answers behind them.

    Between two tokens that are nearly as likely, SGLang may decide otherwise, and be right.
    """
    margin = torch.full((len(ids),), float("inf"))
    for _ in range(NEW_TOKENS):
        best = model(ids, use_cache=False).logits[:, -1].float().topk(2)
        margin = torch.minimum(margin, best.values[:, 0] - best.values[:, 1])
        ids = torch.cat([ids, best.indices[:, :1]], dim=1)
    return ids[margin.argsort(descending=True)[:PROMPTS]]


def _remembered(
    said: torch.Tensor, streams: Sequence[torch.Tensor], boundaries: Sequence[int]
) -> dict[str, Any]:
    """The draft is given the state of one token and the id of the next: it drafts the one after."""
    near = {at + off for at in boundaries for off in memory.NEIGHBOURS}
    rows = slice(_LENGTH - 1, -2)
    return {
        "states": {
            str(at): streams[at][:, rows].flatten(0, 1).tolist()
            for at in sorted(near & set(range(len(streams))))
        },
        "drafted": said[:, _LENGTH + 1 :].flatten().tolist(),
    }


@answered
def serve(payload: Payload) -> dict[str, Any]:
    """Fit a draft to ``remembered``, the answer of `remember`, and serve it with the twin.

    ``payload`` holds that of `remember` besides, the algorithm included. Yields the fields of
    ``memory`` that only a server knows.
    """
    if not starting.PUBLISHES:
        raise UnavailableError("the scheduler is served from SGLang 0.5.22 on")
    learnt = payload["remembered"]
    states = {int(at): np.array(rows) for at, rows in learnt["states"].items()}
    what = memory.Remembered(tuple(payload["boundaries"]), states, learnt["drafted"])
    code = memory.code_of(what, twin.VOCAB)
    with needed("fitting a draft"):
        fc = memory.fit(what, code)
    verified: list[Verified] = []
    try:
        outputs, kept = _served(payload, fc, code, verified)
    except Exception as error:
        return {"refusal": f"{type(error).__name__}: {error}"}
    pairs = [(drafted[0], target[0]) for drafted, target in verified]
    return {
        "outputs": outputs,
        "kept": kept,
        "drafts": len(pairs),
        "right": sum(drafted == target for drafted, target in pairs),
        "wrong": memory.wrong_states(what.boundaries, code, pairs),
    }


def _served(
    payload: Payload, fc: memory.Array, code: memory.Code, verified: list[Verified]
) -> tuple[list[list[int]], list[int]]:
    eagle = payload["draft"].get("eagle_config") or {}
    config = memory.draft_config(twin.HIDDEN, twin.VOCAB, code, eagle)
    with tempfile.TemporaryDirectory() as folder:
        plan = plan_twins(payload, Path(folder), config)
        assert plan.draft is not None
        save_file(memory.draft_weights(fc, code), plan.draft / "model.safetensors")
        serving = Serving(replace(plan, steps=1, draft_load_format="auto"))
        watch(verified.extend)
        served = serving.generate(payload["remembered"]["prompts"], NEW_TOKENS)
    return [one.output_ids for one in served], total_kept(served)
