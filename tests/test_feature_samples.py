"""Samples of feature dumps: read whole, or refused with the reason."""

from __future__ import annotations

import gzip
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from eagle3_contracts.errors import FeatureError
from eagle3_contracts.features.dump import Kind, Layout, open_dump
from eagle3_contracts.serving.features.samples import DamagedError, read_sample
from feature_dumps import made_up, specforge_dict, write_ckpt, write_sample, write_tensors


@pytest.mark.parametrize("layout", list(Layout))
@pytest.mark.parametrize("packed", [False, True])
def test_every_layout_gives_the_same_sample(tmp_path: Path, layout: Layout, packed: bool) -> None:
    tokens, states, last = made_up()
    file = write_sample(tmp_path, layout, 0, tokens, states, last, packed=packed)
    dump = open_dump(tmp_path)
    sample = read_sample(file, dump.layout)
    assert (dump.layout, dump.files) == (layout, (file,))
    assert torch.equal(sample.tokens, tokens)
    assert torch.equal(sample.states, states)
    assert sample.last is not None
    assert torch.equal(sample.last, last)
    assert sample.dtype == "float32"


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_is_read(tmp_path: Path, dtype: torch.dtype) -> None:
    tokens, states, last = made_up()
    half = states.to(dtype), last.to(dtype)
    file = write_sample(tmp_path, Layout.SPECULATORS, 3, tokens, *half)
    assert read_sample(file, Layout.SPECULATORS).states.dtype is dtype


def changed(**changes: Any) -> dict[str, Any]:
    """Return SpecForge's dict with entries replaced, or taken away by None."""
    data: dict[str, Any] = {**specforge_dict(*made_up()), **changes}
    return {key: value for key, value in data.items() if value is not None}


def with_value(value: float) -> torch.Tensor:
    """Return aux states whose fourth row holds ``value``."""
    aux = specforge_dict(*made_up())["aux_hidden_state"]
    aux[0, 3, 5] = value
    return aux


def without_a_slot() -> torch.Tensor:
    """Return aux states whose second slot is nothing but zeros."""
    aux = specforge_dict(*made_up())["aux_hidden_state"]
    aux[0, :, 8:16] = 0
    return aux


