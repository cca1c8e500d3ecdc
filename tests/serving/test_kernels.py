"""The plain attention kernels compute what SGLang's Triton kernels do."""

from __future__ import annotations

import pytest

from eagle3_contracts.serving.process import Server

pytestmark = pytest.mark.xdist_group("sglang")


def test_plain_kernels_equal_the_interpreted_ones(server: Server) -> None:
    errors = server.run("kernel_jobs:kernel_errors", {}, 120)
    assert set(errors) == {"causal", "tree", "window", "logit cap", "sinks", "decode"}
    assert max(errors.values()) < 1e-5, errors
