"""Jobs for the tests of questions, run in a process that has SGLang."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sglang.srt.model_executor.model_runner_components.spec_aux_hidden_state import (
    SpecAuxHiddenStateConfig,
)

from eagle3_contracts.serving.sglang import capture, jobs, questions, twin
from eagle3_contracts.serving.sglang.runtime import Runtime
from eagle3_contracts.serving.sglang.untouched import untouched

Answer = dict[str, Any]


def silences(_: Mapping[str, Any]) -> Answer:
    """Return by case whether an answer goes unnoticed with a class that adds 1 to ids."""

    def silent(ids: Any, boundaries: Any, **more: Any) -> bool:
        return questions.Answer(ids, 8, boundaries, **more).silent([1])

    return {
        "as asked": silent([1, 3], [2, 4]),
        "refused": silent([1, 9], [], refusal="ValueError"),
        "one too few of three": silent([1, 3, 9], [2, 4]),
        "from the end": silent([-8, 3], [1, 4]),
        "sorted": silent([3, 1], [2, 4]),
        "others": silent([1, 3], [2, 5]),
        "not exactly": silent([1, 3], [2, 4], exact=False),
        "none": silent([1, 3, 9], []),
        "one": silent([1, 3, 9], [2]),
        "in another order": silent([1, 3], [4, 2]),
    }


def left_behind(payload: Mapping[str, Any]) -> Answer:
    """Ask for ids, and return what of it shows in a forward afterwards."""
    with _runtime(payload) as runtime:
        runtime.target.spec_aux_config = SpecAuxHiddenStateConfig()
        runtime.configure()
        asked = questions.Questions(runtime, 8, twin.HIDDEN)
        room = runtime.target.token_to_kv_pool_allocator.available_size()
        first, second = asked.ask([1, 3, 5]), asked.ask([2, 4, 6])
        model = runtime.target.model
        with untouched(runtime.target):
            model.model.layers_to_capture.append(7)
        return {
            "boundaries": [first.boundaries, second.boundaries],
            "plain": asked.unconfigured().boundaries,
            "marked": capture.marked_layers(model),
            "room": room - runtime.target.token_to_kv_pool_allocator.available_size(),
        }


def noticed(payload: Mapping[str, Any]) -> Answer:
    """Hand the states of ids of which the last layer does not exist to the real draft."""
    with _runtime(payload) as runtime:
        runtime.configure()
        with capture.recording(runtime.target.model, 8, twin.HIDDEN) as record:
            runtime.extend(jobs.PROMPT)
        try:
            runtime.draft_extend(jobs.PROMPT, record.handed)
        except Exception as error:
            return {"states": len(record.aux or ()), "refusal": str(error)}
    return {"states": len(record.aux or ()), "refusal": None}


@contextmanager
def _runtime(payload: Mapping[str, Any]) -> Iterator[Runtime]:
    draft = twin.draft_twin(payload["draft"], target_hidden=payload["target"]["hidden_size"])
    with tempfile.TemporaryDirectory() as folder:
        yield Runtime(jobs.plan_twins(payload, Path(folder), draft))
