"""What a speculative algorithm expects of draft and target."""

from __future__ import annotations

from eagle3_contracts.facts import Gap, GapKind
from eagle3_contracts.probes.parts import kinds
from eagle3_contracts.probes.parts.reading import (
    algorithm_of,
    launch_flags,
    target_config,
    target_text,
)
from eagle3_contracts.static_facts import AlgoFacts
from eagle3_contracts.subject import ResolvedSubject

_EAGLE = ("eagle", "mtp")
SERVES = {
    "EAGLE3": ("eagle3", "peagle"),
    "EAGLE": _EAGLE,
    "NEXTN": _EAGLE,
    "FROZEN_KV_MTP": ("mtp",),
    "STANDALONE": ("plain",),
    "DFLASH": ("dflash",),
    "DSPARK": ("dspark",),
}
"""Algorithms of SGLang, and the kinds of drafts they are for. Others take any draft, or none."""
_BUNDLED = ("EAGLE", "NEXTN", "DSPARK", "FROZEN_KV_MTP")


def read(subject: ResolvedSubject) -> AlgoFacts | Gap:
    """Return what the launch's algorithm expects; a gap without a launch of SGLang."""
    if subject.launch is None:
        return Gap(GapKind.ABSENT, "the subject names no launch section")
    if subject.launch.engine != "sglang":
        return Gap(GapKind.ABSENT, f"served by {subject.launch.engine}, not by SGLang")
    flags = launch_flags(subject)
    name = algorithm_of(flags) or ""
    serves = SERVES.get(name)
    return AlgoFacts(
        serves=None if serves is None else list(serves),
        needs_draft=serves is not None,
        takes_bundled=name in _BUNDLED,
        captures_only="enable-return-aux-hidden-states" in flags,
        bundled=_bundled(subject, name),
    )


def _bundled(subject: ResolvedSubject, algorithm: str) -> bool | None:
    """Return whether the target holds a draft head, by config, by a folder, or by tensors."""
    target, config = subject.target, target_config(subject)
    if target is None or not config:
        return None
    if algorithm == "DSPARK":
        folder = target.path / "dspark" / "config.json" if target.path else None
        return kinds.bundles_dspark(config) or (folder is not None and folder.is_file())
    if any(kinds.is_head(name) for name in target.tensors or ()):
        return True
    return kinds.bundles(config, target_text(subject))
