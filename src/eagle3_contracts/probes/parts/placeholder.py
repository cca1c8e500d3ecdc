"""Ids that stand for images, videos and sound."""

from __future__ import annotations

import re

from eagle3_contracts import modelconfig
from eagle3_contracts.facts import Gap
from eagle3_contracts.probes.parts.reading import (
    draft_config,
    integer,
    target_config,
)
from eagle3_contracts.static_facts import PlaceholderFacts
from eagle3_contracts.subject import ResolvedSubject

_KEY = re.compile(r"^(?:image|video|audio|media)\w*_token_(?:id|index)$")


def read(subject: ResolvedSubject) -> PlaceholderFacts | Gap:
    """Return the ids of the target's config; a gap without a usable draft."""
    config = draft_config(subject)
    if isinstance(config, Gap):
        return config
    target = target_config(subject)
    found = {key: target[key] for key in target if _KEY.match(key)}
    ids = {key: value for key, value in found.items() if type(value) is int and value >= 0}
    own = integer(modelconfig.draft_layers(config)[0], "vocab_size")
    return PlaceholderFacts(
        ids=ids,
        draft_ids=own,
        outside=[key for key, value in ids.items() if own is not None and value >= own],
    )
