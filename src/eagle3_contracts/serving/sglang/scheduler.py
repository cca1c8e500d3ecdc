"""The whole of SGLang behind its queues: the real Scheduler with its workers, one per process.

Requests are handed to the scheduler as a tokenizer process would send them, and its own loop is
turned until they are finished. What it drafts, verifies and keeps is its own doing.
"""

from __future__ import annotations

import tempfile
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sglang.srt import runtime_context
from sglang.srt.managers.io_struct import TokenizedGenerateReqInput
from sglang.srt.managers.scheduler import Scheduler
from sglang.srt.sampling.sampling_params import SamplingParams
from sglang.srt.server_args import PortArgs

from eagle3_contracts.serving.sglang import kernels, native, starting, twin
from eagle3_contracts.serving.sglang.jobs import (
    Payload,
    UnavailableError,
    answered,
    language_of,
    needed,
    plan_twins,
)
from eagle3_contracts.serving.sglang.runtime import Plan, server_args

PROMPTS = ((3, 5, 7, 11, 13, 17, 19, 23), (29, 31, 37), (41, 43, 47, 53, 59, 61, 67, 71, 73, 79))
"""Token ids of the requests, of unequal lengths."""

NEW_TOKENS = 12
"""Tokens that each request asks for."""


@dataclass(frozen=True, slots=True)
class Generated:
    """The output of one request, and how many of its verify steps kept 0, 1, ... drafts."""

    output_ids: list[int]
    kept: list[int]


class Serving:
    """A scheduler for one plan; SGLang keeps its state in the process, so there can be no other."""

    def __init__(self, plan: Plan) -> None:
        if plan.device == "cpu":
            kernels.install()
            native.skip_warm_ups()
        args = server_args(plan.flags())
        ports = PortArgs.init_new(args)
        ranks = runtime_context.SpawnRanks(world_rank=0, gpu_id=0)
        runtime_context.publish(args, role="scheduler", ranks=ranks)
        self.scheduler = Scheduler(args, ports)

    def generate(self, prompts: Sequence[Sequence[int]], new_tokens: int) -> list[Generated]:
        """Serve all prompts at once, greedily; RuntimeError when they do not come to an end."""
        requests = [self._submit(at, prompt, new_tokens) for at, prompt in enumerate(prompts)]
        for _ in range(4 * len(prompts) * (new_tokens + 1)):
            if all(request.finished() for request in requests):
                return [_generated(request, new_tokens) for request in requests]
            self._turn()
        raise RuntimeError(f"{len(prompts)} requests of {new_tokens} tokens came to no end")

    def _submit(self, at: int, prompt: Sequence[int], new_tokens: int) -> Any:
        sampling = SamplingParams(temperature=0, max_new_tokens=new_tokens, ignore_eos=True)
        sampling.normalize(None)
        message = TokenizedGenerateReqInput(
            rid=str(at),
            input_text=None,
            input_ids=array("q", prompt),
            input_embeds=None,
            mm_inputs=None,
            token_type_ids=None,
            sampling_params=sampling,
            return_logprob=False,
            logprob_start_len=-1,
            top_logprobs_num=0,
            token_ids_logprob=None,
            stream=False,
        )
        self.scheduler.process_input_requests([message])
        return self.scheduler.waiting_queue[-1]

    def _turn(self) -> None:
        scheduler = self.scheduler
        plan = scheduler.get_next_batch_to_run(
            running_batch=scheduler.running_batch, last_batch=scheduler.last_batch
        )
        scheduler.running_batch, batch = plan.running_batch, plan.batch_to_run
        if batch:
            scheduler.process_batch_result(batch, scheduler.run_batch(batch))
        scheduler.last_batch = batch


def _generated(request: Any, new_tokens: int) -> Generated:
    kept = getattr(request, "spec_correct_drafts_histogram", None) or []
    return Generated([int(i) for i in request.output_ids][:new_tokens], [int(n) for n in kept])


def total_kept(served: Sequence[Generated]) -> list[int]:
    """Return how many verify steps of all requests kept 0, 1, ... drafts."""
    longest = max((len(one.kept) for one in served), default=0)
    return [sum(one.kept[at] for one in served if at < len(one.kept)) for at in range(longest)]


@answered
def serve_twins(payload: Payload) -> dict[str, Any]:
    """Serve the twins of target and draft; without an ``algorithm``, nothing is drafted.

    ``payload``: as for ``run_twin``. Yields ``outputs`` (token ids of each request) and ``kept``
    (verify steps by drafts kept), or ``refused``: the exception with which the server stopped.
    """
    if not starting.PUBLISHES:
        raise UnavailableError("the scheduler is served from SGLang 0.5.22 on")
    hidden = language_of(payload["target"]).get("hidden_size")
    draft = twin.draft_twin(payload["draft"], target_hidden=hidden)
    with tempfile.TemporaryDirectory() as folder:
        plan = plan_twins(payload, Path(folder), draft)
        try:
            served = Serving(plan).generate(PROMPTS, NEW_TOKENS)
        except Exception as error:
            if payload["algorithm"] is None:
                with needed("serving the target without a draft"):
                    raise
            return {"refused": f"{type(error).__name__}: {error}"}
    return {"outputs": [one.output_ids for one in served], "kept": total_kept(served)}
