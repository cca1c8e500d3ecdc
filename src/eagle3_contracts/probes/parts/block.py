"""The config of drafts that draft a block at once."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
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
    ids, key = _ids(config)
    layers = integer(modelconfig.draft_layers(config)[0], "num_hidden_layers")
    trained = subject.training.layer_ids if subject.training else None
    sizes = _all(config, "block_size")
    return BlockFacts(
        layer_ids=ids,
        layer_ids_key=key,
        input_ids=_input_ids(config),
        num_features=layers if ids is None else len(ids),
        num_target_layers=_first(config, "num_target_layers"),
        block_sizes=sizes,
        is_size_flagged=any(flag in launch_flags(subject) for flag in _SIZES),
        proposals=[n for n in _proposals(config, launch_flags(subject)) if _is_small(n)],
        max_proposal=sizes[0] - (not _is_anchored(config)) if len(sizes) == 1 else None,
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


def _ids(config: Config) -> tuple[list[int] | None, str | None]:
    """Return the ids of the layers and their key: SGLang's, else that of speculators."""
    for value in _places(config, "target_layer_ids"):
        if ids := _list(value):
            return ids, "target_layer_ids"
    ids = _list(config.get("aux_hidden_state_layer_ids"))
    return ids, "aux_hidden_state_layer_ids" if ids else None


def _input_ids(config: Config) -> list[int] | None:
    keys = ("aux_hidden_state_layers", modelconfig.LAYER_IDS)
    return next((ids for key in keys if (ids := _list(config.get(key)))), None)


def _list(value: object) -> list[int] | None:
    if isinstance(value, list | tuple) and value and all(map(_is_small, value)):
        return list(value)
    return None


def _is_small(value: object) -> bool:
    return type(value) is int and abs(value) <= modelconfig.MAX_INTEGER


def _is_anchored(config: Config) -> bool:
    """Return whether the first place of a block gives a new token, and no copy of the last one."""
    stated = next((v for v in _places(config, "sample_from_anchor") if v is not None), None)
    return kinds.kind_of(config) == "dspark" if stated is None else stated is True


def _proposals(config: Config, flags: Mapping[str, str]) -> Iterator[Any]:
    """Yield the numbers of tokens to propose, by the draft's config and by vLLM's launch."""
    methods = nested(config, "speculators_config").get("proposal_methods")
    for method in methods if isinstance(methods, list) else ():
        if isinstance(method, dict):
            yield method.get("speculative_tokens")
    given = _json(flags.get("speculative-config", ""))
    yield given.get("num_speculative_tokens") if isinstance(given, dict) else None


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None
