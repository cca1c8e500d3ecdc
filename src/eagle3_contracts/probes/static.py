"""The static probe: facts from configs, safetensors headers and launch flags alone.

It imports neither torch nor transformers nor sglang, and opens no file.
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from importlib.metadata import PackageNotFoundError, version

from eagle3_contracts import modelconfig
from eagle3_contracts.facts import (
    CheckpointFacts,
    DraftFacts,
    EnvironmentFacts,
    Gap,
    GapKind,
    LaunchFacts,
    Record,
    SubjectFacts,
    TargetFacts,
    Tier,
    TrainingFacts,
)
from eagle3_contracts.flags import parse_flags
from eagle3_contracts.modelconfig import Config, Mistake
from eagle3_contracts.probes import Request, Yield
from eagle3_contracts.subject import ResolvedModel, ResolvedSubject, Tensor

UNPACKED = ("BF16", "F16", "F32", "F64", "F8_E4M3", "F8_E5M2", "I8")
"""Dtypes of weight matrices that hold one number in one element."""
_SHIFTS = {"output-of": 1, "input-of": 0, "hf-index": 0}


class StaticProbe:
    """What a subject's files and flags say; about a millisecond."""

    name = "static"
    tier = Tier.STATIC
    groups = (
        "subject",
        "environment",
        "target",
        "draft",
        "launch",
        "training",
        "checkpoint",
    )

    def run(self, subject: ResolvedSubject, request: Request) -> Yield:
        """Return these groups; a gap for each part that the subject lacks."""
        flags = _flags(subject)
        return {
            "subject": _subject(subject, flags),
            "environment": environment(request.device),
            "target": _target(subject.target),
            "draft": _draft(subject, flags),
            "launch": _absent("launch section") if flags is None else _launch(flags),
            "training": _training(subject),
            "checkpoint": _checkpoint(subject.draft),
        }


@cache
def environment(device: str) -> EnvironmentFacts:
    """Return where probes run on ``device``; versions are read from metadata, not by importing."""
    return EnvironmentFacts(
        device=device,
        python=platform.python_version(),
        sglang=_version("sglang"),
        torch=_version("torch"),
        transformers=_version("transformers"),
    )


def boundaries(ids: Sequence[int], convention: str) -> list[int]:
    """Return the boundaries that training ``ids`` mean.

    Boundary k is the residual stream after k decoder layers: the output of layer i is boundary
    i + 1, its input and the HF ``hidden_states`` entry i are boundary i.
    """
    return [layer + _SHIFTS[convention] for layer in ids]


def trained_boundaries(subject: ResolvedSubject) -> list[int] | None:
    """Return the boundaries that the draft was trained on; None: nobody wrote them down."""
    training = subject.training
    if training is None or training.layer_ids is None or training.convention is None:
        return None
    return boundaries(training.layer_ids, training.convention)


def shift_between(ids: Sequence[int] | None, others: Sequence[int] | None) -> int | None:
    """Return the one number that turns ``ids`` into ``others``; None when there is none."""
    if not ids or not others or len(ids) != len(others):
        return None
    shifts = {other - own for own, other in zip(ids, others, strict=True)}
    return shifts.pop() if len(shifts) == 1 else None


def _subject(subject: ResolvedSubject, flags: Mapping[str, str] | None) -> SubjectFacts:
    config = subject.draft.config if subject.draft else {}
    given = flags or {}
    return SubjectFacts(
        name=subject.name,
        engine=subject.launch.engine if subject.launch else None,
        algorithm=_algorithm(given),
        has_draft=subject.draft is not None or "speculative-draft-model-path" in given,
        has_target=subject.target is not None,
        captures=modelconfig.is_eagle3(config) and modelconfig.uses_aux(config),
    )


def _target(target: ResolvedModel | None) -> Record | Gap:
    if target is None:
        return _absent("target")
    if gap := _gap(target.config, "target", modelconfig.target_mistakes):
        return gap
    text, key = modelconfig.language_model(target.config)
    return TargetFacts(
        architecture=modelconfig.architecture_of(target.config),
        model_type=target.config.get("model_type"),
        hidden_size=text.get("hidden_size"),
        num_layers=text.get("num_hidden_layers"),
        vocab_size=text.get("vocab_size"),
        is_nested=bool(key),
    )


