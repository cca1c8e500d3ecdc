"""Asking one loaded model several questions, each as if it were the first."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any


@contextlib.contextmanager
def untouched(runner: Any) -> Iterator[None]:
    """Give the modules of ``runner`` their attributes back, and empty its pools.

    Loading takes most of a twin's time, and classes keep what capture was configured for in
    attributes of their modules, some of them in lists that are changed in place.
    """
    kept = [(module, _copied(vars(module))) for module in runner.model.modules()]
    try:
        yield
    finally:
        for module, attributes in kept:
            vars(module).clear()
            vars(module).update(attributes)
        runner.req_to_token_pool.clear()
        runner.token_to_kv_pool_allocator.clear()


def _copied(attributes: dict[str, Any]) -> dict[str, Any]:
    """Copy plain lists, sets and mappings; modules and tensors stay the objects they are."""
    plain = (list, set, dict)
    return {
        name: value.copy() if type(value) in plain else value for name, value in attributes.items()
    }
