"""Loading a checkpoint's names and shapes through a real class, without reading a weight.

The class is built at its real size on the meta device and its own ``load_weights`` is fed with
meta tensors shaped as the safetensors headers say. What the loader does with each of them is
watched: a tensor that no operation touches was ignored, a parameter that nothing was copied into
stays as it was allocated.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

Header = Mapping[str, tuple[str, Sequence[int]]]
"""Name, safetensors dtype and shape of every tensor."""

_DTYPES = {
    "F64": torch.float64,
    "F32": torch.float32,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "F8_E4M3": torch.float8_e4m3fn,
    "F8_E5M2": torch.float8_e5m2,
    "I64": torch.int64,
    "I32": torch.int32,
    "I16": torch.int16,
    "I8": torch.int8,
    "U8": torch.uint8,
    "BOOL": torch.bool,
}


@dataclass(slots=True)
class Loaded:
    """What a loader did: names as in the checkpoint, parameters as the module names them."""

    ignored: list[str] = field(default_factory=list)
    wrong_shapes: list[str] = field(default_factory=list)
    filled: dict[str, int] = field(default_factory=dict)
    """Parameter to the number of its elements that were copied into."""
    refusal: str | None = None


class _Watch(TorchDispatchMode):
    """Notes which storages operations read and which parameters they write."""

    def __init__(self, model: torch.nn.Module) -> None:
        super().__init__()
        self.parameters = {_storage(p): name for name, p in model.named_parameters()}
        self.filled: dict[str, int] = {}
        self.read: set[int] = set()

    def __torch_dispatch__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        tensors = [leaf for leaf in tree_leaves(args) if isinstance(leaf, torch.Tensor)]
        if function is torch.ops.aten.copy_.default:
            into = self.parameters.get(_storage(tensors[0]))
            if into is not None:
                self.filled[into] = self.filled.get(into, 0) + tensors[0].numel()
            tensors = tensors[1:]
        if function not in _HARMLESS:
            self.read.update(_storage(tensor) for tensor in tensors)
        return function(*args, **(kwargs or {}))


# Views alone use nothing: a loader may slice a tensor and then drop it.
_HARMLESS = {
    torch.ops.aten.detach.default,
    torch.ops.aten.view.default,
    torch.ops.aten.slice.Tensor,
    torch.ops.aten.select.int,
    torch.ops.aten.t.default,
    torch.ops.aten.transpose.int,
}


def load(model: torch.nn.Module, header: Header) -> Loaded:
    """Feed ``header`` to the real ``load_weights`` of ``model``, which lies on the meta device.

    A tensor of a wrong shape is noted and left out, and loading starts again without it, because
    a loader stops at the first one. Any other exception is the loader's refusal.
    """
    result = Loaded()
    left = dict(header)
    while True:
        feed = _Feed(left)
        watch = _Watch(model)
        try:
            with watch, torch.device("meta"):
                model.load_weights(feed.tensors())
        except (RuntimeError, AssertionError, ValueError) as error:
            if feed.current is None or not _is_about_shape(error):
                result.refusal = f"{type(error).__name__}: {error}"
                break
            wanted = _describe(error)
            result.wrong_shapes.append(f"{feed.current} {list(left.pop(feed.current)[1])}{wanted}")
            continue
        except Exception as error:
            result.refusal = f"{type(error).__name__}: {error}"
        break
    result.ignored = [name for name, at in feed.storages.items() if at not in watch.read]
    result.filled = watch.filled
    return result


class _Feed:
    """Hands the tensors to the loader one by one and remembers which one it is at."""

    def __init__(self, header: Header) -> None:
        self.header = header
        self.current: str | None = None
        self.storages: dict[str, int] = {}
        # Storages are told apart by address, so none may be freed and reused meanwhile.
        self._alive: list[torch.Tensor] = []

    def tensors(self) -> Iterator[tuple[str, torch.Tensor]]:
        for name, (dtype, shape) in self.header.items():
            tensor = torch.empty(tuple(shape), dtype=_DTYPES[dtype], device="meta")
            self._alive.append(tensor)
            self.current, self.storages[name] = name, _storage(tensor)
            yield name, tensor
        self.current = None


def _storage(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage()._cdata


def _is_about_shape(error: Exception) -> bool:
    text = str(error).lower()
    return isinstance(error, AssertionError) or "size" in text or "shape" in text


def _describe(error: Exception) -> str:
    text = re.sub(r"torch\.Size\((\[.*?\])\)", r"\1", str(error).strip()).splitlines()
    return f": {text[0]}" if text else ""


def unfilled(model: torch.nn.Module, filled: Mapping[str, int], shared: Sequence[str]) -> list[str]:
    """Return the parameters that got nothing, or only some of the tensors fused into them."""
    missing = []
    for name, parameter in model.named_parameters():
        if name in shared:
            continue
        got = filled.get(name, 0)
        if got == 0:
            missing.append(name)
        elif got < parameter.numel() and _is_fused(name):
            missing.append(f"{name} ({got} of {parameter.numel()} elements)")
    return missing


def _is_fused(name: str) -> bool:
    return any(part in name for part in ("qkv", "gate_up", "fused_", "experts."))