BAD = {
    "no-tokens": (changed(input_ids=None), Kind.LACKS, "lacks input_ids"),
    "a-list": (changed(input_ids=[1, 2]), Kind.DTYPE, "input_ids is a list"),
    "not-a-dict": ([1, 2], Kind.LACKS, "holds a list"),
    "float-tokens": (changed(input_ids=torch.ones(6)), Kind.DTYPE, "token ids are float32"),
    "double": (changed(hidden_state=torch.ones(1, 6, 8).double()), Kind.DTYPE, "float64"),
    "mixed": (changed(hidden_state=torch.ones(1, 6, 8).half()), Kind.DTYPE, "all the same"),
    "two-in-one": (changed(hidden_state=torch.ones(2, 6, 8)), Kind.SHAPE, "[2, 6, 8]"),
    "width": (changed(aux_hidden_state=torch.ones(1, 6, 20)), Kind.SHAPE, "no multiple"),
    "fewer-rows": (
        changed(aux_hidden_state=torch.ones(1, 5, 24)),
        Kind.COUNT,
        "6 token ids, and 5",
    ),
    "more-tokens": (changed(input_ids=torch.arange(7)), Kind.COUNT, "7 token ids, and 6"),
    "negative": (changed(input_ids=torch.arange(6) - 1), Kind.SHAPE, "token id is -1"),
    "nan": (changed(aux_hidden_state=with_value(float("nan"))), Kind.NOT_FINITE, "at token 3"),
    "infinite": (changed(aux_hidden_state=with_value(float("inf"))), Kind.NOT_FINITE, "1 rows"),
    "zeros": (changed(aux_hidden_state=without_a_slot()), Kind.ZERO, "slot 1"),
    "expanded": (
        changed(hidden_state=torch.ones(1, 1, 1).expand(1, 10**6, 10**6)),
        Kind.SHAPE,
        "more elements",
    ),
    "empty": (
        specforge_dict(torch.arange(0), torch.ones(0, 3, 8), torch.ones(0, 8)),
        Kind.EMPTY,
        "0 tokens",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_a_wrong_tensor_is_named(tmp_path: Path, name: str) -> None:
    data, kind, text = BAD[name]
    file = write_ckpt(tmp_path / "data_0.ckpt", data)
    with pytest.raises(DamagedError) as caught:
        read_sample(file, Layout.SPECFORGE)
    assert caught.value.kind == kind
    assert text in str(caught.value)


def half_of(raw: bytes) -> bytes:
    """Return the first half: what an interrupted copy leaves."""
    return raw[: len(raw) // 2]


@pytest.mark.parametrize("layout", list(Layout))
@pytest.mark.parametrize("spoil", [half_of, lambda _: b"", lambda raw: b"\x93" * len(raw)])
@pytest.mark.parametrize("packed", [False, True])
def test_a_spoilt_file_is_unreadable(
    tmp_path: Path, layout: Layout, spoil: Callable[[bytes], bytes], packed: bool
) -> None:
    file = write_sample(tmp_path, layout, 0, *made_up(tokens=300), packed=packed)
    file.write_bytes(spoil(file.read_bytes()))
    with pytest.raises(DamagedError) as caught:
        read_sample(file, layout)
    assert caught.value.kind == Kind.UNREADABLE


class Bomb:
    """A pickle that touches a file when it is loaded."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.path,)


@pytest.mark.parametrize("packed", [False, True])
def test_code_in_a_pickle_is_not_run(tmp_path: Path, packed: bool) -> None:
    touched = tmp_path / "touched"
    name = "data_0.ckpt.gz" if packed else "data_0.ckpt"
    file = write_ckpt(tmp_path / name, changed(extra=Bomb(touched)))
    with pytest.raises(DamagedError) as caught:
        read_sample(file, Layout.SPECFORGE)
    assert caught.value.kind == Kind.CODE
    assert "never run" in str(caught.value)
    assert not touched.exists()
    plain = tmp_path / "plain.ckpt"
    plain.write_bytes(pickle.dumps(Bomb(touched)))
    with pytest.raises(DamagedError):
        read_sample(plain, Layout.SPECFORGE)
    assert not touched.exists()


def test_a_packed_file_is_not_unpacked_without_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("eagle3_contracts.serving.features.samples.MAX_UNPACKED", 2**20)
    file = tmp_path / "data_0.ckpt.gz"
    file.write_bytes(gzip.compress(bytes(2**26)))
    with pytest.raises(DamagedError, match="unpacks to over"):
        read_sample(file, Layout.SPECFORGE)


def test_speculators_files_without_a_last_layer_are_refused(tmp_path: Path) -> None:
    parts = {"token_ids": torch.arange(4), "hidden_states": torch.ones(4, 1, 8)}
    file = write_tensors(tmp_path / "hs_0.safetensors", parts)
    with pytest.raises(DamagedError, match="1 slots"):
        read_sample(file, Layout.SPECULATORS)


def test_a_last_state_of_another_width_is_refused(tmp_path: Path) -> None:
    parts = {"token_ids": torch.arange(4), "states": torch.ones(4, 2, 8), "last": torch.ones(4, 6)}
    file = write_tensors(tmp_path / "0.safetensors", parts)
    with pytest.raises(DamagedError, match="6 wide"):
        read_sample(file, Layout.PLAIN)


def test_samples_are_picked_by_seed(tmp_path: Path) -> None:
    for number in range(20):
        (tmp_path / f"rows_{number % 3}").mkdir(exist_ok=True)
        (tmp_path / f"rows_{number % 3}" / f"data_{number}.ckpt").touch()
    dump = open_dump(tmp_path)
    assert len(dump.files) == 20
    assert dump.pick(4, 0) == dump.pick(4, 0) != dump.pick(4, 1)
    assert len(set(dump.pick(4, 0))) == 4
    assert dump.pick(99, 0) == dump.files
    assert dump.name(dump.files[0]).startswith("rows_0/data_")


@pytest.mark.parametrize(
    ("names", "text"),
    [
        ([], "holds no feature dump"),
        (["notes.txt", "eagle3-features.json"], "holds no feature dump"),
        (["data_0.ckpt", "hs_0.safetensors"], "more than one layout"),
    ],
)
def test_what_is_no_dump_is_bad_input(tmp_path: Path, names: list[str], text: str) -> None:
    for name in names:
        (tmp_path / name).touch()
    with pytest.raises(FeatureError, match=text):
        open_dump(tmp_path)


def test_an_absent_dump_is_bad_input(tmp_path: Path) -> None:
    with pytest.raises(FeatureError, match="no such file"):
        open_dump(tmp_path / "nowhere")
