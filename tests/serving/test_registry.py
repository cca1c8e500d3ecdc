"""What is read from SGLang's sources about its classes is what its registry says."""

from __future__ import annotations

import re

import pytest

from eagle3_contracts.serving.process import Server
from eagle3_contracts.serving.sglang.registry import capturing_targets

_NO_TARGET = re.compile("NextN|MTP|Eagle|Assistant|Embedding")


@pytest.mark.xdist_group("sglang")
def test_targets_are_the_registered_classes_with_the_hook_less_drafts_and_embedders(
    server: Server,
) -> None:
    """The rule looks at what the classes do; their names, a second opinion, must agree."""
    names = server.run("sglang_jobs:capturing", {}, 60)["names"]
    assert len(names) > 60
    assert sorted(capturing_targets()) == sorted(n for n in names if not _NO_TARGET.search(n))
