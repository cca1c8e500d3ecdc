"""Files that cannot be used: each is named, with the place and what would be right."""

from __future__ import annotations

import json
import os
import struct
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eagle3_contracts.checkpoint import INDEX, read_checkpoint, read_values
from eagle3_contracts.errors import BadInput, CheckpointError
from eagle3_contracts.probes import Request
from eagle3_contracts.probes.static import StaticProbe
from eagle3_contracts.resolve import subject_from_options
from weights import header_of, write_index, write_raw, write_tensors

DTYPES = (
    "BF16, BOOL, C64, F16, F32, F4, F64, F6_E2M3, F6_E3M2, F8_E4M3, F8_E4M3FNUZ, F8_E5M2, "
    "F8_E5M2FNUZ, F8_E8M0, I16, I32, I64, I8, U16, U32, U64, U8"
)


def _entry(**changes: Any) -> bytes:
    entry = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8], **changes}
    return json.dumps({"w": {key: value for key, value in entry.items() if value != "-"}}).encode()


HEADERS = {
    "not UTF-8": (b'{"\xff', "the safetensors header is not UTF-8: byte 2 is 0xff"),
    "not JSON": (
        b'{"w": }',
        "the safetensors header is not JSON: Expecting value (character 7)",
    ),
    "empty": (b"", "the safetensors header is not JSON: Expecting value (character 1)"),
    "not an object": (b"[1]", "the safetensors header must hold a JSON object, got an array"),
    "nested too deep": (
        b'{"w":' + b"[" * 5000 + b"]" * 5000 + b"}",
        "the safetensors header is nested too deep to be read",
    ),
    "digits without end": (
        b'{"w": ' + b"9" * 5000 + b"}",
        "the safetensors header holds a number with too many digits to be read",
    ),
    "half a character": (
        b'{"\\ud800": 1}',
        "the safetensors header holds half of a surrogate pair, which is no character",
    ),
    "metadata not of strings": (
        b'{"__metadata__": {"format": 1}}',
        "__metadata__ must be an object of strings, got {'format': 1}",
    ),
    "entry not an object": (b'{"w": [1, 2]}', "tensor 'w' must be an object, got an array"),
    "no dtype": (
        _entry(dtype="-"),
        "tensor 'w' lacks dtype; dtype, shape and data_offsets are needed",
    ),
    "no shape": (
        _entry(shape="-"),
        "tensor 'w' lacks shape; dtype, shape and data_offsets are needed",
    ),
    "no data_offsets": (
        _entry(data_offsets="-"),
        "tensor 'w' lacks data_offsets; dtype, shape and data_offsets are needed",
    ),
    "dtype not a string": (
        _entry(dtype=4),
        f"tensor 'w' has the unknown dtype 4; known are {DTYPES}",
    ),
    "unknown dtype": (
        _entry(dtype="bf16"),
        f"tensor 'w' has the unknown dtype 'bf16'; known are {DTYPES}; did you mean 'BF16'?",
    ),
    "shape not an array": (
        _entry(shape=2),
        "tensor 'w' has the shape 2; an array of at most 64 integers from 0 to 281474976710656 "
        "is needed",
    ),
    "shape of booleans": (
        _entry(shape=[True]),
        "tensor 'w' has the shape [True]; an array of at most 64 integers from 0 to "
        "281474976710656 is needed",
    ),
    "negative size": (
        _entry(shape=[-2]),
        "tensor 'w' has the shape [-2]; an array of at most 64 integers from 0 to "
        "281474976710656 is needed",
    ),
    "huge size": (
        _entry(shape=[0, 10**30]),
        "tensor 'w' has the shape [0, 1000000000000000000000000000000]; an array of at most 64 "
        "integers from 0 to 281474976710656 is needed",
    ),
    "too many axes": (
        _entry(shape=[1] * 65),
        f"tensor 'w' has the shape {str([1] * 65)[:57]}...; an array of at most 64 integers from "
        "0 to 281474976710656 is needed",
    ),
    "offsets that are no pair": (
        _entry(data_offsets=[0]),
        "tensor 'w' has the data_offsets [0]; two integers, 0 <= begin <= end, are needed",
    ),
    "offsets not integers": (
        _entry(data_offsets=[0, 8.0]),
        "tensor 'w' has the data_offsets [0, 8.0]; two integers, 0 <= begin <= end, are needed",
    ),
    "offsets that run backwards": (
        _entry(data_offsets=[8, 0]),
        "tensor 'w' has the data_offsets [8, 0]; two integers, 0 <= begin <= end, are needed",
    ),
    "offsets of another size": (
        _entry(shape=[3]),
        "tensor 'w' is F32 [3], 12 bytes; its data_offsets span 8 bytes",
    ),
    "no whole number of bytes": (
        _entry(dtype="F4", shape=[15]),
        "tensor 'w' is F4 [15], 60 bits, no whole number of bytes; its data_offsets span 8 bytes",
    ),
    "data cut off": (
        _entry(shape=[4], data_offsets=[0, 16]),
        "tensor 'w' ends at byte 16 of the data, which are 8 bytes; the file is truncated",
    ),
    "data that begins late": (
        _entry(shape=[1], data_offsets=[4, 8]),
        "no tensor covers the bytes 0 to 4 of the data, before 'w'; the format allows no gaps",
    ),
    "data after the end": (
        _entry(shape=[1], data_offsets=[0, 4]),
        "4 bytes follow the data of the last tensor; the format allows no gaps",
    ),
    "overlapping tensors": (
        json.dumps(
            {
                "v": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]},
                "w": {"dtype": "F32", "shape": [1], "data_offsets": [4, 8]},
            }
        ).encode(),
        "tensor 'w' overlaps tensor 'v': data_offsets [4, 8]",
    ),
}


