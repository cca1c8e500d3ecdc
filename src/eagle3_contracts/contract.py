"""The contract: one declarative entry of a contract file, typed."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from eagle3_contracts.facts import Tier

Text = Annotated[str, Field(min_length=1)]
ContractId = Annotated[str, Field(pattern=r"^[A-Z][A-Z0-9]*(-[A-Z0-9]+)*$")]
FaultName = Annotated[str, Field(pattern=r"^[a-z][a-z0-9]*(-[a-z0-9]+)*$")]


class Family(StrEnum):
    """The families of invariants; reports, waivers and ``--eagle3-family`` use these names."""

    LAYER_CONVENTION = "layer-convention"
    LAYER_RANGE = "layer-range"
    LAYER_SOURCE = "layer-source"
    CAPTURE_ENABLED = "capture-enabled"
    CAPTURE_VALUE = "capture-value"
    WIDTH = "width"
    KEYS = "keys"
    VOCAB_MAP = "vocab-map"
    HEAD_EMBED = "head-embed"
    ARCH_FLAGS = "arch-flags"
    ROPE = "rope"
    QUANT_DTYPE = "quant-dtype"
    ALGO_MATCH = "algo-match"
    LAUNCH_FLAGS = "launch-flags"
    EXTRACTION = "extraction"
    SPEC_EQUALITY = "spec-equality"
    ACCEPT_FLOOR = "accept-floor"
    CACHE = "cache"
    MM_TOKENS = "mm-tokens"
    WEIGHT_SYNC = "weight-sync"
    PARALLEL = "parallel"
    CONTEXT = "context"
    TRAIN_SEMANTICS = "train-semantics"


class _Entry(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)


class Cause(_Entry):
    """A suspected cause, given when its condition holds on the facts of the failure."""

    when: Text
    """CEL expression over the facts, of type bool."""
    says: Text
    """What is probably wrong; ``{{expression}}`` inserts a value."""


class Contract(_Entry):
    """One invariant of an integration: when it applies, what must hold, and what to do if not."""

    id: ContractId
    """Name of the contract on every surface: reports, options, waivers, test ids."""
    family: Family
    """Family of the invariant."""
    tier: Tier
    """Cheapest tier that yields the facts of the rule."""
    severity: Literal["error", "warning", "info"] = "error"
    """Only errors fail a run."""
    title: Text
    """The invariant as one sentence."""
    applies: Text = "true"
    """CEL expression over the facts: whether the contract says anything about a subject."""
    rule: Text
    """CEL expression over the facts: what must hold."""
    message: Text
    """Observed and expected; ``{{expression}}`` inserts a value."""
    why: Text
    """What happens to people when the rule does not hold."""
    causes: tuple[Cause, ...] = ()
    """Suspected causes, the most particular first; without a match, ``why`` is shown."""
    fix: Text
    """What to do about a failure."""
    refs: tuple[Text, ...] = ()
    """Public reports of this failure."""
    depends: tuple[ContractId, ...] = ()
    """Contracts whose failure makes this one meaningless; it is then blocked."""
    faults: Annotated[tuple[FaultName, ...], Field(min_length=1)]
    """Real ways to break an integration under which this contract must fail."""


class ContractFile(_Entry):
    """A contract file."""

    version: Literal[1]
    """Version of the file format."""
    contracts: Annotated[tuple[Contract, ...], Field(min_length=1)]
    """The entries, in the order in which they are shown."""
