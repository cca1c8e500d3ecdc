"""The real sglang.Engine for one canary, in the process group of its job.

Its processes are forked from the job, so they share what it has imported and what a fault has
patched there. Nothing ends the engine but the end of the job, which ends the whole group.
"""

from __future__ import annotations

import json
import multiprocessing
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sglang.srt.entrypoints.engine import Engine

from eagle3_contracts.serving.sglang import kernels
from eagle3_contracts.serving.sglang.verified import Verified, watch

_CPU = {
    "attention_backend": "triton",
    "sampling_backend": "pytorch",
    "dtype": "float32",  # bfloat16 is computed wrongly under Triton's interpreter
    "cuda_graph_backend_decode": "disabled",
    "cuda_graph_backend_prefill": "disabled",
}
_COMMON = {
    "skip_tokenizer_init": True,
    "mem_fraction_static": 0.1,
    "max_total_tokens": 2048,
    "max_running_requests": 8,
    "context_length": 512,
    "random_seed": 0,
    "log_level": "error",
}
_DRAFTED = "drafted.jsonl"


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back for one prompt.

    ``histogram`` counts verifications by the drafted tokens that they kept, from none on; it is
    empty and ``verifications`` 0 where nothing was speculated.
    """

    tokens: list[int]
    histogram: list[int]
    verifications: int


class ForkedEngine(Engine):
    """The real Engine, its processes forked instead of started from nothing."""

    @classmethod
    def _launch_scheduler_processes(cls, *args: Any, **kwargs: Any) -> Any:
        multiprocessing.set_start_method("fork", force=True)
        return super()._launch_scheduler_processes(*args, **kwargs)


def start(device: str, **options: Any) -> Engine:
    """Return an engine for the server arguments ``options``; SGLang's exceptions pass through.

    One per process. On a CPU the drafted tokens are watched as well, see `watched`.
    """
    own = {"device": device, **_COMMON, **(_CPU if device == "cpu" else {})}
    if device == "cpu":
        kernels.install()
    _watch()
    return ForkedEngine(**{**own, **options})


def generate(engine: Engine, prompts: Sequence[Sequence[int]], count: int) -> list[Answer]:
    """Return what the engine answers to ``prompts`` in one batch, greedily, ``count`` tokens."""
    sampling = {"temperature": 0, "max_new_tokens": count, "ignore_eos": True}
    asked = [list(prompt) for prompt in prompts]
    outputs = engine.generate(input_ids=asked, sampling_params=sampling)
    return [_answer(output) for output in outputs]


def watched() -> list[Verified]:
    """Return every verification so far: the drafted ids after the last token, and the target's.

    With trees the ids are those of all branches, in the order of the verification.
    """
    lines = Path(_DRAFTED).read_text().splitlines() if Path(_DRAFTED).exists() else []
    return [(drafted, target) for line in lines for drafted, target in json.loads(line)]


def _answer(output: Mapping[str, Any]) -> Answer:
    meta = output["meta_info"]
    return Answer(
        [int(token) for token in output["output_ids"]],
        [int(n) for n in meta.get("spec_correct_drafts_histogram") or ()],
        int(meta.get("spec_verify_ct") or 0),
    )


def _watch() -> None:
    """Let the schedulers write down what they verify; they are forked, and inherit the patch."""
    file = Path(_DRAFTED).absolute()

    def note(verified: list[Verified]) -> None:
        with file.open("a") as log:
            log.write(json.dumps(verified) + "\n")

    watch(note)
