"""The CPU platform is found by SGLang, and does nothing unless it is asked for."""

from __future__ import annotations

from importlib.metadata import entry_points

import pytest

from eagle3_contracts.serving.sglang import PLATFORM, activate
from eagle3_contracts.serving.sglang.registry import known_architectures


def test_sglang_finds_the_platform_under_its_name() -> None:
    found = {entry.name: entry.load() for entry in entry_points(group="sglang.srt.platforms")}
    assert found[PLATFORM] is activate


@pytest.mark.parametrize("chosen", [None, "", "cuda", "another_platform"])
def test_the_platform_is_inert_unless_chosen(
    chosen: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SGLANG_PLATFORM", raising=False)
    if chosen is not None:
        monkeypatch.setenv("SGLANG_PLATFORM", chosen)
    assert activate() is None


def test_the_platform_is_active_when_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SGLANG_PLATFORM", PLATFORM)
    assert activate() == "eagle3_contracts.serving.sglang.platform:CpuPlatform"


def test_architectures_are_read_from_the_installed_release() -> None:
    known = known_architectures()
    assert {
        "LlamaForCausalLM",
        "LlamaForCausalLMEagle3",
        "KimiK25ForConditionalGeneration",
    } <= known
    assert not known & {"EntryClass", "LlamaModel", "NoSuchForCausalLM"}
