"""The jobs that run in a forked child: plain JSON in, plain JSON out.

An answer holds the fields of the facts it yields, or ``unavailable``: why this platform cannot
run the class, which says nothing about the integration.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import io
import json
import shlex
import tempfile
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from sglang.srt.models.registry import ModelRegistry
from sglang.srt.server_args import ServerArgs

from eagle3_contracts.faults import patched
from eagle3_contracts.flags import parse_flags as parse_flags_by_name
from eagle3_contracts.modelconfig import language_model
from eagle3_contracts.serving.sglang import capture, configs, loading, reference, twin
from eagle3_contracts.serving.sglang.compare import Comparison, error_between
from eagle3_contracts.serving.sglang.runtime import Context, Plan, Runtime, share_embedding

PROMPT = (3, 5, 7, 11, 13, 17, 19, 23, 29, 31)
"""Token ids of the extend; any ids of the twin's vocabulary do."""

Payload = Mapping[str, Any]


def answered(job: Callable[[Payload], dict[str, Any]]) -> Callable[[Payload], dict[str, Any]]:
    """Let ``job`` run under the fault of its payload, and turn UnavailableError into an answer."""

    def run(payload: Payload) -> dict[str, Any]:
        gc.disable()  # the process ends with its one job
        try:
            with patched(payload.get("fault")):
                return job(payload)
        except UnavailableError as error:
            return {"unavailable": str(error)}

    return run


class UnavailableError(Exception):
    """This platform cannot run the class; the text is the exact reason."""


@contextlib.contextmanager
def needed(step: str) -> Any:
    """Turn any exception of a step that must work before anything can be judged."""
    try:
        yield
    except Exception as error:
        traceback.print_exc()
        raise UnavailableError(f"{step}: {type(error).__name__}: {error}") from error


@answered
def load_draft(payload: Payload) -> dict[str, Any]:
    """Load the draft's header through its real class; yields ``load``.

    ``payload``: ``target`` and ``draft`` config.json, ``tensors`` of the draft as name to
    [dtype, shape], ``algorithm``, ``device``.
    """
    with tempfile.TemporaryDirectory() as folder:
        plan = plan_twins(payload, Path(folder), payload["draft"], dummy=True)
        with needed("building the draft on the meta device"):
            model = Context(plan).empty_draft()
        loaded = loading.load(model, payload["tensors"])
        fc, embed_width = _fusion_parts(model)
        shared = _borrowed(model, payload)
    return {
        "draft_class": type(model).__name__,
        "refusal": loaded.refusal,
        "ignored": loaded.ignored,
        "ignored_weights": [n for n in loaded.ignored if _is_weight(n, payload["tensors"][n][0])],
        "unfilled": loading.unfilled(model, loaded.filled, shared),
        "shared": shared,
        "replaced": [name for name in shared if name in loaded.filled],
        "wrong_shapes": loaded.wrong_shapes,
        "fc_in": _features(fc, "in"),
        "fc_out": _features(fc, "out"),
        "embed_width": embed_width,
    }


def _is_weight(name: str, dtype: str) -> bool:
    # Checkpoints carry the rope's table as a buffer; every loader computes it anew.
    return dtype[0] in "FB" and dtype != "BOOL" and not name.endswith("rotary_emb.inv_freq")


def _borrowed(model: Any, payload: Payload) -> list[str]:
    """Return the parameters that change when the engine's own rule shares the target's."""
    before = {name: id(p) for name, p in model.named_parameters()}
    text = language_of(payload["target"])
    size = (text["vocab_size"], text["hidden_size"])
    borrowed = _Lender(*(torch.nn.Parameter(torch.empty(size, device="meta")) for _ in range(2)))
    share_embedding(borrowed, model, payload["algorithm"])
    return [name for name, p in model.named_parameters() if before.get(name) != id(p)]


class _Lender:
    """Stands for a target that lends its embedding and head."""

    def __init__(self, embed: torch.nn.Parameter, head: torch.nn.Parameter) -> None:
        self._lent = embed, head

    def get_embed_and_head(self) -> tuple[torch.nn.Parameter, torch.nn.Parameter]:
        return self._lent


