"""The real ModelRunner of SGLang, for one target and its draft, in this process.

The same steps as a scheduler takes, without its queues: resolve and check the server arguments,
publish them, start the parallel and layer runtimes, load, allocate the KV pool, configure
capture and attention, run an extend and a decode. One runtime per process.
"""

from __future__ import annotations

import socket
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from sglang.srt.configs.load_config import LoadConfig
from sglang.srt.configs.model_config import ModelConfig
from sglang.srt.managers.schedule_batch import Req, ScheduleBatch
from sglang.srt.model_executor.forward_batch_info import CaptureHiddenMode, ForwardBatch
from sglang.srt.model_executor.model_runner import ModelRunner
from sglang.srt.model_loader import loader
from sglang.srt.model_loader.loader import _initialize_model
from sglang.srt.model_loader.utils import set_default_torch_dtype
from sglang.srt.sampling.sampling_params import SamplingParams
from sglang.srt.server_args import ServerArgs, prepare_server_args
from sglang.srt.speculative.eagle_info import EagleDraftExtendInput
from sglang.srt.speculative.spec_info import SpeculativeAlgorithm

from eagle3_contracts.serving.sglang import attention, capture, gated_delta, native, starting
from eagle3_contracts.serving.sglang.reference import Reference, make_up

_COMMON = (
    "--skip-tokenizer-init",
    "--disable-overlap-schedule",
    "--disable-radix-cache",
    "--disable-hybrid-swa-memory",
    "--max-running-requests=4",
    "--mem-fraction-static=0.1",
    "--cuda-graph-backend-decode=disabled",
    "--cuda-graph-backend-prefill=disabled",
    f"--attention-backend={attention.REPLACES}",
    "--sampling-backend=pytorch",
    "--moe-runner-backend=triton",
    "--mamba-radix-cache-strategy=no_buffer",
    "--mamba-ssm-dtype=float32",
)

_SHARES_NOTHING = ("STANDALONE", "DFLASH", "DSPARK")
"""Algorithms whose workers leave the draft's module as it was loaded."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What to run: directories of a target and its draft, and where.

    ``algorithm`` is the value of --speculative-algorithm; without one, nothing is drafted.
    """

    target: Path
    draft: Path | None
    algorithm: str | None
    device: str
    dtype: str
    load_format: str = "auto"
    reference: Reference | None = None
    """Where the target's weights come from, when transformers has its class."""
    context: int = 128
    """Tokens that one sequence may have."""
    steps: int = 3
    """Tokens that are drafted between two verifications."""
    draft_load_format: str = "dummy"
    """Without weights of its own, a draft gets random ones."""

    def flags(self) -> list[str]:
        """Return the command line of the server."""
        flags = [f"--model-path={self.target}", f"--device={self.device}", f"--dtype={self.dtype}"]
        flags += [*_COMMON, f"--load-format={self.load_format}"]
        flags += [f"--context-length={self.context}", f"--max-total-tokens={4 * self.context}"]
        if self.algorithm is not None:
            flags += [
                f"--speculative-algorithm={self.algorithm}",
                f"--speculative-draft-model-path={self.draft}",
                f"--speculative-num-steps={self.steps}",
                "--speculative-eagle-topk=1",
                f"--speculative-num-draft-tokens={self.steps + 1}",
                f"--speculative-draft-load-format={self.draft_load_format}",
            ]
        return flags


class Context:
    """SGLang's process-wide state for one plan: arguments published, runtimes started."""

    def __init__(self, plan: Plan) -> None:
        loader.initialize_dummy_weights = make_up
        if plan.device == "cpu":
            attention.install()
            gated_delta.install()
            native.skip_warm_ups()
        self.plan = plan
        self.args = server_args(plan.flags())
        self.port = _free_port()
        self.config = starting.publish(self.args, self.port)

    def draft_config(self) -> ModelConfig:
        """Return the draft's config, as SGLang reads it in draft mode."""
        path = str(self.plan.draft)
        return ModelConfig.from_server_args(self.args, model_path=path, is_draft_model=True)

    def empty_draft(self) -> Any:
        """Build the draft's class at its full size on the meta device."""
        config = self.draft_config()
        starting.start_without_runner(self.args, self.config, self.port)
        with set_default_torch_dtype(config.dtype), torch.device("meta"):
            return _initialize_model(config, LoadConfig(), None)


