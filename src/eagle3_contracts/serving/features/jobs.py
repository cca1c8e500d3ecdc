"""The job that says what the slots of a dump are: plain JSON in, plain JSON out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from eagle3_contracts.features.dump import Damage, Kind, Layout
from eagle3_contracts.features.identify import TOLERANCE, identify
from eagle3_contracts.serving.features.recompute import DTYPES, Target
from eagle3_contracts.serving.features.samples import DamagedError, Sample, read_sample
from eagle3_contracts.serving.sglang.jobs import Payload, answered, needed


@answered
def identify_slots(payload: Payload) -> dict[str, Any]:
    """Compare the slots of samples with the target's boundaries.

    ``payload``: ``target``, a directory, and its ``config``; ``device``; ``layout``; ``samples``,
    name to file; ``tokens``, how many of each are looked at from the first on (a state does not
    depend on later tokens). Yields ``samples``, each with ``slots`` and ``last`` as matches, and
    ``damaged``.
    """
    longest = payload["tokens"]
    with needed("running the target"):
        target = Target(Path(payload["target"]), payload["config"], payload["device"], longest)
    samples, damaged = [], []
    for name, file in payload["samples"].items():
        try:
            sample = read_sample(Path(file), Layout(payload["layout"]))
            _check(sample, target)
        except DamagedError as error:
            damaged.append(asdict(Damage(name, error.kind, str(error))))
            continue
        with needed("running the target"):
            samples.append({"sample": name, **_identified(sample, target, longest, payload)})
    return {
        "target_class": target.class_name,
        "num_layers": target.num_layers,
        "samples": samples,
        "damaged": damaged,
    }


def _check(sample: Sample, target: Target) -> None:
    """Refuse a sample that is of another target, whatever its values are."""
    width, highest = sample.states.shape[-1], int(sample.tokens.max())
    if width != target.hidden:
        text = f"states are {width} wide, those of the target {target.hidden}"
        raise DamagedError(Kind.SHAPE, text)
    if highest >= target.vocab_size:
        text = f"a token id is {highest}; the target has {target.vocab_size}"
        raise DamagedError(Kind.SHAPE, text)


def _identified(
    sample: Sample, target: Target, longest: int, payload: Mapping[str, Any]
) -> dict[str, Any]:
    tokens = sample.tokens[:longest].tolist()
    candidates = target.states(tokens)
    # The coarser of the two dtypes decides what rounding can explain.
    tolerance = max(TOLERANCE[sample.dtype], TOLERANCE[DTYPES[payload["device"]]])
    slots = [
        identify(slot[:longest].float().numpy(), candidates, tolerance).as_json()
        for slot in _slots(sample)
    ]
    kept = sample.states.shape[1]
    return {
        "tokens": len(tokens),
        "dtype": sample.dtype,
        "slots": slots[:kept],
        "last": slots[kept] if sample.last is not None else None,
    }


def _slots(sample: Sample) -> Iterator[Any]:
    yield from sample.states.unbind(1)
    if sample.last is not None:
        yield sample.last