@pytest.mark.parametrize("case", HEADERS)
def test_a_wrong_header_names_the_file_and_the_key(tmp_path: Path, case: str) -> None:
    header, text = HEADERS[case]
    path = write_raw(tmp_path / "model.safetensors", header, data=b"\0" * 8)
    assert _complaint(tmp_path) == f"{path}: {text}"


def test_an_empty_file_is_no_safetensors_file(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    path.write_bytes(b"abc")
    assert _complaint(tmp_path) == (
        f"{path}: is 3 bytes long, a safetensors file has at least 8; it is truncated or empty"
    )


def test_a_header_past_the_end_of_the_file_is_a_truncated_file(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    path.write_bytes(struct.pack("<Q", 1000) + b"{}")
    assert _complaint(tmp_path) == (
        f"{path}: the header should end at byte 1008, the file ends at byte 10; it is truncated"
    )


def test_a_header_longer_than_the_library_allows_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    path.write_bytes(struct.pack("<Q", 2**62) + b"{}")
    assert _complaint(tmp_path) == (
        f"{path}: the first 8 bytes announce a header of 4611686018427387904 bytes, at most "
        "100000000 are allowed; this is no safetensors file"
    )


def test_a_git_lfs_pointer_is_no_safetensors_file(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    path.write_text("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n")
    assert _complaint(tmp_path) == (
        f"{path}: the first 8 bytes announce a header of 2336927755350992246 bytes, at most "
        "100000000 are allowed; this is no safetensors file (it is a Git LFS pointer: run "
        "git lfs pull)"
    )


def test_a_directory_in_place_of_a_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").mkdir()
    assert _complaint(tmp_path) == (
        f"{tmp_path}/model.safetensors: cannot be read: it is a directory, a file is needed"
    )


def test_a_pipe_in_place_of_a_file_does_not_hang(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "model.safetensors")
    assert _complaint(tmp_path) == (
        f"{tmp_path}/model.safetensors: cannot be read: it is no regular file, a file is needed"
    )


def test_a_loop_of_links_is_named(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").symlink_to(tmp_path / "model.safetensors")
    assert _complaint(tmp_path) == (
        f"{tmp_path}/model.safetensors: cannot be read: Too many levels of symbolic links"
    )


def test_weights_in_another_format_are_named(tmp_path: Path) -> None:
    (tmp_path / "pytorch_model.bin").write_bytes(b"PK")
    assert _complaint(tmp_path) == (
        f"{tmp_path}: holds pytorch_model.bin but no *.safetensors file; only safetensors are read "
        "(convert it with safetensors.torch.save_file)"
    )


def test_a_tensor_in_two_shards_names_both(tmp_path: Path) -> None:
    write_tensors(tmp_path / "a.safetensors", {"w": ("F32", (2,))})
    write_tensors(tmp_path / "b.safetensors", {"w": ("F32", (2,))})
    assert _complaint(tmp_path) == (
        f"{tmp_path}/b.safetensors: tensor 'w' is in a.safetensors as well; each tensor may be in "
        "one file only"
    )


def test_all_wrong_shards_are_reported_at_once(tmp_path: Path) -> None:
    write_raw(tmp_path / "a.safetensors", b"[]")
    write_raw(tmp_path / "b.safetensors", b"{")
    assert _complaint(tmp_path).splitlines() == [
        f"{tmp_path}/a.safetensors: the safetensors header must hold a JSON object, got an array",
        f"{tmp_path}/b.safetensors: the safetensors header is not JSON: Expecting property name "
        "enclosed in double quotes (character 2)",
    ]


def test_a_boolean_that_is_neither_0_nor_1_is_refused(tmp_path: Path) -> None:
    path = write_tensors(tmp_path / "m.safetensors", {"t2d": ("BOOL", (3,))}, {"t2d": b"\0\7\1"})
    with pytest.raises(CheckpointError) as caught:
        read_values(read_checkpoint(tmp_path), ["t2d"])
    assert str(caught.value) == (
        f"{path}: tensor 't2d' is BOOL and holds a byte 7; 0 and 1 are allowed"
    )


INDEXES = {
    "no weight_map": (
        {"metadata": {}},
        "is no index: 'weight_map' must be an object of tensor names and file names, it has none",
    ),
    "empty weight_map": (
        {"weight_map": {}},
        "is no index: 'weight_map' must be an object of tensor names and file names, it is empty",
    ),
    "weight_map of another kind": (
        {"weight_map": ["w"]},
        "is no index: 'weight_map' must be an object of tensor names and file names, got an array",
    ),
    "file name not a string": (
        {"weight_map": {"w": 1}},
        "weight_map places 'w' in 1; a file name in the same directory, ending in .safetensors, "
        "is needed",
    ),
    "file name with a separator": (
        {"weight_map": {"w": "../secret/model.safetensors"}},
        "weight_map places 'w' in '../secret/model.safetensors'; a file name in the same "
        "directory, ending in .safetensors, is needed",
    ),
    "absolute file name": (
        {"weight_map": {"w": "/etc/model.safetensors"}},
        "weight_map places 'w' in '/etc/model.safetensors'; a file name in the same directory, "
        "ending in .safetensors, is needed",
    ),
    "parent directory": (
        {"weight_map": {"w": ".."}},
        "weight_map places 'w' in '..'; a file name in the same directory, ending in "
        ".safetensors, is needed",
    ),
}


@pytest.mark.parametrize("case", INDEXES)
def test_a_wrong_index_names_the_key(tmp_path: Path, case: str) -> None:
    content, text = INDEXES[case]
    path = tmp_path / "model.safetensors.index.json"
    path.write_text(json.dumps(content))
    assert _complaint(tmp_path) == f"{path}: {text}"


def test_an_index_that_is_not_json_is_shown_with_line_and_column(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors.index.json"
    path.write_text('{\n  "weight_map": {,\n')
    assert _complaint(tmp_path) == (
        f"{path}:2:18: is not JSON: Expecting property name enclosed in double quotes"
    )


def test_an_index_may_name_ten_wrong_files_before_the_rest_is_left_out(tmp_path: Path) -> None:
    write_index(tmp_path, {f"w{number:02}": "elsewhere.bin" for number in range(40)})
    lines = _complaint(tmp_path).splitlines()
    assert len(lines) == 11
    assert lines[-1] == f"{tmp_path}/{INDEX}: and 30 more tensors are placed in wrong files"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda parts: st.lists(parts, max_size=4) | st.dictionaries(st.text(max_size=8), parts),
    max_leaves=8,
)
KEYS = st.sampled_from(
    [
        *("architectures", "hidden_size", "eagle_config", "eagle_aux_hidden_state_layer_ids"),
        *("use_aux_hidden_state", "transformer_layer_config", "target_hidden_size"),
        *("num_aux_hidden_states", "text_config", "thinker_config", "model_type"),
    ]
)
CONFIG = st.dictionaries(KEYS, JSON | st.dictionaries(KEYS, JSON, max_size=4), max_size=6)


FIELDS = ("dtype", "shape", "data_offsets")


def _headers(draw: Callable[..., Any]) -> bytes:
    header: dict[str, Any] = header_of({"a": ("F32", (2,)), "t2d": ("BOOL", (4,))})
    for name in draw(st.lists(st.sampled_from(["a", "t2d", "__metadata__"]), max_size=2)):
        header[name] = draw(JSON | st.fixed_dictionaries({}, optional=dict.fromkeys(FIELDS, JSON)))
    text = json.dumps(header).encode()
    data: bytes = draw(st.binary(max_size=16))
    return struct.pack("<Q", len(text)) + text + data


FILES = st.dictionaries(
    st.sampled_from(["config.json", "model.safetensors", "model.safetensors.index.json"]),
    st.binary(max_size=64)
    | CONFIG.map(lambda value: json.dumps(value).encode())
    | st.dictionaries(st.just("weight_map"), JSON).map(lambda value: json.dumps(value).encode())
    | st.composite(_headers)(),
    max_size=3,
)


@settings(max_examples=400, deadline=None)
@given(files=FILES)
def test_whatever_the_files_hold_they_are_read_or_refused(files: dict[str, bytes]) -> None:
    with tempfile.TemporaryDirectory() as name:
        for file, raw in files.items():
            Path(name, file).write_bytes(raw)
        try:
            subject = subject_from_options(target=None, draft=name, launch=None)
        except BadInput:
            return
    facts = StaticProbe().run(subject, Request())
    assert sorted(facts) == sorted(StaticProbe.groups)


def _complaint(directory: Path) -> str:
    with pytest.raises(CheckpointError) as caught:
        read_checkpoint(directory)
    return str(caught.value)
