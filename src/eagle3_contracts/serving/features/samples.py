"""Reading one sample of a dump, whatever its layout; nothing that a file holds is ever run.

Tensors are memory-mapped, so that only the part that is looked at is read from the disk. A
``*.ckpt.gz`` has no random access: it is unpacked into a temporary file, up to a limit.
"""

from __future__ import annotations

import gzip
import pickle
import tempfile
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import torch
from safetensors import SafetensorError, safe_open

from eagle3_contracts.errors import printable
from eagle3_contracts.features.dump import Kind, Layout
from eagle3_contracts.manifest import DTYPES

MAX_UNPACKED = 16 * 2**30
"""Bytes that a packed sample may unpack to; 32,768 tokens of 4 states of DeepSeek-V3 are 2 GB."""

_INTEGERS = (torch.int64, torch.int32)
_NAMES = {torch.float32: "float32", torch.float16: "float16", torch.bfloat16: "bfloat16"}


class DamagedError(Exception):
    """A sample that cannot be used; the text says why, ``kind`` in which way."""

    def __init__(self, kind: Kind, text: str) -> None:
        super().__init__(printable(text))
        self.kind = kind


@dataclass(frozen=True, slots=True)
class Sample:
    """One sequence, checked: as many rows as tokens, all values finite.

    ``tokens`` [T]; ``states`` [T, k, H], the k slots that the draft is fed; ``last`` [T, H], the
    state after the last layer, or None.
    """

    tokens: torch.Tensor
    states: torch.Tensor
    last: torch.Tensor | None

    @property
    def dtype(self) -> str:
        """Dtype of the states, as a manifest names it."""
        return _NAMES[self.states.dtype]


def read_sample(file: Path, layout: Layout) -> Sample:
    """Return the sample in ``file``; DamagedError when it cannot be used."""
    sample = _READERS[layout](file)
    _check(sample)
    return sample