class Runtime(Context):
    """One target, and its draft when asked for."""

    def __init__(self, plan: Plan) -> None:
        super().__init__(plan)
        with starting.unfilled_as_nan():
            self.target = ModelRunner(model_config=self.config, **self._runner_options())
        if plan.reference is not None:
            layers = capture.decoder_layers(self.target.model, self.config.num_hidden_layers)
            starting.require_filled(layers)
        self.target.alloc_memory_pool()

    def configure(self) -> None:
        """Let SGLang configure capture from the draft's config, as a server does at its start."""
        self.target.init_attention_backends()
        self.target.init_cuda_graphs()

    @cached_property
    def draft(self) -> Any:
        """Return the draft's runner, sharing its pools with the target."""
        starting.before_draft(self.args)
        runner = ModelRunner(
            model_config=self.draft_config(),
            is_draft_worker=True,
            req_to_token_pool=self.target.req_to_token_pool,
            token_to_kv_pool_allocator=self.target.token_to_kv_pool_allocator,
            memory_pool_config=self.target.memory_pool_config,
            **self._runner_options(),
        )
        runner.alloc_memory_pool()
        runner.init_attention_backends()
        runner.init_cuda_graphs()
        return runner

    def lend(self) -> None:
        """Give the draft what it borrows; AttributeError from a target that cannot lend."""
        share_embedding(self.target.model, self.draft.model, self.plan.algorithm)

    @torch.no_grad()
    def extend(self, prompt: Sequence[int]) -> tuple[ScheduleBatch, int]:
        """Prefill ``prompt``; return the batch and the next token."""
        return self.extend_requests([request(prompt)])

    @torch.no_grad()
    def extend_requests(self, requests: list[Req]) -> tuple[ScheduleBatch, int]:
        """Prefill what each request was filled with, in one batch.

        Returns the batch and the next token of the last request.
        """
        batch = self._batch(requests)
        batch.prepare_for_extend()
        if batch.input_ids is None:
            batch.input_ids = batch.prefill_input_ids_cpu.to(batch.device)
        return batch, self._forward(batch)

    @torch.no_grad()
    def decode(self, batch: ScheduleBatch, token: int) -> int:
        """Decode one token after an extend; return the next one."""
        batch.input_ids = torch.tensor([token], dtype=torch.int64, device=batch.device)
        batch.prepare_for_decode()
        return self._forward(batch)

    def forget(self) -> None:
        """Free what the sequences so far hold in the pools."""
        self.target.req_to_token_pool.clear()
        self.target.token_to_kv_pool_allocator.clear()

    @torch.no_grad()
    def draft_extend(self, prompt: Sequence[int], states: torch.Tensor) -> None:
        """Run the draft's first pass over ``states`` ([tokens, width]), as the worker does."""
        batch = self._batch([request(prompt)])
        batch.prepare_for_extend()
        if batch.input_ids is None:
            batch.input_ids = batch.prefill_input_ids_cpu.to(batch.device)
        batch.spec_info = EagleDraftExtendInput(
            hidden_states=states, num_tokens_per_req=1, num_tokens_for_logprob_per_req=1
        )
        forward = ForwardBatch.init_new(
            batch,
            self.draft,
            capture_hidden_mode=CaptureHiddenMode.LAST,
            return_hidden_states_before_norm=False,
        )
        self.draft.forward(forward)

    def _forward(self, batch: ScheduleBatch) -> int:
        forward = ForwardBatch.init_new(
            batch,
            self.target,
            capture_hidden_mode=CaptureHiddenMode.FULL,
            return_hidden_states_before_norm=False,
        )
        output = self.target.forward(forward).logits_output
        return int(output.next_token_logits[-1].argmax())

    def _batch(self, requests: list[Req]) -> ScheduleBatch:
        return ScheduleBatch.init_new(
            reqs=requests,
            req_to_token_pool=self.target.req_to_token_pool,
            token_to_kv_pool_allocator=self.target.token_to_kv_pool_allocator,
            tree_cache=_NoCache(self.target),
            model_config=self.config,
            enable_overlap=False,
            spec_algorithm=SpeculativeAlgorithm.NONE,
        )

    def _runner_options(self) -> dict[str, Any]:
        return {
            "mem_fraction_static": 0.1,
            "gpu_id": 0,
            "nccl_port": self.port,
            "server_args": self.args,
            **starting.runner_options(),
        }


def request(prompt: Sequence[int]) -> Req:
    """Return a request for the whole of ``prompt``, none of which is in the KV pool."""
    made = Req(
        rid="0",
        origin_input_text="",
        origin_input_ids=array("q", prompt),
        sampling_params=SamplingParams(temperature=0, max_new_tokens=4),
    )
    made.full_untruncated_fill_ids = made.origin_input_ids
    made.logprob_start_len = -1
    starting.fill(made, 0, len(prompt))
    return made


class _NoCache:
    """The part of a prefix cache that a batch asks for, without any prefixes."""

    page_size = 1

    def __init__(self, runner: Any) -> None:
        self.device = runner.device
        self.token_to_kv_pool_allocator = runner.token_to_kv_pool_allocator

    def supports_swa(self) -> bool:
        return False

    def supports_mamba(self) -> bool:
        return False

    def is_chunk_cache(self) -> bool:
        return False  # asked by releases up to 0.5.21

    def supports_prefix_sharing(self) -> bool:
        return True

    def evict(self, params: Any) -> None:
        pass

    def maybe_hand_to_session(self, request: Any) -> None:
        pass


def server_args(flags: Sequence[str]) -> ServerArgs:
    """Return the arguments as a server resolves and checks them; its exceptions pass through."""
    args = prepare_server_args(list(flags))
    if hasattr(args, "resolve_once"):  # else they were resolved when they were made
        args.resolve_once()
    args.check_server_args()
    return args


def share_embedding(target: Any, draft: Any, algorithm: str | None) -> None:
    """Give the draft what it borrows from its target, as the worker of ``algorithm`` does.

    EAGLE-3 gives the embedding, and the head to a draft that asks for it; EAGLE and its kind give
    both; STANDALONE nothing. A block draft has neither: its worker uses the target's.
    """
    if algorithm in _SHARES_NOTHING:
        return
    embed, head = target.get_embed_and_head()
    is_eagle3 = algorithm in (None, "EAGLE3")
    if hasattr(draft, "set_embed_and_head") and (
        not is_eagle3 or getattr(draft, "load_lm_head_from_target", False)
    ):
        draft.set_embed_and_head(embed, head)
    elif hasattr(draft, "set_embed"):
        draft.set_embed(embed)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
