"""Each worker has a GPU of its own, out of those that the caller may use."""

from __future__ import annotations

from pathlib import Path

import pytest

from eagle3_contracts.probes.sglang import environment
from eagle3_contracts.serving import gpus


@pytest.mark.parametrize(
    ("named", "found"),
    [
        ("5,7", ("5", "7")),
        (" 5, 7 ", ("5", "7")),
        ("GPU-8932f937,MIG-a0", ("GPU-8932f937", "MIG-a0")),
        ("0,-1,1", ("0",)),
        ("-1", ()),
        ("", ()),
    ],
)
def test_the_variable_is_read_as_cuda_reads_it(named: str, found: tuple[str, ...]) -> None:
    assert gpus.visible({"CUDA_VISIBLE_DEVICES": named}) == found


def test_without_the_variable_all_devices_count(tmp_path: Path) -> None:
    for name in ("nvidia0", "nvidia3", "nvidiactl", "nvidia-uvm", "null"):
        (tmp_path / name).touch()
    assert gpus.visible({}, tmp_path) == ("0", "1")


@pytest.mark.parametrize(("worker", "gpu"), [("gw0", "5"), ("gw1", "7"), ("gw2", "5")])
def test_a_worker_takes_one_gpu(monkeypatch: pytest.MonkeyPatch, worker: str, gpu: str) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "5,7")
    monkeypatch.setenv("PYTEST_XDIST_WORKER", worker)
    assert environment("cuda")["CUDA_VISIBLE_DEVICES"] == gpu
    assert "CUDA_VISIBLE_DEVICES" not in environment("cpu")


def test_outside_a_worker_the_callers_gpus_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "5,7")
    monkeypatch.delenv("PYTEST_XDIST_WORKER", raising=False)
    assert "CUDA_VISIBLE_DEVICES" not in environment("cuda")
