"""Which architectures the installed SGLang has, read from its sources without importing it."""

from __future__ import annotations

import ast
from functools import cache

from eagle3_contracts.serving.sglang import sources

_HOOK = "set_eagle3_layers_to_capture"
_READS_A_TARGET = "spec_info.hidden_states"

WRITTEN_FOR = "0.5.23"
"""Release that the built-in subjects are about; an earlier one may lack some of their classes."""


@cache
def known_architectures() -> frozenset[str]:
    """Return the classes that model modules register; empty when SGLang is not installed."""
    return frozenset(sources.entries())


@cache
def capturing_targets() -> frozenset[str]:
    """Return the architectures that an EAGLE-3 draft can be trained for.

    They have the hook that configures capture. A draft or an embedding model may inherit it from
    its target and is none: a draft's file reads the hidden states that a target has handed over,
    and an embedding model pools its states instead of predicting tokens.
    """
    return frozenset(name for name, path in sources.entries().items() if _is_target(name, path))


def _is_target(name: str, path: str) -> bool:
    if not sources.has_method(name, path, _HOOK):
        return False
    lineage = list(sources.lineage(name, path))
    return not (_drafts(lineage) or _only_pools(lineage))


def _drafts(lineage: list[tuple[str, str]]) -> bool:
    return any(_READS_A_TARGET in sources.text(path) for _, path in lineage)


def _only_pools(lineage: list[tuple[str, str]]) -> bool:
    """Return whether the constructor makes a pooler and nothing that computes logits.

    Several targets have a pooler beside their head, to serve as embedding models on demand.
    """
    for name, path in lineage:
        found = sources.class_of(name, path)
        for node in found.body if found is not None else ():
            if isinstance(node, ast.FunctionDef) and node.name == "__init__":
                calls = {ast.unparse(n.func) for n in ast.walk(node) if isinstance(n, ast.Call)}
                return "Pooler" in calls and "LogitsProcessor" not in calls
    return False
