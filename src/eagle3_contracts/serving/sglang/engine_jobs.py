"""Jobs of tier engine: one real engine each, which ends with the process group of its job."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from eagle3_contracts.canary import write_canary
from eagle3_contracts.serving.sglang import engine
from eagle3_contracts.serving.sglang.jobs import answered


@answered
def serve_canary(payload: Mapping[str, Any]) -> dict[str, Any]:
    """Serve the wiring canary and ask it; plain JSON.

    ``payload``: ``prompts``, each a list of token ids, all asked in one batch, ``count`` of tokens
    to generate, ``device``, and ``options``: server arguments by the name of their field. Without
    ``speculative_algorithm`` among them the target is served alone. The answer holds ``answers``,
    one per prompt, and ``verified``, see `engine.watched`.
    """
    written = write_canary(Path("canary").absolute())
    options = {"model_path": str(written.target), **payload["options"]}
    if "speculative_algorithm" in options:
        options["speculative_draft_model_path"] = str(written.draft)
    served = engine.start(payload["device"], **options)
    answers = engine.generate(served, payload["prompts"], payload["count"])
    return {"answers": [asdict(answer) for answer in answers], "verified": engine.watched()}
