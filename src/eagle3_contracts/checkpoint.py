"""Checkpoints: the headers of safetensors files, and small integer tensors by value.

No weights are read. A safetensors file is eight bytes that give the length of the header
(little-endian), the header, which is a JSON object, and the data, which the header's offsets cover
without gaps (https://huggingface.co/docs/safetensors).
"""

from __future__ import annotations

import os
import struct
import sys
from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any, NamedTuple

from eagle3_contracts.errors import CheckpointError, Problem, did_you_mean, raise_if_any
from eagle3_contracts.files import is_absent, kind_of, open_binary, parse_object, read_object, show
from eagle3_contracts.subject import MAX_DIMENSION, Tensor

INDEX = "model.safetensors.index.json"
MAX_HEADER = 100_000_000
"""Bytes of the longest header; the safetensors library has the same limit."""
MAX_RANK = 64
"""Axes of the tensor with the most axes; torch has the same limit."""
MAX_VALUES = 4 * 2**20
"""Elements of the largest tensor that is read by value: ten times the largest vocabularies."""
MAX_SHOWN = 10
"""Tensors of one file whose like mistakes are shown one by one."""

BITS = {
    **dict.fromkeys(("C64", "F64", "I64", "U64"), 64),
    **dict.fromkeys(("F32", "I32", "U32"), 32),
    **dict.fromkeys(("BF16", "F16", "I16", "U16"), 16),
    **dict.fromkeys(("BOOL", "I8", "U8", "F8_E4M3", "F8_E5M2", "F8_E8M0"), 8),
    **dict.fromkeys(("F8_E4M3FNUZ", "F8_E5M2FNUZ"), 8),
    **dict.fromkeys(("F6_E2M3", "F6_E3M2"), 6),
    "F4": 4,
}
"""Bits of one element of each dtype that safetensors knows."""
_TYPECODES = {"I64": "q", "U64": "Q", "I32": "i", "U32": "I", "I16": "h", "U16": "H", "I8": "b"}
_TYPECODES |= {"U8": "B", "BOOL": "B"}


