"""The config of drafts that draft a block at once."""

from __future__ import annotations

from typing import Any

from eagle3_contracts import modelconfig
from eagle3_contracts.facts import Gap, GapKind
from eagle3_contracts.modelconfig import Config
from eagle3_contracts.probes.parts import kinds
from eagle3_contracts.probes.parts.reading import draft_config, integer, launch_flags, nested
from eagle3_contracts.probes.static import shift_between
from eagle3_contracts.static_facts import BlockFacts
from eagle3_contracts.subject import ResolvedSubject

_SIZES = (
    "speculative-num-draft-tokens",
    "speculative-dflash-block-size",
    "speculative-dspark-block-size",
)
_BUNDLED = {"mask_token_id": "noise_token_id"}
"""Keys with another name in the config of a target that bundles the draft."""


def read(subject: ResolvedSubject) -> BlockFacts | Gap:
    """Return what the config says; a gap for a draft of another kind."""
    config = draft_config(subject)
    if isinstance(config, Gap):
        return config
    if kinds.kind_of(config) not in ("dflash", "dspark"):
        return Gap(GapKind.ABSENT, "the subject names no DFlash or DSpark draft")
    ids = _ids(config)
    layers = integer(modelconfig.draft_layers(config)[0], "num_hidden_layers")
    trained = subject.training.layer_ids if subject.training else None
    return BlockFacts(
        layer_ids=ids,
        num_features=layers if ids is None else len(ids),
        num_target_layers=_first(config, "num_target_layers"),
        block_sizes=_all(config, "block_size"),
        is_size_flagged=any(flag in launch_flags(subject) for flag in _SIZES),
        mask_token_id=_first(config, "mask_token_id", least=0),
        markov_rank=_first(config, "markov_rank", least=0),
        shift_to_training=shift_between(trained, ids),
    )


def _places(config: Config, key: str) -> list[Any]:
    """Return the values of a key in the order in which SGLang looks for them."""
    inner = (nested(config, "dflash_config"), nested(config, "dspark_config"), config)
    bundled = config.get(f"dspark_{_BUNDLED.get(key, key)}")
    return [*(place.get(key) for place in inner), bundled]


def _all(config: Config, key: str) -> list[int]:
    values = [value for value in _places(config, key) if type(value) is int and value > 0]
    return list(dict.fromkeys(values))


def _first(config: Config, key: str, least: int = 1) -> int | None:
    values = (v for v in _places(config, key) if type(v) is int and v >= least)
    return next(values, None)


def _ids(config: Config) -> list[int] | None:
    for value in _places(config, "target_layer_ids"):
        if isinstance(value, list | tuple) and value and all(type(i) is int for i in value):
            return list(value)
    return None
