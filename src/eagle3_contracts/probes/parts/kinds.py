"""Kinds of drafts, by their config."""

from __future__ import annotations

from typing import Any

from eagle3_contracts import modelconfig
from eagle3_contracts.modelconfig import Config

_BY_NAME = {
    "dspark": "dspark",
    "dflash": "dflash",
    "domino": "dflash",
    "museglimmer": "dflash",
    "peagle": "peagle",
    "eagle3": "eagle3",
    "eagle": "eagle",
    "nextn": "mtp",
    "mtp": "mtp",
    "assistant": "mtp",
}
"""Parts of class names, the most particular first, and the kind of draft they mean."""
BUNDLED = (
    "num_nextn_predict_layers",
    "num_mtp_layers",
    "mtp_num_hidden_layers",
    "mtp_num_layers",
    "n_predict",
)
"""Keys by which a target's config counts the layers of a draft head inside it."""
_MARKS = ("mtp", "nextn")
_DSPARK = ("dspark_block_size", "dspark_markov_rank", "dspark_target_layer_ids")


def kind_of(config: Config) -> str | None:
    """Return the kind of draft that a config describes; None when nothing says.

    The class name comes first, then what speculators calls the draft, then keys of one kind only.
    """
    name = (modelconfig.architecture_of(config) or "").lower()
    model = str(config.get("speculators_model_type") or "").lower().replace("-", "")
    for text in (name, model):
        for part, kind in _BY_NAME.items():
            if part in text:
                return kind
    if isinstance(config.get("dflash_config"), dict):
        return "dflash" if config.get("markov_rank") is None else "dspark"
    if modelconfig.is_eagle3(config):
        return "eagle3"
    return "plain" if name else None


def is_plain(config: Config) -> bool:
    """Return whether the class name is that of a language model rather than of a draft."""
    name = (modelconfig.architecture_of(config) or "").lower()
    return bool(name) and not any(part in name for part in _BY_NAME)


def bundles_dspark(config: Config) -> bool:
    """Return whether a target's config describes a DSpark head inside it."""
    return any(config.get(key) is not None for key in _DSPARK)


def bundles(config: Config, text: Config) -> bool | None:
    """Return whether a target's config counts layers of a draft head; None when it does not say."""
    counts: list[Any] = [place.get(key) for place in (config, text) for key in BUNDLED]
    stated = [value for value in counts if type(value) is int]
    return any(value > 0 for value in stated) if stated else None


def is_head(name: str) -> bool:
    """Return whether a target's tensor is part of a draft head, as far as its name says so."""
    return any(part in _MARKS for part in name.split("."))
