"""Which architectures the installed SGLang has, read from its sources without importing it."""

from __future__ import annotations

from functools import cache

from eagle3_contracts.serving.sglang.sources import entries


@cache
def known_architectures() -> frozenset[str]:
    """Return the classes that model modules register; empty when SGLang is not installed."""
    return frozenset(entries())
