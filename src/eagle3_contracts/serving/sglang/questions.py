"""What a target class makes of layer ids: ordinary ones, none, the ends, and impossible ones.

Ids are handed over by SGLang's own ``configure_aux_hidden_state_capture``, as at a server's start.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sglang.srt.model_executor.model_runner_components.attention_backend_setup import (
    configure_aux_hidden_state_capture,
)
from sglang.srt.model_executor.model_runner_components.spec_aux_hidden_state import (
    SpecAuxHiddenStateConfig,
)

from eagle3_contracts.serving.sglang import capture, twin
from eagle3_contracts.serving.sglang.compare import Comparison
from eagle3_contracts.serving.sglang.jobs import (
    PROMPT,
    Payload,
    answered,
    language_of,
    needed,
    plan_twins,
)
from eagle3_contracts.serving.sglang.runtime import Runtime
from eagle3_contracts.serving.sglang.steps import Steps
from eagle3_contracts.serving.sglang.untouched import untouched

Ids = Sequence[int]


@dataclass(frozen=True, slots=True)
class Answer:
    """What came of capture for ``ids`` (None: without any).

    ``boundaries`` are the nearest of ``num_layers``, in the order of arrival; ``exact``: all
    states equal them.
    """

    ids: Ids | None
    num_layers: int
    boundaries: list[int]
    exact: bool = True
    refusal: str | None = None

    def offsets(self) -> set[int]:
        """Return boundary less id for each of the ids; the counts are equal."""
        return {at - i for at, i in zip(self.boundaries, self.ids or (), strict=True)}

    def counts(self) -> bool:
        """Tell whether as many states came as there are ids."""
        return self.refusal is None and len(self.boundaries) == len(self.ids or ())

    def silent(self, offsets: Ids) -> bool:
        """Tell whether other boundaries than asked for came, and the draft takes them.

        States come in the order of the layers, and so they may.
        """
        taken = self.refusal is None and len(self.boundaries) in {0, 1, len(self.ids or ())}
        return taken and not (self.exact and self._is_asked(offsets))

    def _is_asked(self, offsets: Ids) -> bool:
        # A negative id may also count from the last layer, as everywhere in Python.
        counted = [[i % self.num_layers if i < 0 else i for i in self.ids or ()], self.ids or ()]
        asked = [[i + offset for i in ids] for ids in counted for offset in offsets]
        return self.boundaries in asked or self.boundaries in map(sorted, asked)

    def __str__(self) -> str:
        if self.refusal is not None:
            return f"ids {list(self.ids or ())} are refused with {self.refusal}"
        said = f"boundaries {self.boundaries}" if self.boundaries else "no states"
        said += "" if self.exact else ", and not exactly"
        return f"ids {list(self.ids or ())} give {said}"


class Questions:
    """A loaded target to which capture is explained anew for every question.

    With ``is_block`` capture is that of a DFlash draft, else that of an EAGLE-3 draft.
    """

    def __init__(
        self, runtime: Runtime, num_layers: int, hidden_size: int, *, is_block: bool = False
    ) -> None:
        self.runtime, self.is_block = runtime, is_block
        self.layers, self.hidden = num_layers, hidden_size

    def unconfigured(self) -> Answer:
        """Run the class as it was loaded."""
        with untouched(self.runtime.target):
            return self._seen(None)

    def ask(self, ids: Ids | None) -> Answer:
        """Configure capture for ``ids`` and run an extend."""
        with untouched(self.runtime.target):
            try:
                self._configure(ids)
                return self._seen(ids)
            except Exception as error:
                return Answer(ids, self.layers, [], refusal=f"{type(error).__name__}: {error}")

    def steps(self) -> dict[str, Any]:
        """Run the same tokens in several ways, with capture at ordinary ids."""
        with untouched(self.runtime.target):
            try:
                self._configure((1, self.layers // 2, self.layers - 4))
                return Steps(self.runtime, self.layers, self.hidden).facts()
            except Exception as error:
                return {"absent": f"capture broke off with {type(error).__name__}: {error}"}

    def _configure(self, ids: Ids | None) -> None:
        wanted = None if ids is None else list(ids)
        configure_aux_hidden_state_capture(
            model=self.runtime.target.model,
            eagle_use_aux_hidden_state=not self.is_block,
            eagle_aux_hidden_state_layer_ids=None if self.is_block else wanted,
            dflash_use_aux_hidden_state=self.is_block,
            dflash_target_layer_ids=wanted if self.is_block else None,
            is_dspark=False,
        )

    def _seen(self, ids: Ids | None) -> Answer:
        model = self.runtime.target.model
        with capture.recording(model, self.layers, self.hidden) as record:
            self.runtime.extend(PROMPT)
        seen = Comparison(record, self.runtime.target.dtype)
        return Answer(ids, self.layers, seen.nearest, exact=seen.exact or not seen.nearest)


@answered
def ask_ids(payload: Payload) -> dict[str, Any]:
    """Ask the target's class what it makes of layer ids; yields the groups of class_facts.

    ``payload``: as for ``run_twin``. ``absent`` instead of a group's fields: why there are none.
    """
    text = language_of(twin.target_twin(payload["target"]))
    shape = text["num_hidden_layers"], text["hidden_size"]
    hidden = language_of(payload["target"]).get("hidden_size")
    draft = twin.draft_twin(payload["draft"], target_hidden=hidden)
    with tempfile.TemporaryDirectory() as folder:
        plan = plan_twins(payload, Path(folder), draft)
        with needed("building the twin of the target"):
            runtime = Runtime(plan)
        runtime.target.spec_aux_config = SpecAuxHiddenStateConfig()
        with needed("running the class without capture"):
            runtime.configure()
            questions = Questions(runtime, *shape)
            questions.unconfigured()
        return {
            "reading": _reading(questions),
            "dflash": _of_block(Questions(runtime, *shape, is_block=True)),
            "steps": questions.steps(),
            "lending": _lending(runtime.target.model, text),
        }


def _lending(model: Any, config: Payload) -> dict[str, Any]:
    if not hasattr(model, "get_embed_and_head"):
        return {"absent": f"{type(model).__name__} has no get_embed_and_head"}
    embed, head = model.get_embed_and_head()
    return {
        "target_class": type(model).__name__,
        "embed": list(embed.shape),
        "head": list(head.shape),
        "expected": [config["vocab_size"], config["hidden_size"]],
    }


def _of_block(questions: Questions) -> dict[str, Any]:
    model = questions.runtime.target.model
    if hasattr(model, "set_dflash_layers_to_capture"):
        return _reading(questions)
    return {"absent": f"{type(model).__name__} captures nothing for DFlash drafts"}


def _reading(questions: Questions) -> dict[str, Any]:
    n, ask = questions.layers, questions.ask
    config = questions.runtime.config.hf_config
    before = config.to_dict()
    captured_before = bool(questions.unconfigured().boundaries)
    default = ask(None)
    ordinary = [ask((i, n // 2 + i - 2, n - 5 + i)) for i in (1, 2, 3)]
    if not all(answer.exact for answer in (default, *ordinary)):
        return {"absent": "captured states equal no boundary, so that ids cannot be read"}
    read = [answer for answer in ordinary if answer.counts()]
    offsets = sorted({offset for answer in read for offset in answer.offsets()})
    return {
        "target_class": type(questions.runtime.target.model).__name__,
        "num_layers": n,
        "default": default.boundaries,
        "default_refusal": default.refusal,
        "offsets": offsets,
        "readings": [str(answer) for answer in ordinary],
        "unread": [str(answer) for answer in ordinary if not answer.counts()],
        **_silences(questions, offsets),
        "captured_before": captured_before,
        "config_changed": _changed(before, config.to_dict()),
    }


def _changed(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    return [key for key in {**before, **after} if before.get(key) != after.get(key)]


def _silences(questions: Questions, offsets: Ids) -> dict[str, list[str]]:
    n = questions.layers
    odd = {
        "ends": [(0, n // 2, n - 1), (0, n // 2, n)],
        "outside": [(2, n // 2, n + 1), (2, n // 2, 4000), (-1, 2, n // 2), (-n, 2, n // 2)],
        "repeated": [(2, 2, n // 2), (n // 2, 2, n - 3)],
    }
    return {
        kind: [str(answer) for answer in map(questions.ask, lists) if answer.silent(offsets)]
        for kind, lists in odd.items()
    }
