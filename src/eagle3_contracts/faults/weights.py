"""Faults of the weights themselves: the draft's files with other values in them."""

from __future__ import annotations

import atexit
import random
import shutil
import struct
import tempfile
from collections.abc import Callable
from pathlib import Path

from eagle3_contracts.checkpoint import read_checkpoint
from eagle3_contracts.faults import Fault
from eagle3_contracts.faults.edit import edited_draft
from eagle3_contracts.subject import ResolvedSubject

_ON = "tiny-weights"
_NOT_A_NUMBER = b"\xc0\x7f"  # bfloat16, little-endian

Change = Callable[[str, bytes], bytes]
"""From the name and the bytes of a bfloat16 tensor to other bytes, as many."""


def _rewritten(change: Change) -> Callable[[ResolvedSubject], ResolvedSubject]:
    """Return an edit that copies the draft's files and lets ``change`` rewrite their tensors."""

    def edit(subject: ResolvedSubject) -> ResolvedSubject:
        assert subject.draft is not None
        assert subject.draft.path is not None
        folder = Path(tempfile.mkdtemp(prefix="eagle3-fault-"))
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        shutil.copytree(subject.draft.path, folder, dirs_exist_ok=True)
        checkpoint = read_checkpoint(folder)
        for name, place in checkpoint.places.items():
            if checkpoint.tensors[name].dtype == "BF16":
                data = bytearray(place.file.read_bytes())
                data[place.begin : place.end] = change(name, bytes(data[place.begin : place.end]))
                place.file.write_bytes(data)
        return edited_draft(subject, path=folder)

    return edit


def _with_a_nan(name: str, data: bytes) -> bytes:
    return _NOT_A_NUMBER + data[2:] if name == "fc.weight" else data


def _zeroed(name: str, data: bytes) -> bytes:
    return bytes(len(data)) if name.endswith("o_proj.weight") else data


def _as_made(name: str, data: bytes) -> bytes:
    """Return ones for norms, and a normal distribution of deviation 0.02 for matrices."""
    made = random.Random(name)
    values = [1.0 if "norm" in name else made.gauss(0, 0.02) for _ in range(len(data) // 2)]
    return b"".join(struct.pack("<f", value)[2:] for value in values)


FAULTS = (
    Fault("weight-not-a-number", "one weight is not a number", _ON, _rewritten(_with_a_nan)),
    Fault("weight-zeroed", "a matrix was saved before it was filled", _ON, _rewritten(_zeroed)),
    Fault("never-trained", "the draft was saved as it was made", _ON, _rewritten(_as_made)),
)
