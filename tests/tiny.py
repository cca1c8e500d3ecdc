"""Tiny contracts and subjects for the tests of judging and reporting."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from eagle3_contracts.catalogue import Entry, read_catalogue
from eagle3_contracts.facts import Tier
from eagle3_contracts.probes import Request, Yield
from eagle3_contracts.subject import Launch, ResolvedModel, ResolvedSubject

WIDTH = {
    "id": "WIDTH",
    "family": "width",
    "tier": "static",
    "title": "The fc fits",
    "rule": "checkpoint.fc_in == draft.aux_width",
    "message": "fc takes {{checkpoint.fc_in}}; {{draft.aux_width}} expected",
    "why": "It does not load.",
    "fix": "Take another draft.",
    "faults": ["fc-too-narrow"],
}
"""A contract that compares two facts of the files."""


def entries(folder: Path, *contracts: Mapping[str, Any]) -> tuple[Entry, ...]:
    """Return contracts read from a file; what they leave out is as in WIDTH."""
    whole = [{**WIDTH, **contract} for contract in contracts]
    folder.mkdir(exist_ok=True)
    file = folder / "contracts.yaml"
    file.write_text(yaml.safe_dump({"version": 1, "contracts": whole}, sort_keys=False))
    return read_catalogue([file])


def subject(name: str = "tiny", fc_in: int = 48, engine: str | None = "sglang") -> ResolvedSubject:
    """Return a target 16 wide of 8 layers with a draft of three states, whose fc fits with 48."""
    tensors = {"fc.weight": {"dtype": "BF16", "shape": [16, fc_in]}}
    draft = {"architectures": ["LlamaForCausalLMEagle3"], "hidden_size": 16}
    return ResolvedSubject(
        name=name,
        target=ResolvedModel(config={"hidden_size": 16, "num_hidden_layers": 8}),
        draft=ResolvedModel.model_validate({"config": draft, "tensors": tensors}),
        launch=Launch.model_validate({"engine": engine}) if engine else None,
        origin=f"{name}.yaml",
    )


class Told:
    """A probe that yields what it is told, and counts its runs."""

    def __init__(self, tier: Tier, found: Yield | Exception, groups: tuple[str, ...] = ()) -> None:
        self.name = f"told-{tier}"
        self.tier = tier
        self.found = found
        self.groups = groups or (() if isinstance(found, Exception) else tuple(found))
        self.runs = 0

    def run(self, subject: ResolvedSubject, request: Request) -> Yield:
        """Return what was told, or raise it."""
        del subject, request
        self.runs += 1
        if isinstance(self.found, Exception):
            raise self.found
        return self.found
