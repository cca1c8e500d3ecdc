"""The same draft written differently: its verdicts must be the same ones."""

from __future__ import annotations

import json
import struct
import tempfile
from collections.abc import Mapping, Sequence
from math import prod
from pathlib import Path
from typing import Any

from eagle3_contracts.catalogue import Entry
from eagle3_contracts.checkpoint import BITS, INDEX
from eagle3_contracts.errors import BadInput
from eagle3_contracts.facts import Tier
from eagle3_contracts.fuzz.example import Example, Finding, Kind
from eagle3_contracts.resolve import resolve
from eagle3_contracts.run import Checker
from eagle3_contracts.subject import Model, ResolvedSubject, Subject, Tensor

Verdicts = Mapping[str, str]


def spelling(entries: Sequence[Entry], example: Example) -> Finding | None:
    """Return a finding where a single file and shards, or another order of keys, are judged apart.

    All spellings are judged from files on the disk, by the static contracts.
    """
    subject = example.subject()
    with tempfile.TemporaryDirectory(prefix="eagle3-spelling-") as name:
        verdicts = {
            way: _verdicts(entries, _written(subject, Path(name, way), way))
            for way in ("single-file", "shards", "other-order")
        }
    first = verdicts["single-file"]
    for way, others in verdicts.items():
        for contract in sorted(first.keys() | others.keys()):
            one, other = first.get(contract, "none"), others.get(contract, "none")
            if one != other:
                text = f"{contract}: {one} as a single file, {other} as {way}"
                return Finding(Kind.SPELLING, contract, "", Tier.STATIC, text)
    return None


def _verdicts(entries: Sequence[Entry], subject: Subject) -> Verdicts:
    try:
        resolved = resolve(subject, Path(), subject.name)
        results = Checker(entries, tiers={Tier.STATIC}).check(resolved)
    except BadInput as error:
        return {"input": f"refused ({type(error).__name__})"}
    return {result.contract: str(result.verdict) for result in results}


def _written(subject: ResolvedSubject, folder: Path, way: str) -> Subject:
    """Write the draft into ``folder``; return a subject that reads it from there."""
    assert subject.draft is not None
    folder.mkdir()
    config, tensors = subject.draft.config, subject.draft.tensors or {}
    # Only what a header says is written; maps of zeros would be maps of another draft.
    tensors = {n: t for n, t in tensors.items() if n.rpartition(".")[2] not in ("d2t", "t2d")}
    if way == "other-order":
        config, tensors = dict(reversed(config.items())), dict(reversed(tensors.items()))
    (folder / "config.json").write_text(json.dumps(config))
    names = list(tensors)
    middle = len(names) // 2 if way == "shards" else 0
    if not middle:
        write_sparse(folder / "model.safetensors", tensors)
    else:
        _write_shards(folder, tensors, (names[:middle], names[middle:]))
    target = None if subject.target is None else Model(config=subject.target.config)
    return Subject(
        subject=subject.name,
        target=target,
        draft=Model(source=str(folder)),
        launch=subject.launch,
        training=subject.training,
    )


def _write_shards(
    folder: Path, tensors: Mapping[str, Tensor], parts: Sequence[Sequence[str]]
) -> None:
    places: dict[str, str] = {}
    for number, names in enumerate(parts, 1):
        file = f"model-{number:05}-of-{len(parts):05}.safetensors"
        write_sparse(folder / file, {name: tensors[name] for name in names})
        places.update(dict.fromkeys(names, file))
    (folder / INDEX).write_text(json.dumps({"metadata": {}, "weight_map": places}))


def write_sparse(path: Path, tensors: Mapping[str, Tensor]) -> None:
    """Write a safetensors file of zeros, which take no space where the file system has holes."""
    header: dict[str, Any] = {}
    end = 0
    for name, tensor in tensors.items():
        begin, end = end, end + prod(tensor.shape) * BITS[tensor.dtype] // 8
        shape = list(tensor.shape)
        header[name] = {"dtype": tensor.dtype, "shape": shape, "data_offsets": [begin, end]}
    text = json.dumps(header).encode()
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        file.truncate(8 + len(text) + end)