@answered
def find_hooks(payload: Payload) -> dict[str, Any]:
    """Look at the class that the registry gives for the target; yields ``hooks``."""
    kind, _ = ModelRegistry.resolve_model_cls(payload["target"]["architectures"])
    return {
        "target_class": kind.__name__,
        "sets_capture": hasattr(kind, "set_eagle3_layers_to_capture"),
        "gives_embed_and_head": hasattr(kind, "get_embed_and_head"),
    }


@answered
def parse_flags(payload: Payload) -> dict[str, Any]:
    """Give the launch's flags to SGLang's own parser; yields ``parser``.

    Only the parser is asked: what the flags resolve to depends on the device that is there.
    """
    parser = argparse.ArgumentParser(prog="sglang serve")
    ServerArgs.add_cli_args(parser)
    words = shlex.split(payload["args"])
    if "model-path" not in parse_flags_by_name(payload["args"]):
        words += ["--model-path", "target"]
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said):
            parser.parse_args(words)
    except SystemExit:
        return {"refusal": said.getvalue().strip().rpartition("error: ")[2]}
    return {"refusal": None}


@answered
def run_plain(payload: Payload) -> dict[str, Any]:
    """Run the target's twin without any speculation: does this platform run the class at all?"""
    with tempfile.TemporaryDirectory() as folder, needed("running the class without capture"):
        plan = plan_twins({**payload, "algorithm": None}, Path(folder), payload["draft"])
        runtime = Runtime(plan)
        runtime.configure()
        runtime.decode(*runtime.extend(PROMPT))
    return {}


@answered
def run_twin(payload: Payload) -> dict[str, Any]:
    """Run the target's twin and hand its states to the draft's; yields ``capture``, ``fusion``.

    ``payload``: ``target`` and ``draft`` config.json, ``algorithm``, ``device``, and ``cache``, a
    directory in which what transformers says about a twin is kept.
    """
    text = language_of(payload["target"])
    draft = twin.draft_twin(payload["draft"], target_hidden=text.get("hidden_size"))
    with tempfile.TemporaryDirectory() as folder:
        plan = plan_twins(payload, Path(folder), draft)
        with needed("building the twin of the target"):
            runtime = Runtime(plan)
        seen = _Seen(runtime, language_of(twin.target_twin(payload["target"])))
        try:
            runtime.configure()
            seen.run()
        except Exception as error:
            return {"refused": f"{type(error).__name__}: {error}", "capture": seen.facts(error)}
        return {"capture": seen.facts(None), "fusion": _fuse(runtime, seen)}


class _Seen:
    """One extend and one decode of a target's twin, and what was seen."""

    def __init__(self, runtime: Runtime, config: Mapping[str, Any]) -> None:
        self.runtime = runtime
        self.layers, self.hidden = config["num_hidden_layers"], config["hidden_size"]
        self.extend, self.decode = capture.Recording(), capture.Recording()
        self.reference = runtime.plan.reference

    def run(self) -> None:
        model = self.runtime.target.model
        with capture.recording(model, self.layers, self.hidden) as self.extend:
            batch, token = self.runtime.extend(PROMPT)
        with capture.recording(model, self.layers, self.hidden) as self.decode:
            self.runtime.decode(batch, token)

    def facts(self, error: Exception | None) -> dict[str, Any]:
        target = self.runtime.target
        extend = Comparison(self.extend, target.dtype)
        decode = Comparison(self.decode, target.dtype)
        difference = self._difference()
        ids = target.spec_aux_config.eagle_aux_hidden_state_layer_ids
        return {
            "target_class": type(target.model).__name__,
            "ids": None if ids is None else list(ids),
            "refusal": None if error is None else f"{type(error).__name__}: {error}",
            "enabled": bool(self.extend.aux),
            "inner_flag": capture.inner_flag(target.model),
            "inner_layers": capture.marked_layers(target.model),
            "count": len(self.extend.aux or ()),
            "width": 0 if self.extend.handed is None else self.extend.handed.shape[-1],
            "hidden_size": self.hidden,
            "num_layers": self.layers,
            "boundaries": extend.nearest,
            "error": extend.error,
            "runner_up": extend.runner_up,
            "exact": extend.exact,
            "reference": None if self.reference is None else self.reference.name,
            "reference_error": difference,
            "agrees": difference <= extend.reference_tolerance,
            "decode_boundaries": decode.nearest,
            "decode_exact": decode.exact,
        }

    def _difference(self) -> float:
        if self.reference is None or len(self.extend.boundaries) <= self.layers:
            return 0.0
        ours, theirs = self.extend.boundaries, self.reference.boundaries
        return max(error_between(ours[k], boundary) for k, boundary in enumerate(theirs))


