"""Probes: what turns a subject into facts. Each runs once per subject, for all contracts."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from eagle3_contracts.facts import Gap, Record, Tier
from eagle3_contracts.subject import ResolvedSubject

Yield = Mapping[str, Record | Gap]
"""Facts by the name of their group."""


@dataclass(frozen=True, slots=True)
class Request:
    """How probes are to run.

    ``device`` is cpu or cuda, ``timeout`` the seconds that one probe may take, ``fault`` the name
    of a fault to apply inside the probed process (only ``prove`` and the project's tests set it).
    With ``weights``, the values of the draft's weights are read.
    """

    device: str = "cpu"
    timeout: float = 300.0
    fault: str | None = None
    weights: bool = False


class Probe(Protocol):
    """One way to learn about a subject."""

    @property
    def name(self) -> str:
        """Name of the probe."""
        ...

    @property
    def tier(self) -> Tier:
        """What has to run for it."""
        ...

    @property
    def groups(self) -> tuple[str, ...]:
        """The groups of facts it yields, all of them in every run, as a record or a gap."""
        ...

    def run(self, subject: ResolvedSubject, request: Request) -> Yield:
        """Return a record or a gap for each of ``groups``; never raise for a broken subject."""
        ...


def probes() -> tuple[Probe, ...]:
    """Return all probes, cheapest tier first; importing them imports no torch and no sglang."""
    from eagle3_contracts.probes.canary import CanaryProbe
    from eagle3_contracts.probes.engine import EngineProbe
    from eagle3_contracts.probes.load import LoadProbe
    from eagle3_contracts.probes.memory import MemoryProbe
    from eagle3_contracts.probes.model import ModelProbe
    from eagle3_contracts.probes.parts import parts
    from eagle3_contracts.probes.questions import QuestionProbe
    from eagle3_contracts.probes.static import StaticProbe
    from eagle3_contracts.probes.weights import WeightProbe

    return (
        StaticProbe(),
        *parts(),
        WeightProbe(),
        LoadProbe(),
        ModelProbe(),
        QuestionProbe(),
        EngineProbe(),
        CanaryProbe(),
        MemoryProbe(),
    )


def close() -> None:
    """End the processes that probes have started; they start anew when they are needed again."""
    module = sys.modules.get(f"{__name__}.sglang")
    if module is not None:
        module.close()
