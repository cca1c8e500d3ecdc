"""Feature dumps for tests, written to the layout that each tool documents."""

from __future__ import annotations

import gzip
import io
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

from eagle3_contracts.features.dump import Layout


def write_sample(
    folder: Path,
    layout: Layout,
    number: int,
    tokens: torch.Tensor,
    states: torch.Tensor,
    last: torch.Tensor,
    *,
    packed: bool = False,
) -> Path:
    """Write one sample: ``tokens`` [T], ``states`` [T, k, H], ``last`` [T, H]; return its file."""
    folder.mkdir(parents=True, exist_ok=True)
    if layout is Layout.SPECFORGE:
        data = specforge_dict(tokens, states, last)
        return write_ckpt(folder / f"data_{number}.ckpt{'.gz' if packed else ''}", data)
    if layout is Layout.SPECULATORS:
        whole = torch.cat([states, last[:, None]], 1)
        parts = {"token_ids": tokens, "hidden_states": whole.contiguous()}
        return write_tensors(folder / f"hs_{number}.safetensors", parts)
    parts = {"token_ids": tokens, "states": states.contiguous(), "last": last.contiguous()}
    return write_tensors(folder / f"{number}.safetensors", parts)


def specforge_dict(
    tokens: torch.Tensor, states: torch.Tensor, last: torch.Tensor
) -> dict[str, torch.Tensor]:
    """Return what SpecForge saves of one sample."""
    return {
        "input_ids": tokens,
        "loss_mask": torch.ones_like(tokens),
        "hidden_state": last[None].clone(),
        "aux_hidden_state": states.flatten(1)[None].clone(),
    }


def write_ckpt(path: Path, data: Any) -> Path:
    """Save anything as ``torch.save`` does, packed if the name says so."""
    buffer = io.BytesIO()
    torch.save(data, buffer)
    raw = buffer.getvalue()
    path.write_bytes(gzip.compress(raw, 1) if path.suffix == ".gz" else raw)
    return path


def write_tensors(path: Path, tensors: dict[str, torch.Tensor]) -> Path:
    """Save a safetensors file."""
    save_file(tensors, path)
    return path


def made_up(tokens: int = 6, slots: int = 3, hidden: int = 8) -> tuple[torch.Tensor, ...]:
    """Return token ids [T], states [T, k, H] and last states [T, H] of no model."""
    generator = torch.Generator().manual_seed(7)
    states = torch.randn(tokens, slots + 1, hidden, generator=generator)
    return torch.arange(tokens), states[:, :-1], states[:, -1]