def _fuse(runtime: Runtime, seen: _Seen) -> dict[str, Any]:
    with needed("building the twin of the draft"):
        model = runtime.draft.model
    fc, embed_width = _fusion_parts(model)
    calls: list[int] = []
    hook = fc.register_forward_hook(lambda *_: calls.append(1)) if fc is not None else None
    refusal = None
    try:
        runtime.lend()
        runtime.draft_extend(PROMPT, seen.extend.handed)
    except Exception as error:
        traceback.print_exc()
        refusal = f"{type(error).__name__}: {error}"
    if hook is not None:
        hook.remove()
    return {
        "draft_class": type(model).__name__,
        "refusal": refusal,
        "input_width": seen.extend.handed.shape[-1] if seen.extend.handed is not None else 0,
        "hidden_size": seen.hidden,
        "fc_in": _features(fc, "in"),
        "fc_calls": len(calls),
        "embed_width": embed_width,
    }


def _fusion_parts(model: torch.nn.Module) -> tuple[Any, int]:
    """Return the draft's fc, or None, and the width of its embedding."""
    named = dict(model.named_modules())
    fcs = [module for name, module in named.items() if name.rpartition(".")[2] == "fc"]
    embeds = [p for n, p in model.named_parameters() if n.endswith("embed_tokens.weight")]
    return (fcs[0] if fcs else None), (embeds[0].shape[-1] if embeds else 0)


def _features(fc: Any, side: str) -> int | None:
    """Return in_features or out_features; SGLang's parallel layers say input_size, output_size."""
    if fc is None:
        return None
    return int(getattr(fc, f"{side}_features", None) or getattr(fc, f"{side}put_size"))


def plan_twins(
    payload: Payload, folder: Path, draft: Mapping[str, Any], *, dummy: bool = False
) -> Plan:
    """Write the twin of the target and the given draft config, and plan to run them.

    With ``dummy``, or without a transformers class for the twin, SGLang makes up the weights.
    """
    dtype = "float32" if payload["device"] == "cpu" else "float16"
    config = twin.target_twin(payload["target"], dtype)
    configs.register(config)
    target_dir, draft_dir = folder / "target", folder / "draft"
    for directory, content in ((target_dir, config), (draft_dir, draft)):
        directory.mkdir()
        (directory / "config.json").write_text(json.dumps(content))
    made = None if dummy else _reference(config, Path(payload["cache"]))
    if made is not None:
        (target_dir / made.weights.name).symlink_to(made.weights)
    return Plan(
        target=target_dir,
        draft=draft_dir,
        algorithm=payload["algorithm"],
        device=payload["device"],
        dtype=dtype,
        load_format="dummy" if made is None else "auto",
        reference=made,
    )


def _reference(config: Mapping[str, Any], cache: Path) -> reference.Reference | None:
    kind, _ = ModelRegistry.resolve_model_cls(config["architectures"])
    if hasattr(kind, "remapping"):
        return None  # it reads Mistral's names of the weights, which transformers does not write
    text = language_of(config)
    prefix = "" if text is config else "language_model."
    with contextlib.suppress(LookupError):
        return reference.prepare(text, prefix, PROMPT, cache)
    return None


def language_of(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the language model's part of a target's config.json."""
    return language_model(config)[0]