def _read_specforge(file: Path) -> Sample:
    data = _unpickled(file)
    tokens, last = _tensor(data, "input_ids"), _tensor(data, "hidden_state")
    aux = _tensor(data, "aux_hidden_state")
    tokens, last, aux = (_unbatched(t, n) for t, n in ((tokens, 1), (last, 2), (aux, 2)))
    _expect_rank(tokens, 1, "input_ids", "[T]")
    _expect_rank(last, 2, "hidden_state", "[1, T, H]")
    _expect_rank(aux, 2, "aux_hidden_state", "[1, T, k x H]")
    width, hidden = aux.shape[1], last.shape[1]
    if not hidden or not width or width % hidden:
        text = f"aux_hidden_state is {width} wide, which is no multiple of hidden_state's {hidden}"
        raise DamagedError(Kind.SHAPE, text)
    return Sample(tokens, aux.unflatten(1, (width // hidden, hidden)), last)


def _read_speculators(file: Path) -> Sample:
    data = _safetensors(file)
    tokens, states = _tensor(data, "token_ids"), _tensor(data, "hidden_states")
    _expect_rank(tokens, 1, "token_ids", "[T]")
    _expect_rank(states, 3, "hidden_states", "[T, slots, H]")
    if states.shape[1] < 2:
        raise DamagedError(Kind.SHAPE, f"hidden_states has {states.shape[1]} slots; 2 is the least")
    return Sample(tokens, states[:, :-1], states[:, -1])


def _read_plain(file: Path) -> Sample:
    data = _safetensors(file)
    tokens, states = _tensor(data, "token_ids"), _tensor(data, "states")
    _expect_rank(tokens, 1, "token_ids", "[T]")
    _expect_rank(states, 3, "states", "[T, k, H]")
    last = _tensor(data, "last") if "last" in data else None
    if last is not None:
        _expect_rank(last, 2, "last", "[T, H]")
    return Sample(tokens, states, last)


_READERS: Mapping[Layout, Callable[[Path], Sample]] = {
    Layout.SPECFORGE: _read_specforge,
    Layout.SPECULATORS: _read_speculators,
    Layout.PLAIN: _read_plain,
}


def _unpickled(file: Path) -> Mapping[str, Any]:
    if file.name.endswith(".gz"):
        with tempfile.NamedTemporaryFile(suffix=".ckpt") as unpacked:
            _unpack(file, unpacked)
            return _loaded(Path(unpacked.name))
    return _loaded(file)


def _unpack(file: Path, into: IO[bytes]) -> None:
    try:
        with gzip.open(file) as packed:
            while piece := packed.read(2**24):
                into.write(piece)
                if into.tell() > MAX_UNPACKED:
                    raise DamagedError(Kind.UNREADABLE, f"unpacks to over {MAX_UNPACKED} bytes")
    except (OSError, EOFError, zlib.error) as error:
        raise DamagedError(Kind.UNREADABLE, f"cannot be unpacked: {error}") from None
    into.flush()


def _loaded(file: Path) -> Mapping[str, Any]:
    if not file.stat().st_size:
        raise DamagedError(Kind.UNREADABLE, "is an empty file")
    try:
        data = torch.load(file, map_location="cpu", weights_only=True, mmap=True)
    except pickle.UnpicklingError as error:
        raise _refused(str(error)) from None
    except Exception as error:  # a corrupt file raises whatever its bytes lead to
        raise DamagedError(Kind.UNREADABLE, f"cannot be read: {_first_line(error)}") from None
    if not isinstance(data, dict):
        raise DamagedError(Kind.LACKS, f"holds a {type(data).__name__}; a dict is expected")
    return data


def _refused(text: str) -> DamagedError:
    _, found, name = text.partition("Unsupported global: GLOBAL ")
    if found:
        said = f"is a pickle that calls {name.split()[0]}; such code is never run"
        return DamagedError(Kind.CODE, said)
    return DamagedError(Kind.UNREADABLE, "cannot be read: it is no pickle of tensors alone")


def _safetensors(file: Path) -> Mapping[str, Any]:
    try:
        with safe_open(file, framework="pt") as opened:
            return {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118
    except (OSError, SafetensorError) as error:
        raise DamagedError(Kind.UNREADABLE, f"cannot be read: {_first_line(error)}") from None


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def _tensor(data: Mapping[str, Any], name: str) -> torch.Tensor:
    if name not in data:
        has = ", ".join(sorted(map(str, data))) or "nothing"
        raise DamagedError(Kind.LACKS, f"lacks {name}; it has {has}")
    value = data[name]
    if not isinstance(value, torch.Tensor) or value.is_sparse or value.is_quantized:
        raise DamagedError(Kind.DTYPE, f"{name} is a {type(value).__name__}, not a plain tensor")
    if value.numel() * value.element_size() > value.untyped_storage().nbytes():
        raise DamagedError(Kind.SHAPE, f"{name} has more elements than the file has bytes for")
    return value


def _unbatched(tensor: torch.Tensor, rank: int) -> torch.Tensor:
    is_batch_of_one = tensor.dim() == rank + 1 and tensor.shape[0] == 1
    return tensor[0] if is_batch_of_one else tensor


def _expect_rank(tensor: torch.Tensor, rank: int, name: str, wanted: str) -> None:
    if tensor.dim() != rank:
        raise DamagedError(Kind.SHAPE, f"{name} is {list(tensor.shape)}; {wanted} is expected")


def _check(sample: Sample) -> None:
    parts = {"the slots": sample.states, "the last state": sample.last}
    there = {name: part for name, part in parts.items() if part is not None}
    if sample.tokens.dtype not in _INTEGERS:
        text = f"the token ids are {_short(sample.tokens.dtype)}; int64 or int32 is expected"
        raise DamagedError(Kind.DTYPE, text)
    for name, part in there.items():
        if part.dtype not in _NAMES or part.dtype != sample.states.dtype:
            wanted = " or ".join(DTYPES)
            text = f"{name} are {_short(part.dtype)}; {wanted}, all the same, is expected"
            raise DamagedError(Kind.DTYPE, text)
        if part.shape[-1] != sample.states.shape[-1] or not part.shape[-1]:
            text = f"{name} are {part.shape[-1]} wide, the slots {sample.states.shape[-1]}"
            raise DamagedError(Kind.SHAPE, text)
    _check_rows(sample, there)
    _check_values(sample, there)


def _check_rows(sample: Sample, parts: Mapping[str, torch.Tensor]) -> None:
    count = len(sample.tokens)
    for name, part in parts.items():
        if len(part) != count:
            text = f"{count} token ids, and {len(part)} rows of {name}"
            raise DamagedError(Kind.COUNT, text)
    if not count or not sample.states.shape[1]:
        raise DamagedError(Kind.EMPTY, f"{count} tokens, {sample.states.shape[1]} slots")


def _check_values(sample: Sample, parts: Mapping[str, torch.Tensor]) -> None:
    if int(sample.tokens.min()) < 0:
        raise DamagedError(Kind.SHAPE, f"a token id is {int(sample.tokens.min())}")
    for name, part in parts.items():
        finite = torch.isfinite(part).flatten(1).all(1)
        if not bool(finite.all()):
            at = int((~finite).nonzero()[0])
            text = f"{int((~finite).sum())} rows of {name} are not finite, the first at token {at}"
            raise DamagedError(Kind.NOT_FINITE, text)
        for slot, states in enumerate(part.unbind(1) if part.dim() == 3 else [part]):
            if not bool(states.any()):
                raise DamagedError(Kind.ZERO, f"{name}: slot {slot} is nothing but zeros")


def _short(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
