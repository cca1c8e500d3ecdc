"""What the installed SGLang's sources say about a subject."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from eagle3_contracts import modelconfig
from eagle3_contracts.facts import Gap, GapKind
from eagle3_contracts.modelconfig import Config
from eagle3_contracts.probes.parts import kinds
from eagle3_contracts.probes.parts.reading import (
    algorithm_of,
    draft_config,
    launch_flags,
    nested,
    target_config,
)
from eagle3_contracts.probes.static import environment
from eagle3_contracts.serving.sglang import release, sources
from eagle3_contracts.static_facts import ReleaseFacts
from eagle3_contracts.subject import ResolvedSubject

FLAGS = ("norm_before_fc", "fc_norm", "use_aux_norm", "norm_output", "norm_before_residual")
"""Switches of EAGLE-3 drafts that change what the draft computes; off where they are not given."""
_HOOKS = {
    "EAGLE3": ("set_eagle3_layers_to_capture",),
    "DFLASH": ("set_dflash_layers_to_capture",),
    "DSPARK": ("set_dspark_layers_to_capture", "set_dflash_layers_to_capture"),
}


def read(subject: ResolvedSubject) -> ReleaseFacts | Gap:
    """Return what the sources say; a gap without SGLang, or for a launch of another release."""
    if (gap := _gap(subject)) is not None:
        return gap
    flags = launch_flags(subject)
    config = draft_config(subject)
    draft: Config = {} if isinstance(config, Gap) else config
    target = modelconfig.architecture_of(target_config(subject))
    name = modelconfig.architecture_of(draft)
    draft_class = release.bundling().get(name or "", name)
    hooks = _hooks(flags, draft)
    known = sources.entries() if target or name else {}
    return ReleaseFacts(
        algorithms=list(release.algorithms()),
        unknown_flags=[text for flag in flags if (text := release.unknown_flag(flag))],
        bad_values=[text for flag in flags.items() if (text := release.bad_value(*flag))],
        draft_backends=list(release.draft_backends()),
        target_known=None if target is None else target in known,
        draft_known=None if name is None else name in known,
        draft_class=draft_class,
        target_bundles=target in release.bundling() or target in release.self_drafting(),
        capture_hook=" or ".join(hooks) or None,
        sets_capture=_has(target, *hooks) if hooks else None,
        gives_embed_and_head=_has(target, "get_embed_and_head"),
        passed_over=list(_passed_over(draft, draft_class or "")),
        guards_placeholders=release.guards_placeholders(draft_class or ""),
    )


def _gap(subject: ResolvedSubject) -> Gap | None:
    launch, installed = subject.launch, environment("cpu").sglang
    if launch is not None and launch.engine != "sglang":
        return Gap(GapKind.ABSENT, f"served by {launch.engine}, not by SGLang")
    if installed is None or sources.root() is None:
        return Gap(GapKind.ABSENT, "SGLang is not installed, so its sources cannot be read")
    if launch is not None and launch.sglang not in (None, installed):
        return Gap(GapKind.ABSENT, f"meant for SGLang {launch.sglang}; installed is {installed}")
    return None


def _hooks(flags: Mapping[str, str], draft: Config) -> tuple[str, ...]:
    """Return the names of the hook that the algorithm uses; without one, that of the draft."""
    algorithm = algorithm_of(flags) or (kinds.kind_of(draft) or "").upper()
    return _HOOKS.get(algorithm, ())


def _has(architecture: str | None, *methods: str) -> bool | None:
    path = sources.entries().get(architecture or "")
    if architecture is None or path is None:
        return None
    answers = [sources.has_method(architecture, path, method) for method in methods]
    return True if True in answers else None if None in answers else False


def _passed_over(config: Config, draft_class: str) -> Iterator[str]:
    """Yield the switches that are on, and that the draft's class reads neither here nor there."""
    # Reading a module takes long, so the kind is looked at first.
    read_by = release.reads(draft_class) if kinds.kind_of(config) == "eagle3" else None
    if read_by is None:
        return
    top, inner = read_by
    for name in FLAGS:
        at_top = config.get(name) is True
        at_inner = nested(config, "eagle_config").get(name) is True
        if at_top and name not in top and not (at_inner and name in inner):
            yield name
        elif at_inner and name not in inner and not (at_top and name in top):
            yield f"eagle_config.{name}"
