"""How a process of SGLang is started, for the releases that differ in it.

From 0.5.22 on, the arguments are published to a process-wide context, and the parallel and layer
runtimes are started before any model. Up to then, a ModelRunner does all of that for itself, from
the arguments and the ranks that it is given.
"""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from sglang.srt import runtime_context
from sglang.srt.configs.model_config import ModelConfig
from sglang.srt.distributed import bootstrap
from sglang.srt.layers.moe import initialize_moe_config
from sglang.srt.layers.quantization.fp4_utils import initialize_fp4_gemm_config
from sglang.srt.layers.quantization.fp8_utils import initialize_fp8_gemm_config
from sglang.srt.layers.quantization.unquant import initialize_bf16_gemm_config
from sglang.srt.server_args import ServerArgs

_KERNELS: tuple[Callable[..., None], ...] = (
    initialize_moe_config,
    initialize_fp8_gemm_config,
    initialize_bf16_gemm_config,
    initialize_fp4_gemm_config,
)

PUBLISHES = hasattr(runtime_context, "publish")
"""Whether this release has a process-wide context to publish the arguments to."""


def publish(args: ServerArgs, port: int) -> ModelConfig:
    """Make ``args`` those of this process and return the target's config.

    ``port`` is where the processes of one engine meet; there is one process here.
    """
    if not PUBLISHES:
        runtime_context.get_context().set_server_args(args)
        _initialize_kernels(args)
        return ModelConfig.from_server_args(args)
    ranks = runtime_context.SpawnRanks(world_rank=0, gpu_id=0)
    runtime_context.publish(args, role="scheduler", ranks=ranks)
    _initialize_kernels(args)
    config = ModelConfig.from_server_args(args)
    device = runtime_context.get_device().device
    bootstrap.init_parallel_runtime(server_args=args, device=device, dist_port=port)
    bootstrap.init_layer_runtime(model_config=config)
    return config


def start_without_runner(args: ServerArgs, config: ModelConfig, port: int) -> None:
    """Start the parallel runtime for a model that no ModelRunner builds."""
    if PUBLISHES:
        return
    bootstrap.init_torch_distributed(
        server_args=args,
        model_config=config,
        device=args.device,
        ps=_one_process(),
        dist_port=port,
        is_draft_worker=False,
        local_omp_cpuid=None,
    )


def runner_options() -> dict[str, Any]:
    """Return what a ModelRunner of this release is given of the ranks."""
    return {} if PUBLISHES else {"ps": _one_process()}


def before_draft(args: ServerArgs) -> None:
    """Let the next runner load as a draft; earlier schedulers change the load format for it."""
    if not PUBLISHES and args.speculative_draft_load_format is not None:
        args.override("draft", load_format=args.speculative_draft_load_format)


def fill(request: Any, start: int, end: int, rows: Any = None) -> None:
    """Let the next extend of ``request`` take its tokens from ``start`` to ``end``.

    ``rows`` is the pool's table [requests, tokens] of slots; needed where ``start`` is not 0.
    """
    if hasattr(request, "extend_end"):
        request.prefix_len, request.extend_end = start, end
        return
    if start:
        request.prefix_indices = rows[request.req_pool_idx, :start].to(request.prefix_indices.dtype)
    request.set_extend_range(start, end)


@contextlib.contextmanager
def unfilled_as_nan() -> Iterator[None]:
    """Let memory that nothing was written to hold NaN, so that a gap in a load is seen."""
    torch.use_deterministic_algorithms(True, warn_only=True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(False)


def require_filled(layers: Sequence[torch.nn.Module]) -> None:
    """Raise LookupError if the weights of transformers left a parameter of a layer unfilled.

    What a release of transformers writes and what a release of SGLang reads may differ in how
    experts are stored. Such a model computes nothing that could be judged.
    """
    unfilled = [
        f"{name} of layer {at}"
        for at, layer in enumerate(layers)
        for name, p in layer.named_parameters()
        if p.is_floating_point() and p.isnan().any()
    ]
    if unfilled:
        more = f" and {len(unfilled) - 1} more" if unfilled[1:] else ""
        text = f"SGLang takes no weights of transformers for {unfilled[0]}{more}"
        raise LookupError(f"{text}; the two releases store them differently")


def _one_process() -> Any:
    from sglang.srt.distributed.parallel_state_wrapper import ParallelState

    return ParallelState.trivial()


def _initialize_kernels(args: ServerArgs) -> None:
    for initialize in _KERNELS:
        initialize(*[args] * len(inspect.signature(initialize).parameters))
