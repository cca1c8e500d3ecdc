"""A large checkpoint to read: 60 shards with an index, 70,000 tensors, no weights in them."""

from __future__ import annotations

import json
import struct
from pathlib import Path

from eagle3_contracts.checkpoint import INDEX

SHARDS = 60
TENSORS = 70_000


def write_checkpoint(directory: Path) -> None:
    """Write sparse shards with an index, named as a mixture-of-experts model names its tensors."""
    weight_map = {}
    for shard in range(SHARDS):
        file = f"model-{shard + 1:05}-of-{SHARDS:05}.safetensors"
        header, end = {}, 0
        for number in range(shard, TENSORS, SHARDS):
            layer, expert = divmod(number, 1200)
            name = f"language_model.model.layers.{layer}.mlp.experts.{expert}.down_proj.weight"
            header[name] = {"dtype": "BF16", "shape": [8, 4], "data_offsets": [end, end + 64]}
            weight_map[name] = file
            end += 64
        text = json.dumps(header).encode()
        with (directory / file).open("wb") as out:
            out.write(struct.pack("<Q", len(text)) + text)
            out.truncate(8 + len(text) + end)
    (directory / INDEX).write_text(json.dumps({"weight_map": weight_map}))