class Place(NamedTuple):
    """Where the data of a tensor lies: bytes ``begin`` to ``end`` of ``file``."""

    file: Path
    begin: int
    end: int


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The tensors of a model directory; empty for a directory without weights."""

    tensors: dict[str, Tensor]
    places: dict[str, Place]
    files: tuple[str, ...]
    """Names of the files that were read, sorted."""
    missing_shards: tuple[str, ...]
    """Files that the index names and the directory lacks, sorted."""
    missing_tensors: tuple[str, ...]
    """Tensors that the index places in a file that lacks them, sorted."""


@dataclass(frozen=True, slots=True)
class _Header:
    tensors: dict[str, Tensor]
    places: dict[str, Place]


def read_checkpoint(directory: Path) -> Checkpoint:
    """Read the headers of all safetensors files that belong to ``directory``.

    These are the files that its index names; without an index, every ``*.safetensors``, as SGLang
    does. An absent file is not an error but in ``missing_shards``. Raises CheckpointError, with the
    problems of all files, for files that cannot be read, and when there are weights in other
    formats only.
    """
    index = directory / INDEX
    if is_absent(index):
        return _assemble(directory, _safetensors_of(directory), {})
    places = read_index(index)
    names = sorted(set(places.values()))
    return _assemble(directory, names, places)


def has_safetensors(directory: Path) -> bool:
    """Return whether ``directory`` holds an index or a safetensors file."""
    try:
        names = [entry.name for entry in os.scandir(directory)]
    except OSError:
        return False
    return any(name == INDEX or name.endswith(".safetensors") for name in names)


def read_index(path: Path) -> dict[str, str]:
    """Return the file of each tensor that an index names; CheckpointError when it is no index."""
    places = read_object(path, CheckpointError).get("weight_map")
    if not isinstance(places, dict) or not places:
        got = "it has none" if places is None else f"got {kind_of(places)}"
        got = "it is empty" if places == {} else got
        text = f"is no index: 'weight_map' must be an object of tensor names and file names, {got}"
        raise _error(str(path), text)
    wrong = [(name, file) for name, file in places.items() if not _is_file_name(file)]
    texts = [_wrong_file(name, file) for name, file in wrong[:MAX_SHOWN]]
    if len(wrong) > MAX_SHOWN:
        texts.append(f"and {len(wrong) - MAX_SHOWN} more tensors are placed in wrong files")
    raise_if_any(CheckpointError, [Problem(str(path), text) for text in texts])
    return places


def read_header(path: Path) -> dict[str, Tensor]:
    """Return the tensors of one safetensors file; CheckpointError when its header is wrong."""
    return _read(path).tensors


def read_values(
    checkpoint: Checkpoint, names: Iterable[str]
) -> dict[str, tuple[int, ...] | tuple[bool, ...]]:
    """Return the values of the integer and boolean tensors among ``names``, flattened.

    Names that the checkpoint lacks, and tensors of other dtypes, are left out. Raises
    CheckpointError for a tensor of more than :data:`MAX_VALUES` elements, or a boolean byte that is
    neither 0 nor 1.
    """
    wanted = [name for name in names if name in checkpoint.places]
    return {
        name: _values(name, checkpoint.tensors[name], checkpoint.places[name])
        for name in wanted
        if checkpoint.tensors[name].dtype in _TYPECODES
    }


def make_tensor(name: str, dtype: object, shape: object, source: str) -> Tensor:
    """Return the record of one header entry; CheckpointError for a wrong dtype or shape."""
    if not isinstance(dtype, str) or dtype not in BITS:
        raise _error(source, _wrong_dtype(name, dtype))
    if not isinstance(shape, list | tuple) or not _are_sizes(shape):
        raise _error(source, _wrong_shape(name, shape))
    return Tensor(dtype=dtype, shape=tuple(shape))


def _safetensors_of(directory: Path) -> list[str]:
    try:
        names = sorted(entry.name for entry in os.scandir(directory))
    except OSError as caught:
        raise _error(str(directory), f"cannot be read: {caught.strerror}") from None
    found = [name for name in names if name.endswith(".safetensors")]
    others = [name for name in names if name.endswith((".bin", ".pt", ".pth", ".gguf"))]
    if others and not found:
        text = f"holds {others[0]} but no *.safetensors file; only safetensors are read"
        raise _error(str(directory), f"{text} (convert it with safetensors.torch.save_file)")
    return found


def _wrong_file(name: str, file: object) -> str:
    hint = "a file name in the same directory, ending in .safetensors, is needed"
    return f"weight_map places '{name}' in {show(file)}; {hint}"


def _is_file_name(value: object) -> bool:
    if not isinstance(value, str) or not value.endswith(".safetensors"):
        return False
    return not any(character in value for character in "/\\\0") and len(value) <= 255


def _assemble(directory: Path, files: Sequence[str], index: Mapping[str, str]) -> Checkpoint:
    present = [name for name in files if not is_absent(directory / name)]
    headers = _read_all(directory, present)
    tensors: dict[str, Tensor] = {}
    places: dict[str, Place] = {}
    for header in headers.values():
        tensors.update(header.tensors)
        places.update(header.places)
    return Checkpoint(
        tensors=tensors,
        places=places,
        files=tuple(present),
        missing_shards=tuple(sorted(set(files) - set(present))),
        missing_tensors=_missing(headers, index),
    )


def _missing(headers: Mapping[str, _Header], index: Mapping[str, str]) -> tuple[str, ...]:
    placed = [(name, file) for name, file in index.items() if file in headers]
    return tuple(sorted(name for name, file in placed if name not in headers[file].tensors))


def _read_all(directory: Path, files: Sequence[str]) -> dict[str, _Header]:
    headers: dict[str, _Header] = {}
    owners: dict[str, str] = {}
    problems: list[Problem] = []
    for file in files:
        try:
            header = _read(directory / file)
        except CheckpointError as caught:
            problems.extend(caught.problems)
            continue
        problems.extend(_twice(directory / file, header, owners))
        owners.update(dict.fromkeys(header.tensors, file))
        headers[file] = header
    raise_if_any(CheckpointError, problems)
    return headers


def _twice(path: Path, header: _Header, owners: Mapping[str, str]) -> list[Problem]:
    names = sorted(header.tensors.keys() & owners.keys())
    hint = "each tensor may be in one file only"
    texts = [f"tensor '{name}' is in {owners[name]} as well; {hint}" for name in names[:MAX_SHOWN]]
    if len(names) > MAX_SHOWN:
        texts.append(f"and {len(names) - MAX_SHOWN} more tensors are in two files")
    return [Problem(str(path), text) for text in texts]


def _read(path: Path) -> _Header:
    source = str(path)
    with open_binary(path, CheckpointError) as file:
        size = os.fstat(file.fileno()).st_size
        length = _header_length(source, file.read(8), size)
        raw = file.read(length)
    entries = parse_object(raw, source, CheckpointError, "the safetensors header")
    _check_metadata(source, entries.pop("__metadata__", None))
    return _header(path, entries, start=8 + length, end=size)


def _check_metadata(source: str, metadata: object) -> None:
    if metadata is None:
        return
    if not isinstance(metadata, dict) or not all(isinstance(v, str) for v in metadata.values()):
        raise _error(source, f"__metadata__ must be an object of strings, got {show(metadata)}")


def _header_length(source: str, prefix: bytes, size: int) -> int:
    if len(prefix) < 8:
        text = f"is {size} bytes long, a safetensors file has at least 8; it is truncated or empty"
        raise _error(source, text)
    length = int(struct.unpack("<Q", prefix)[0])
    if length > MAX_HEADER:
        text = f"the first 8 bytes announce a header of {length} bytes, at most {MAX_HEADER} are"
        pointer = " (it is a Git LFS pointer: run git lfs pull)" if prefix == b"version " else ""
        raise _error(source, f"{text} allowed; this is no safetensors file{pointer}")
    if 8 + length > size:
        text = f"the header should end at byte {8 + length}, the file ends at byte {size}"
        raise _error(source, f"{text}; it is truncated")
    return length


def _header(path: Path, entries: Mapping[str, Any], start: int, end: int) -> _Header:
    source = str(path)
    known: dict[tuple[str, tuple[int, ...]], Tensor] = {}
    tensors: dict[str, Tensor] = {}
    spans: list[tuple[int, int, str]] = []
    for name, entry in entries.items():
        dtype, shape, begin, stop = _entry(source, name, entry)
        tensor = known.get((dtype, shape))
        if tensor is None:
            tensor = known[dtype, shape] = make_tensor(name, dtype, shape, source)
        if (stop - begin) * 8 != _bits(tensor):
            raise _error(source, _wrong_size(name, tensor, begin, stop))
        tensors[name] = tensor
        spans.append((begin, stop, name))
    spans.sort()
    _check_cover(source, spans, end - start)
    places = {name: Place(path, start + begin, start + stop) for begin, stop, name in spans}
    return _Header(tensors, places)


def _entry(source: str, name: str, entry: Any) -> tuple[str, tuple[int, ...], int, int]:
    # One branch for the good entries: a large checkpoint has 70,000 of them.
    try:
        dtype, shape, (begin, stop) = entry["dtype"], entry["shape"], entry["data_offsets"]
        integers = {type(begin), type(stop), *map(type, shape)} == {int}
        if integers and type(dtype) is str and 0 <= begin <= stop < 2**63:
            return dtype, tuple(shape), begin, stop
    except (KeyError, TypeError, ValueError):
        pass
    raise _error(source, _wrong_entry(name, entry))


def _wrong_entry(name: str, entry: Any) -> str:
    if not isinstance(entry, dict):
        return f"tensor '{name}' must be an object, got {kind_of(entry)}"
    lacking = [key for key in ("dtype", "shape", "data_offsets") if key not in entry]
    if lacking:
        return f"tensor '{name}' lacks {lacking[0]}; dtype, shape and data_offsets are needed"
    if not isinstance(entry["dtype"], str):
        return _wrong_dtype(name, entry["dtype"])
    shape = entry["shape"]
    if not isinstance(shape, list) or any(type(size) is not int for size in shape):
        return _wrong_shape(name, shape)
    needs = "two integers, 0 <= begin <= end, are needed"
    return f"tensor '{name}' has the data_offsets {show(entry['data_offsets'])}; {needs}"


def _wrong_dtype(name: str, dtype: object) -> str:
    hint = did_you_mean(dtype.upper(), BITS) if isinstance(dtype, str) else ""
    known = ", ".join(sorted(BITS))
    return f"tensor '{name}' has the unknown dtype {show(dtype)}; known are {known}{hint}"


def _wrong_shape(name: str, shape: object) -> str:
    needs = f"an array of at most {MAX_RANK} integers from 0 to {MAX_DIMENSION} is needed"
    got = show(list(shape) if isinstance(shape, tuple) else shape)
    return f"tensor '{name}' has the shape {got}; {needs}"


def _wrong_size(name: str, tensor: Tensor, begin: int, stop: int) -> str:
    bits = _bits(tensor)
    size = f"{bits // 8} bytes" if bits % 8 == 0 else f"{bits} bits, no whole number of bytes"
    what = f"{tensor.dtype} {list(tensor.shape)}"
    return f"tensor '{name}' is {what}, {size}; its data_offsets span {stop - begin} bytes"


def _bits(tensor: Tensor) -> int:
    return prod(tensor.shape) * BITS[tensor.dtype]


def _check_cover(source: str, spans: Sequence[tuple[int, int, str]], size: int) -> None:
    reached, before = 0, ""
    for begin, stop, name in spans:
        if begin < reached:
            text = f"tensor '{name}' overlaps tensor '{before}': data_offsets [{begin}, {stop}]"
            raise _error(source, text)
        if begin > reached:
            text = f"no tensor covers the bytes {reached} to {begin} of the data, before '{name}'"
            raise _error(source, f"{text}; the format allows no gaps")
        reached, before = stop, name
    if reached > size:
        text = f"tensor '{before}' ends at byte {reached} of the data, which are {size} bytes"
        raise _error(source, f"{text}; the file is truncated")
    if reached < size:
        text = f"{size - reached} bytes follow the data of the last tensor"
        raise _error(source, f"{text}; the format allows no gaps")


def _are_sizes(shape: Sequence[object]) -> bool:
    sizes = [size for size in shape if type(size) is int and 0 <= size <= MAX_DIMENSION]
    return len(sizes) == len(shape) <= MAX_RANK


def _values(name: str, tensor: Tensor, place: Place) -> tuple[int, ...] | tuple[bool, ...]:
    source, count = str(place.file), prod(tensor.shape)
    if count > MAX_VALUES:
        text = f"tensor '{name}' has {count} elements; by value at most {MAX_VALUES} are read"
        raise _error(source, text)
    with open_binary(place.file, CheckpointError) as file:
        file.seek(place.begin)
        raw = file.read(place.end - place.begin)
    numbers = array(_TYPECODES[tensor.dtype], raw)
    if sys.byteorder == "big":
        numbers.byteswap()
    if tensor.dtype != "BOOL":
        return tuple(numbers)
    if wrong := set(numbers) - {0, 1}:
        text = f"tensor '{name}' is BOOL and holds a byte {min(wrong)}; 0 and 1 are allowed"
        raise _error(source, text)
    return tuple(map(bool, numbers))


def _error(source: str, text: str) -> CheckpointError:
    return CheckpointError(Problem(source, text))
