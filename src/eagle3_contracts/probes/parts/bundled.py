"""The draft head inside a target's checkpoint, and the quantization that the target declares."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from eagle3_contracts.facts import Gap, GapKind
from eagle3_contracts.probes.parts import kinds, quant
from eagle3_contracts.probes.parts.reading import Tensors, integer, target_text
from eagle3_contracts.static_facts import BundledFacts
from eagle3_contracts.subject import ResolvedSubject

_LAYER = re.compile(r"(?:^|\.)layers\.(\d+)\.")


def read(subject: ResolvedSubject) -> BundledFacts | Gap:
    """Return what the target's tensors say of a head; a gap without a target."""
    target = subject.target
    if target is None:
        return Gap(GapKind.ABSENT, "the subject names no target")
    tensors = target.tensors or {}
    layers = integer(target_text(subject), "num_hidden_layers")
    head = {name: tensors[name] for name in tensors if _is_head(name, layers)}
    body = {name: tensors[name] for name in tensors if name not in head}
    return BundledFacts(
        num_tensors=len(head),
        num_quantized=len(quant.quantized(head)),
        plain=list(_plain(head, body, quant.left_out(target))) if head else [],
        method=quant.method_of(target),
    )


def _is_head(name: str, layers: int | None) -> bool:
    """Return whether a tensor is part of a draft head: by name, or as a layer after the last."""
    found = _LAYER.search(name)
    after = found is not None and layers is not None and int(found[1]) >= layers
    return after or kinds.is_head(name)


def _plain(head: Tensors, body: Tensors, left_out: Iterable[str]) -> Iterator[str]:
    """Yield the unquantized matrices of modules that are quantized in the body."""
    patterns = [*map(_pattern, left_out)]
    quantized = {_module(name).rpartition(".")[2] for name in quant.quantized(body)}
    for name, tensor in head.items():
        module = _module(name)
        if module.rpartition(".")[2] not in quantized or not quant.is_matrix(name, tensor):
            continue
        if not any(pattern.search(module) for pattern in patterns):
            yield name


def _module(name: str) -> str:
    return name.rpartition(".")[0]


def _pattern(entry: str) -> re.Pattern[str]:
    """Return an entry of an ignore list as a search: a regex, a glob, or the start of a name."""
    if entry.startswith("re:"):
        try:
            return re.compile(rf"^(?:{entry[3:]})")
        except re.error:
            return re.compile(r"(?!)")
    text = re.escape(entry).replace(r"\*", ".*").replace(r"\?", ".")
    return re.compile(rf"(?:^|\.){text}(?:\.|$)")
