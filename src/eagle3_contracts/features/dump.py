"""Which files are the samples of a dump, and what may be wrong with one; no sample is opened here.

Three layouts are known:

- ``specforge``: ``*.ckpt`` or ``*.ckpt.gz``, a pickled dict with ``input_ids`` [T], ``loss_mask``
  [T], ``hidden_state`` [1, T, H] and ``aux_hidden_state`` [1, T, k x H] (SpecForge 0.2.0,
  ``runtime/data_plane/offline_reader.py``);
- ``speculators``: ``hs_N.safetensors`` with ``token_ids`` [T] and ``hidden_states``
  [T, k + 1, H], the last slot being the state after the verifier's last layer (speculators 0.9.0,
  ``train/data.py``);
- ``plain``: any other ``*.safetensors``, with ``token_ids`` [T], ``states`` [T, k, H] and, if it
  was kept, ``last`` [T, H].
"""

from __future__ import annotations

import os
import random
import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from eagle3_contracts.errors import FeatureError, Problem
from eagle3_contracts.files import is_absent, is_file


class Layout(StrEnum):
    """Who lays a dump out so."""

    SPECFORGE = "specforge"
    SPECULATORS = "speculators"
    PLAIN = "plain"


class Kind(StrEnum):
    """What is wrong with a sample, the first thing that is."""

    UNREADABLE = "unreadable"  # corrupt, truncated, or no file of its format
    CODE = "code"  # a pickle that would run code; it is never run
    LACKS = "lacks"  # a tensor is not there
    DTYPE = "dtype"
    SHAPE = "shape"
    EMPTY = "empty"  # no tokens
    COUNT = "count"  # another number of rows than of tokens
    NOT_FINITE = "not-finite"
    ZERO = "zero"  # a state that nothing was ever written to


@dataclass(frozen=True, slots=True)
class Damage:
    """One sample that cannot be used: its file, and why."""

    sample: str
    kind: str
    text: str

    def __str__(self) -> str:
        return f"{self.sample}: {self.text}"


@dataclass(frozen=True, slots=True)
class Dump:
    """A dump's files; ``root`` is the directory that their names start at."""

    root: Path
    layout: Layout
    files: tuple[Path, ...]
    """Sorted, so that the same seed picks the same samples on every machine."""

    def pick(self, count: int, seed: int) -> tuple[Path, ...]:
        """Return ``count`` of the files, or all if there are fewer, as the seed chooses."""
        chosen = random.Random(seed).sample(self.files, min(count, len(self.files)))
        return tuple(sorted(chosen))

    def name(self, file: Path) -> str:
        """Return how to call a sample: its path from the root."""
        return file.relative_to(self.root).as_posix()


def open_dump(path: Path) -> Dump:
    """List the samples of a dump, a directory with its subdirectories or one file.

    Raises FeatureError when there is nothing, nothing known, or more than one layout.
    """
    found = [path] if is_file(path) else sorted(_walk(path))
    by_layout: dict[Layout, list[Path]] = {}
    for file in found:
        if (layout := _layout_of(file.name)) is not None:
            by_layout.setdefault(layout, []).append(file)
    if len(by_layout) != 1:
        raise FeatureError(Problem(str(path), _not_one(path, by_layout)))
    ((layout, files),) = by_layout.items()
    return Dump(path.parent if is_file(path) else path, layout, tuple(files))


def _walk(folder: Path) -> Iterator[Path]:
    for root, _, names in os.walk(folder):
        yield from (Path(root, name) for name in names)


def _layout_of(name: str) -> Layout | None:
    if name.endswith((".ckpt", ".ckpt.gz")):
        return Layout.SPECFORGE
    if re.fullmatch(r"hs_\d+\.safetensors", name):
        return Layout.SPECULATORS
    return Layout.PLAIN if name.endswith(".safetensors") else None


def _not_one(path: Path, by_layout: dict[Layout, list[Path]]) -> str:
    if by_layout:
        names = " and ".join(f"{files[0].name} ({layout})" for layout, files in by_layout.items())
        return f"holds files of more than one layout: {names}; check one dump at a time"
    if is_absent(path):
        return "there is no such file or directory"
    return "holds no feature dump; *.ckpt, *.ckpt.gz, hs_N.safetensors and *.safetensors are read"
