"""All knowledge of SGLang's internals: a new release of SGLang is a change in this package."""

from __future__ import annotations

import os
from collections.abc import Mapping

PLATFORM = "eagle3_cpu"
"""Name of the CPU platform, as SGLANG_PLATFORM chooses it."""

_ALWAYS = {
    # A path that does not exist is otherwise looked up on the hub, again and again.
    "HF_HUB_OFFLINE": "1",
    # torch.compile spends 20 s on functions that run here once.
    "TORCHDYNAMO_DISABLE": "1",
    "OMP_NUM_THREADS": "1",
}

ENVIRONMENT: Mapping[str, Mapping[str, str]] = {
    "cpu": {
        **_ALWAYS,
        "SGLANG_PLATFORM": PLATFORM,
        "TRITON_INTERPRET": "1",
        # In bfloat16 a decode step would differ from an extend by the rounding of the state.
        "SGLANG_MAMBA_CONV_DTYPE": "float32",
    },
    "cuda": _ALWAYS,
}
"""Environment of a process that runs SGLang, by device."""


def activate() -> str | None:
    """Tell SGLang where the CPU platform is, if SGLANG_PLATFORM asks for it (entry point)."""
    if os.environ.get("SGLANG_PLATFORM") != PLATFORM:
        return None
    return "eagle3_contracts.serving.sglang.platform:CpuPlatform"
