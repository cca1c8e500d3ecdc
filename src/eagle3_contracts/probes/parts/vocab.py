"""The draft's vocabulary and its maps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import compress, count
from math import prod
from operator import add, lt

from eagle3_contracts import modelconfig
from eagle3_contracts.facts import Gap
from eagle3_contracts.probes.parts.reading import (
    Tensors,
    draft_config,
    draft_tensors,
    integer,
    is_whole,
    matrix,
    named,
    otherwise,
    target_text,
    trained_config,
)
from eagle3_contracts.static_facts import VocabFacts
from eagle3_contracts.subject import ResolvedSubject

SHOWN = 8
"""Ids out of range that are listed."""
Values = Mapping[str, tuple[bool, ...] | tuple[int, ...]]
_SIZES = ("draft_vocab_size", "vocab_size")


def read(subject: ResolvedSubject) -> VocabFacts | Gap:
    """Return sizes and maps of the draft's vocabulary; a gap without a usable draft."""
    config = draft_config(subject)
    if isinstance(config, Gap):
        return config
    assert subject.draft is not None
    tensors = subject.draft.tensors or {}
    own = integer(modelconfig.draft_layers(config)[0], "vocab_size")
    target = integer(target_text(subject), "vocab_size") or own
    draft = integer(config, "draft_vocab_size") or own
    maps = _compared(subject.draft.values, target)
    d2t, t2d = _map(tensors, "d2t"), _map(tensors, "t2d")
    return VocabFacts(
        target_size=target,
        own_size=own,
        is_whole=is_whole(draft_tensors(subject)),
        draft_size=draft,
        head_rows=matrix(tensors, "lm_head.weight")[0],
        is_reduced=None if target is None or draft is None else draft < target,
        d2t_size=d2t[0],
        d2t_dtype=d2t[1],
        t2d_size=t2d[0],
        t2d_dtype=t2d[1],
        t2d_true=maps.true_bits,
        out_of_range=maps.out_of_range,
        repeated=maps.repeated,
        maps_differ=maps.differ,
        d2t_is_zero=maps.is_zero,
        d2t_is_absolute=maps.is_absolute,
        last_target=_last_target(subject.draft.values),
        trained_otherwise=otherwise(config, trained_config(subject), _SIZES),
    )


@dataclass(frozen=True, slots=True)
class _Maps:
    """What the values of the maps say; None: not known by value."""

    true_bits: int | None = None
    out_of_range: list[int] | None = None
    repeated: int | None = None
    differ: int | None = None
    is_zero: bool | None = None
    is_absolute: bool | None = None


def _compared(values: Values, size: int | None) -> _Maps:
    offsets, bits = _values(values, "d2t"), _values(values, "t2d")
    true_bits = None if bits is None else bits.count(True)
    if offsets is None:
        return _Maps(true_bits=true_bits)
    targets = list(map(add, offsets, count()))
    marked = None if bits is None else list(compress(count(), bits))
    outside = _outside(targets, size)
    if targets == marked:  # what is right is found out without sets of all ids
        return _Maps(true_bits, None if size is None else outside, 0, 0, not any(offsets), False)
    distinct = set(targets)
    wrong = bool(outside) or len(distinct) < len(targets) or marked is not None
    ids = marked in (None, list(offsets)) and wrong and _could_be_ids(offsets, size)
    return _Maps(
        true_bits=true_bits,
        out_of_range=None if size is None else outside,
        repeated=len(targets) - len(distinct),
        differ=None if marked is None else len(distinct.symmetric_difference(marked)),
        is_zero=not any(offsets),
        is_absolute=ids,
    )


def _last_target(values: Values) -> int | None:
    """Return the largest target id that d2t, or else t2d, gives a draft id to."""
    offsets, bits = _values(values, "d2t"), _values(values, "t2d")
    targets = map(add, offsets, count()) if offsets else compress(count(), bits or ())
    return max(targets, default=None)


def _outside(targets: Sequence[int], size: int | None) -> list[int]:
    """Return the first target ids that do not exist."""
    if size is None or not targets or (min(targets) >= 0 and max(targets) < size):
        return []
    return [target for target in targets if not 0 <= target < size][:SHOWN]


def _could_be_ids(offsets: Sequence[int], size: int | None) -> bool:
    """Return whether the values are sorted, different and in range, as target ids are."""
    if len(offsets) < 2 or offsets[0] < 0 or (size is not None and offsets[-1] >= size):
        return False
    return all(map(lt, offsets, offsets[1:]))


def _map(tensors: Tensors, name: str) -> tuple[int | None, str | None]:
    found = list(named(tensors, name))
    if not found:
        return None, None
    tensor = found[0][1]
    return prod(tensor.shape), tensor.dtype


def _values(values: Values, name: str) -> Sequence[int] | None:
    found = (values[key] for key in values if key.rpartition(".")[2] == name)
    return next(found, None)
