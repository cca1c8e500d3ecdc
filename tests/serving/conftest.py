"""The process that has SGLang, and the jobs of these tests beside the project's own."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from eagle3_contracts.serving.process import Server
from eagle3_contracts.serving.sglang import ENVIRONMENT


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    path = [str(Path(__file__).parent), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {**ENVIRONMENT["cpu"], "PYTHONPATH": os.pathsep.join(path)}
    server = Server("eagle3_contracts.serving.sglang.preload", environment)
    yield server
    server.close()
