"""The subject: one integration to check, as the subject file gives it.

These are the declared parts only. Sources are opened, and configs merged, by
:mod:`eagle3_contracts.resolve`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictInt

from eagle3_contracts.contract import Family
from eagle3_contracts.facts import Tier

MAX_DIMENSION = 2**48
"""No tensor has more elements along one axis; larger numbers are typing errors."""

LayerId = Annotated[int, Field(strict=True, ge=-(2**31), lt=2**31)]
Dimension = Annotated[int, Field(strict=True, ge=0, le=MAX_DIMENSION)]
Convention = Literal["output-of", "input-of", "hf-index"]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)


class Tensor(_Part):
    """One line of a safetensors header."""

    dtype: str
    """Name as safetensors spells it: F32, BF16, I64, BOOL, …"""
    shape: tuple[Dimension, ...]
    """Size of each axis; empty for a scalar."""


class Model(_Part):
    """A target or a draft."""

    source: str | None = None
    """Directory with config.json and safetensors, or a hub id."""
    config: dict[str, Any] | None = None
    """Inline config.json; merged over the source's when both are given."""
    quant_config: dict[str, Any] | None = None
    """Inline hf_quant_config.json."""
    tensors: dict[str, Tensor] | None = None
    """Inline safetensors header; when given, no weight file is looked at."""
    values: dict[str, tuple[StrictBool, ...] | tuple[LayerId, ...]] = {}
    """Small integer and boolean tensors by value, added to the tensors."""


class Launch(_Part):
    """How the subject is served."""

    engine: Literal["sglang", "vllm"] = "sglang"
    """Contracts about SGLang apply to sglang only."""
    args: str = ""
    """Command-line flags of the server."""
    env: dict[str, str] = {}
    """Environment variables of the server."""
    sglang: str | None = None
    """Release that the flags are meant for; default: the installed one."""


class Training(_Part):
    """What produced the draft; an absent key means unknown, never a default."""

    layer_ids: tuple[LayerId, ...] | None = None
    """Ids as the training tool was given them."""
    convention: Convention | None = None
    """How to read layer_ids."""
    tool: Literal["specforge", "speculators", "modelopt", "hf", "other"] | None = None
    """Tool that extracted the hidden states."""
    config: dict[str, Any] = {}
    """Draft config values used in training, as far as known."""
    features: str | None = None
    """Extracted hidden states: a directory or one file."""


class Expect(_Part):
    """What the checker must say; only in the case corpus."""

    tier: Tier = Tier.STATIC
    """Up to which tier the case is judged."""
    violates: tuple[Family, ...] = ()
    """Families that must have a failing contract of severity error (others may not)."""
    warns: tuple[Family, ...] = ()
    """Families that must have a failing contract of severity warning."""
    may: tuple[Family, ...] = ()
    """Families that may fail as well, without being a false alarm."""
    error: str | None = None
    """Substring of the bad-input error that must be given instead."""


class Subject(_Part):
    """One integration: a target, a draft, how they are launched, what the draft was trained on."""

    subject: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._+-]*$", max_length=120)]
    """Name, used in test ids and reports; unique within a run."""
    target: Model | None = None
    draft: Model | None = None
    launch: Launch | None = None
    training: Training | None = None
    expect: Expect | None = None

    @property
    def name(self) -> str:
        """Name of the subject."""
        return self.subject


class ResolvedModel(_Part):
    """A target or a draft with its sources read: plain values, no files left to open."""

    config: dict[str, Any]
    """The whole config.json; empty when nothing is known of it."""
    quant_config: dict[str, Any] | None = None
    """The whole hf_quant_config.json; None: there is none."""
    tensors: dict[str, Tensor] | None = None
    """All tensors of the checkpoint, values included; None: nothing is known of them."""
    values: dict[str, tuple[StrictBool, ...] | tuple[StrictInt, ...]] = {}
    """Small tensors known by value."""
    missing_shards: tuple[str, ...] = ()
    """Files that the index names and the directory lacks."""
    missing_tensors: tuple[str, ...] = ()
    """Tensors that the index names and its shards lack."""
    path: Path | None = None
    """The directory, where there is one."""


class ResolvedSubject(_Part):
    """A subject ready to be probed."""

    name: str
    target: ResolvedModel | None = None
    draft: ResolvedModel | None = None
    launch: Launch | None = None
    training: Training | None = None
    origin: str
    """How to name the subject on a command line: its file, or the options that built it."""

    @property
    def architecture(self) -> str | None:
        """Return the first of the target's ``architectures``; None: there is none."""
        names = self.target.config.get("architectures") if self.target is not None else None
        return names[0] if isinstance(names, list) and names else None
