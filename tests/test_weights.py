"""Statistics of weights equal those that torch computes, for every dtype that can be read."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from eagle3_contracts.checkpoint import read_checkpoint
from eagle3_contracts.weights import Statistics, is_readable, read_statistics

DTYPES = {
    "F64": torch.float64,
    "F32": torch.float32,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "F8_E4M3": torch.float8_e4m3fn,
    "F8_E5M2": torch.float8_e5m2,
}


def statistics(folder: Path, tensor: torch.Tensor) -> Statistics:
    save_file({"other": torch.ones(3), "weight": tensor.contiguous()}, folder / "model.safetensors")
    checkpoint = read_checkpoint(folder)
    return read_statistics(checkpoint.places["weight"], checkpoint.tensors["weight"].dtype)


@pytest.mark.parametrize("dtype", DTYPES)
def test_moments_are_those_of_torch(dtype: str, tmp_path: Path) -> None:
    torch.manual_seed(1)
    tensor = (torch.randn(70, 90) * 0.02 + 0.3).to(DTYPES[dtype])
    exact, seen = tensor.double(), statistics(tmp_path, tensor)
    assert (seen.count, seen.not_finite) == (6300, 0)
    assert seen.mean == pytest.approx(exact.mean().item(), rel=1e-9)
    assert seen.deviation == pytest.approx(exact.std(correction=0).item(), rel=1e-6)
    assert seen.constant is None


@pytest.mark.parametrize("dtype", DTYPES)
def test_values_that_are_not_finite_are_counted_and_left_out(dtype: str, tmp_path: Path) -> None:
    tensor = torch.tensor([1.0, math.nan, 2.0, math.inf]).to(DTYPES[dtype])
    seen = statistics(tmp_path, tensor)
    bad = int((~torch.isfinite(tensor.double())).sum())
    assert (seen.count, seen.not_finite) == (4, bad)
    assert seen.mean >= 1.0


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_bit_pattern_of_a_small_dtype_is_read_as_torch_reads_it(
    dtype: str, tmp_path: Path
) -> None:
    size = torch.empty(0, dtype=DTYPES[dtype]).element_size()
    if size > 2:
        patterns = torch.randn(1000).to(DTYPES[dtype])
    else:
        whole = torch.arange(256**size, dtype=torch.int32)
        patterns = whole.to(torch.uint8 if size == 1 else torch.uint16).view(DTYPES[dtype])
    finite = patterns.double()[torch.isfinite(patterns.double())]
    seen = statistics(tmp_path, patterns)
    assert seen.count - seen.not_finite == len(finite)
    assert seen.deviation == pytest.approx(finite.std(correction=0).item(), rel=1e-6)


def test_a_constant_tensor_is_told_from_one_with_a_single_other_value(tmp_path: Path) -> None:
    tensor = torch.full((9_000_000,), 0.5, dtype=torch.bfloat16)
    assert statistics(tmp_path, tensor).constant == 0.5
    tensor[-1] = 1.0
    assert statistics(tmp_path, tensor).constant is None


def test_a_single_value_that_is_not_finite_is_found_in_a_large_tensor(tmp_path: Path) -> None:
    tensor = torch.zeros(9_000_000, dtype=torch.bfloat16)
    tensor[8_999_998] = math.nan
    assert statistics(tmp_path, tensor).not_finite == 1


def test_moments_of_a_large_tensor_are_estimated_within_half_a_percent(tmp_path: Path) -> None:
    torch.manual_seed(2)
    tensor = torch.randn(6_000_000) * 0.02
    seen = statistics(tmp_path, tensor)
    assert seen.deviation == pytest.approx(0.02, rel=5e-3)
    assert abs(seen.mean) < 5e-3 * 0.02


def test_an_empty_tensor_has_no_statistics_and_a_packed_one_cannot_be_read(tmp_path: Path) -> None:
    assert statistics(tmp_path, torch.empty(0, 3)).count == 0
    assert not is_readable("U8")
    assert not is_readable("I32")
