"""The values of the draft's weights, on request: finite, different, trained."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from math import sqrt
from typing import TYPE_CHECKING, Any

from eagle3_contracts.checkpoint import read_checkpoint
from eagle3_contracts.facts import Gap, GapKind, Tier, WeightFacts
from eagle3_contracts.probes import Request, Yield
from eagle3_contracts.subject import ResolvedModel, ResolvedSubject

if TYPE_CHECKING:
    from eagle3_contracts.weights import Statistics

DEFAULT_RANGE = 0.02
"""initializer_range of transformers where a config names none."""

_NEAR = 0.03
"""A spread within three percent of initializer_range is that of the initial values."""


class WeightProbe:
    """Reads every weight once, memory-mapped; does nothing unless asked."""

    name = "weights"
    tier = Tier.STATIC
    groups = ("weights",)

    def run(self, subject: ResolvedSubject, request: Request) -> Yield:
        """Return ``weights``; CheckpointError as of `read_checkpoint`."""
        return {"weights": _gap(subject.draft, request) or _facts(subject.draft)}


def _gap(draft: ResolvedModel | None, request: Request) -> Gap | None:
    if not request.weights:
        return Gap(GapKind.ABSENT, "weights are read on request: --weights")
    if draft is None or draft.path is None:
        return Gap(GapKind.ABSENT, "the draft has no files with weights")
    if find_spec("numpy") is None:
        reason = "numpy is not installed: pip install 'eagle3-contracts[weights]'"
        return Gap(GapKind.UNTESTABLE, reason)
    return None


def _facts(draft: ResolvedModel | None) -> WeightFacts:
    from eagle3_contracts.weights import is_readable, read_statistics

    assert draft is not None
    assert draft.path is not None
    checkpoint = read_checkpoint(draft.path)
    ranks = {name: len(tensor.shape) for name, tensor in checkpoint.tensors.items()}
    read = {
        name: read_statistics(place, checkpoint.tensors[name].dtype)
        for name, place in checkpoint.places.items()
        if is_readable(checkpoint.tensors[name].dtype)
    }
    spread = _initializer_range(draft.config)
    return WeightFacts(
        num_read=len(read),
        not_finite=[f"{n} ({s.not_finite} of {s.count})" for n, s in read.items() if s.not_finite],
        constant=[n for n, s in read.items() if _is_dead(n, ranks[n], s)],
        initializer_range=spread,
        is_initial=_is_initial(read, ranks, spread),
    )


def _initializer_range(config: Mapping[str, Any]) -> float:
    value = config.get("initializer_range")
    return float(value) if isinstance(value, int | float) and value > 0 else DEFAULT_RANGE


def _is_dead(name: str, rank: int, statistics: Statistics) -> bool:
    if rank > 1:
        return statistics.constant is not None
    return statistics.constant == 0 and "norm" in name


def _is_initial(
    read: Mapping[str, Statistics], ranks: Mapping[str, int], initializer_range: float
) -> bool:
    """Return whether nothing but initial values is there; embeddings may come from the target."""
    norms = [s for name, s in read.items() if ranks[name] == 1 and "norm" in name]
    matrices = [s for name, s in read.items() if ranks[name] > 1 and "embed_tokens" not in name]
    return (
        bool(norms)
        and bool(matrices)
        and all(s.constant == 1 for s in norms)
        and all(_spreads(s, initializer_range) for s in matrices)
    )


def _spreads(statistics: Statistics, initializer_range: float) -> bool:
    # A small tensor's own spread and mean stray from the distribution's.
    slack = _NEAR + 4 / sqrt(statistics.count)
    spread = abs(statistics.deviation / initializer_range - 1)
    return spread <= slack and abs(statistics.mean) <= slack * initializer_range
