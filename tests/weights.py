"""Safetensors files for tests, written by hand so that they can be wrong in one place."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping, Sequence
from math import prod
from pathlib import Path
from typing import Any

from eagle3_contracts.checkpoint import BITS, INDEX

Shapes = Mapping[str, tuple[str, Sequence[int]]]
"""Dtype and shape by name of the tensor."""


def header_of(tensors: Shapes) -> dict[str, Any]:
    """Return a right header, the tensors one after the other."""
    header, begin = {}, 0
    for name, (dtype, shape) in tensors.items():
        end = begin + prod(shape) * BITS[dtype] // 8
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [begin, end]}
        begin = end
    return header


def write_raw(path: Path, header: bytes, data: bytes = b"") -> Path:
    """Write a file with these bytes as header and data."""
    path.write_bytes(struct.pack("<Q", len(header)) + header + data)
    return path


def write_tensors(path: Path, tensors: Shapes, values: Mapping[str, bytes] | None = None) -> Path:
    """Write a good file: zeros, or the bytes in ``values``; zeros take no space on the disk."""
    header = header_of(tensors)
    text = json.dumps(header).encode()
    write_raw(path, text)
    size = max((entry["data_offsets"][1] for entry in header.values()), default=0)
    with path.open("r+b") as file:
        file.truncate(8 + len(text) + size)
        for name, raw in (values or {}).items():
            file.seek(8 + len(text) + header[name]["data_offsets"][0])
            file.write(raw)
    return path


def write_shards(directory: Path, shards: Mapping[str, Shapes]) -> Path:
    """Write one file for each of ``shards``, and their index."""
    for file, tensors in shards.items():
        write_tensors(directory / file, tensors)
    write_index(directory, {name: file for file, tensors in shards.items() for name in tensors})
    return directory


def write_index(directory: Path, weight_map: object) -> Path:
    """Write an index that says what ``weight_map`` says, right or wrong."""
    path = directory / INDEX
    path.write_text(json.dumps({"metadata": {"total_size": 0}, "weight_map": weight_map}))
    return path
