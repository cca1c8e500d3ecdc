"""Listening to verification: which tokens were drafted, and which the target says."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from sglang.srt.speculative import eagle_utils

Verified = tuple[list[int], list[int]]
"""The drafted ids after the last token, and the target's ids: the first follows the last token."""


def watch(note: Callable[[list[Verified]], None]) -> None:
    """Hand ``note`` every verification from now on, a row for each request, before it is judged.

    With trees the ids are those of all branches. On a GPU another kernel verifies.
    """
    original = eagle_utils.verify_tree_greedy_func

    def verify(*args: Any, **kwargs: Any) -> Any:
        rows = zip(_rows(kwargs["candidates"]), _rows(kwargs["target_predict"]), strict=True)
        note([(drafted[1:], target) for drafted, target in rows])
        return original(*args, **kwargs)

    eagle_utils.verify_tree_greedy_func = verify


def _rows(ids: torch.Tensor) -> list[list[int]]:
    return [[int(token) for token in row] for row in ids.tolist()]
