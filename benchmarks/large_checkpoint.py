"""How long it takes to read the headers of a large target: 60 shards, 70,000 tensors.

Run ``python benchmarks/large_checkpoint.py``; it prints seconds, the best of three.
"""

from __future__ import annotations

import json
import struct
import sys
import tempfile
import time
from pathlib import Path

from eagle3_contracts.checkpoint import INDEX, read_checkpoint

SHARDS = 60
TENSORS = 70_000


def write(directory: Path) -> None:
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


def main() -> None:
    """Print the time of the fastest of three readings."""
    with tempfile.TemporaryDirectory() as name:
        write(Path(name))
        seconds = []
        for _ in range(3):
            start = time.perf_counter()
            checkpoint = read_checkpoint(Path(name))
            seconds.append(time.perf_counter() - start)
    tensors, files = len(checkpoint.tensors), len(checkpoint.files)
    sys.stdout.write(f"{min(seconds):.3f} s for {tensors} tensors in {files} files\n")


if __name__ == "__main__":
    main()
