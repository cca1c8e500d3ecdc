"""Faults of a serving engine: speculation that does not run, or that changes what comes out."""

from __future__ import annotations

from typing import Any

from eagle3_contracts.faults import Fault


def _nothing_verified() -> None:
    """Verification counts no step, as when another worker took the requests over."""
    from sglang.srt.managers.schedule_batch import Req

    Req.spec_correct_drafts_histogram = property(lambda self: [], lambda self, _: None)


def _everything_accepted() -> None:
    from sglang.srt.speculative import eagle_utils

    original = eagle_utils.verify_tree_greedy_func

    def verify_tree_greedy_func(*, candidates: Any, target_predict: Any, **options: Any) -> Any:
        drafted = target_predict.view(candidates.shape).clone()
        drafted[:, :-1] = candidates[:, 1:]
        taken = drafted.view(target_predict.shape)
        return original(candidates=candidates, target_predict=taken, **options)

    eagle_utils.verify_tree_greedy_func = verify_tree_greedy_func


def _verified_at_wrong_positions() -> None:
    from sglang.srt.models.llama import LlamaForCausalLM

    original = LlamaForCausalLM.forward

    def forward(
        self: Any, input_ids: Any, positions: Any, forward_batch: Any, *args: Any, **kwargs: Any
    ) -> Any:
        if forward_batch.forward_mode.is_target_verify():
            positions = positions + 7
        return original(self, input_ids, positions, forward_batch, *args, **kwargs)

    LlamaForCausalLM.forward = forward


FAULTS = (
    Fault(
        "nothing-verified",
        "no draft is ever verified",
        on="llama-eagle3",
        patch=_nothing_verified,
    ),
    Fault(
        "everything-accepted",
        "verification accepts every draft",
        on="llama-eagle3",
        patch=_everything_accepted,
    ),
    Fault(
        "verified-at-wrong-positions",
        "drafted tokens are verified at the positions of later ones",
        on="llama-eagle3",
        patch=_verified_at_wrong_positions,
    ),
)
