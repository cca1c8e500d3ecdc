"""Reading the headers of good checkpoints."""

from __future__ import annotations

import struct
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file

from eagle3_contracts.checkpoint import Place, read_checkpoint, read_header, read_values
from eagle3_contracts.errors import CheckpointError
from eagle3_contracts.subject import Tensor
from weights import write_index, write_shards, write_tensors

FC = {"fc.weight": ("BF16", (8, 24))}
NORM = {"norm.weight": ("F32", (8,))}


def test_a_file_of_the_safetensors_library_is_read(tmp_path: Path) -> None:
    arrays: dict[str, Any] = {
        "d2t": np.arange(4, dtype=np.int64),
        "fc.weight": np.zeros((8, 24), dtype=np.float16),
        "scale": np.zeros((), dtype=np.float32),
        "t2d": np.array([True, False, True]),
    }
    save_file(arrays, tmp_path / "model.safetensors", metadata={"format": "pt"})
    assert read_header(tmp_path / "model.safetensors") == {
        "d2t": Tensor(dtype="I64", shape=(4,)),
        "fc.weight": Tensor(dtype="F16", shape=(8, 24)),
        "scale": Tensor(dtype="F32", shape=()),
        "t2d": Tensor(dtype="BOOL", shape=(3,)),
    }


def test_integer_and_boolean_tensors_are_read_by_value(tmp_path: Path) -> None:
    arrays: dict[str, Any] = {
        "d2t": np.array([0, 5, -3, 2**40], dtype=np.int64),
        "fc.weight": np.zeros((2, 2), dtype=np.float32),
        "ids": np.array([[1, 2], [3, 4]], dtype=np.int32),
        "t2d": np.array([True, False, True]),
    }
    save_file(arrays, tmp_path / "model.safetensors")
    checkpoint = read_checkpoint(tmp_path)
    assert read_values(checkpoint, ["d2t", "fc.weight", "ids", "t2d", "absent"]) == {
        "d2t": (0, 5, -3, 2**40),
        "ids": (1, 2, 3, 4),
        "t2d": (True, False, True),
    }


def test_the_shards_of_an_index_are_read_together(tmp_path: Path) -> None:
    write_shards(tmp_path, {"a.safetensors": FC, "b.safetensors": NORM})
    write_tensors(tmp_path / "left-over.safetensors", {"other": ("F32", (1,))})
    checkpoint = read_checkpoint(tmp_path)
    assert checkpoint.files == ("a.safetensors", "b.safetensors")
    assert sorted(checkpoint.tensors) == ["fc.weight", "norm.weight"]
    assert (checkpoint.missing_shards, checkpoint.missing_tensors) == ((), ())


def test_without_an_index_every_safetensors_file_is_read(tmp_path: Path) -> None:
    write_tensors(tmp_path / "b.safetensors", NORM)
    write_tensors(tmp_path / "a.safetensors", FC)
    (tmp_path / "pytorch_model.bin").write_bytes(b"not looked at")
    checkpoint = read_checkpoint(tmp_path)
    assert checkpoint.files == ("a.safetensors", "b.safetensors")
    assert sorted(checkpoint.tensors) == ["fc.weight", "norm.weight"]


def test_a_directory_without_weights_is_an_empty_checkpoint(tmp_path: Path) -> None:
    checkpoint = read_checkpoint(tmp_path)
    assert (checkpoint.tensors, checkpoint.files) == ({}, ())


def test_a_missing_shard_is_a_verdict_not_an_error(tmp_path: Path) -> None:
    write_shards(tmp_path, {"a.safetensors": FC, "b.safetensors": NORM})
    (tmp_path / "b.safetensors").unlink()
    checkpoint = read_checkpoint(tmp_path)
    assert checkpoint.missing_shards == ("b.safetensors",)
    assert checkpoint.missing_tensors == ()
    assert sorted(checkpoint.tensors) == ["fc.weight"]


def test_a_dangling_link_is_a_missing_shard(tmp_path: Path) -> None:
    write_index(tmp_path, {"fc.weight": "a.safetensors"})
    (tmp_path / "a.safetensors").symlink_to(tmp_path / "gone")
    assert read_checkpoint(tmp_path).missing_shards == ("a.safetensors",)


def test_a_tensor_that_its_shard_lacks_is_a_verdict_not_an_error(tmp_path: Path) -> None:
    write_tensors(tmp_path / "a.safetensors", FC)
    write_index(tmp_path, {"fc.weight": "a.safetensors", "norm.weight": "a.safetensors"})
    checkpoint = read_checkpoint(tmp_path)
    assert checkpoint.missing_tensors == ("norm.weight",)
    assert checkpoint.missing_shards == ()


def test_a_tensor_that_the_index_forgot_is_read_all_the_same(tmp_path: Path) -> None:
    write_tensors(tmp_path / "a.safetensors", {**FC, **NORM})
    write_index(tmp_path, {"fc.weight": "a.safetensors"})
    assert sorted(read_checkpoint(tmp_path).tensors) == ["fc.weight", "norm.weight"]


def test_places_are_counted_from_the_start_of_the_file(tmp_path: Path) -> None:
    path = write_tensors(tmp_path / "a.safetensors", {**FC, **NORM})
    start = 8 + struct.unpack("<Q", path.read_bytes()[:8])[0]
    places = read_checkpoint(tmp_path).places
    assert places["fc.weight"] == Place(path, start, start + 384)
    assert places["norm.weight"] == Place(path, start + 384, start + 416)


@pytest.mark.parametrize(("dtype", "size"), [("F4", 2), ("F6_E2M3", 4), ("F8_E4M3", 8)])
def test_elements_may_be_smaller_than_a_byte(tmp_path: Path, dtype: str, size: int) -> None:
    path = write_tensors(tmp_path / "a.safetensors", {"w": (dtype, (size, 2))})
    assert read_header(path) == {"w": Tensor(dtype=dtype, shape=(size, 2))}


def test_empty_tensors_take_no_room(tmp_path: Path) -> None:
    path = write_tensors(tmp_path / "a.safetensors", {"a": ("F32", (0, 8)), "b": ("U8", (3,))})
    assert read_header(path)["a"] == Tensor(dtype="F32", shape=(0, 8))


def test_a_map_that_is_no_map_is_not_read_by_value(tmp_path: Path) -> None:
    write_tensors(tmp_path / "model.safetensors", {"d2t": ("I64", (2**23,))})
    with pytest.raises(CheckpointError) as caught:
        read_values(read_checkpoint(tmp_path), ["d2t"])
    assert str(caught.value) == (
        f"{tmp_path}/model.safetensors: tensor 'd2t' has 8388608 elements; by value at most "
        "4194304 are read"
    )


def test_sixty_shards_with_seventy_thousand_tensors_are_read_quickly(tmp_path: Path) -> None:
    shards = {
        f"model-{shard:05}.safetensors": {
            f"model.layers.{number}.weight": ("BF16", (8, 4)) for number in range(shard, 70_000, 60)
        }
        for shard in range(60)
    }
    write_shards(tmp_path, shards)
    start = time.process_time()
    checkpoint = read_checkpoint(tmp_path)
    seconds = time.process_time() - start
    assert len(checkpoint.tensors) == 70_000
    assert seconds < 1.5