def _draft(subject: ResolvedSubject, flags: Mapping[str, str] | None) -> Record | Gap:
    if subject.draft is None:
        path = (flags or {}).get("speculative-draft-model-path")
        return _absent("draft" if path is None else f"draft but its path {path}")
    config = subject.draft.config
    if gap := _gap(config, "draft", modelconfig.draft_mistakes):
        return gap
    layers, _ = modelconfig.draft_layers(config)
    ids, key = modelconfig.layer_ids_of(config)
    count, uses_aux = modelconfig.aux_count(config), modelconfig.uses_aux(config)
    width = _target_width(subject)
    return DraftFacts(
        architecture=modelconfig.architecture_of(config),
        hidden_size=layers.get("hidden_size"),
        target_hidden_size=width,
        layer_ids=ids,
        layer_ids_key=".".join(key) or None,
        use_aux_hidden_state=uses_aux,
        num_aux=count,
        aux_width=None if width is None else width * (count if uses_aux else 1),
        vocab_size=layers.get("vocab_size"),
        draft_vocab_size=config.get("draft_vocab_size"),
    )


def _target_width(subject: ResolvedSubject) -> int | None:
    assert subject.draft is not None
    config = subject.draft.config
    text = modelconfig.language_model(subject.target.config)[0] if subject.target else {}
    own = modelconfig.draft_layers(config)[0].get("hidden_size")
    return config.get("target_hidden_size") or text.get("hidden_size") or own


def _launch(flags: dict[str, str]) -> LaunchFacts:
    return LaunchFacts(
        algorithm=_algorithm(flags),
        draft_path=flags.get("speculative-draft-model-path"),
        flags=flags,
    )


def _training(subject: ResolvedSubject) -> Record | Gap:
    training = subject.training
    if training is None:
        return _absent("training section")
    ids = None if training.layer_ids is None else list(training.layer_ids)
    draft_ids = modelconfig.layer_ids_of(subject.draft.config)[0] if subject.draft else None
    return TrainingFacts(
        layer_ids=ids,
        convention=training.convention,
        boundaries=trained_boundaries(subject),
        tool=training.tool,
        shift_to_draft=shift_between(ids, draft_ids),
    )


def _checkpoint(draft: ResolvedModel | None) -> Record | Gap:
    if draft is None:
        return _absent("draft")
    if draft.tensors is None:
        return _absent("tensors of its draft")
    fc_out, fc_in = _fc_shape(draft.tensors)
    return CheckpointFacts(
        num_tensors=len(draft.tensors),
        missing_shards=list(draft.missing_shards),
        missing_tensors=list(draft.missing_tensors),
        fc_in=fc_in,
        fc_out=fc_out,
    )


def _fc_shape(tensors: Mapping[str, Tensor]) -> tuple[int | None, int | None]:
    found = [name for name in tensors if name.endswith(".fc.weight")]
    name = "fc.weight" if "fc.weight" in tensors or len(found) != 1 else found[0]
    tensor = tensors.get(name)
    if tensor is None or len(tensor.shape) != 2 or tensor.dtype not in UNPACKED:
        return None, None
    return tensor.shape[0], tensor.shape[1]


def _flags(subject: ResolvedSubject) -> dict[str, str] | None:
    try:
        return parse_flags(subject.launch.args) if subject.launch else None
    except ValueError:
        return {}


def _algorithm(flags: Mapping[str, str]) -> str | None:
    name = flags.get("speculative-algorithm")
    return None if name is None else name.upper()


def _gap(config: Config, part: str, mistakes: Callable[[Config], Iterator[Mistake]]) -> Gap | None:
    texts = [str(mistake) for mistake in mistakes(config)]
    if not texts:
        return None
    return Gap(GapKind.UNTESTABLE, f"the {part}'s config cannot be used: {'; '.join(texts)}")


def _absent(part: str) -> Gap:
    return Gap(GapKind.ABSENT, f"the subject names no {part}")


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
