"""Faults of the families capture-enabled and algo-match: the launch asks for something else."""

from __future__ import annotations

from eagle3_contracts.faults import Fault
from eagle3_contracts.faults.edit import edited_flag


def _never_configured() -> None:
    """The runner forgets to configure capture, as when graphs are recorded before it does."""
    from sglang.srt.model_executor import model_runner

    model_runner.configure_aux_hidden_state_capture = lambda **_: None


FAULTS = (
    Fault(
        "launched-as-eagle",
        "the server is started with --speculative-algorithm EAGLE",
        on="llama-eagle3",
        edit=lambda s: edited_flag(s, "--speculative-algorithm", "EAGLE"),
        suspected=("EAGLE captures nothing",),
    ),
    Fault(
        "never-configured",
        "capture is never configured",
        on="llama-eagle3",
        patch=_never_configured,
    ),
)
