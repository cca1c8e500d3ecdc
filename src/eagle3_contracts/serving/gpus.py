"""Which GPU a process of SGLang gets: one of those that the caller may use, and no other."""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import takewhile
from pathlib import Path

_NODE = re.compile(r"nvidia\d+")


def visible(environ: Mapping[str, str], devices: Path = Path("/dev")) -> tuple[str, ...]:
    """Return the GPUs that the caller may use, as CUDA_VISIBLE_DEVICES names them.

    Without that variable these are all that the machine has, by the files of their devices; a
    container has those of its own GPUs only. CUDA reads the variable up to the first name that is
    none, so that "0,-1,1" is GPU 0 (CUDA C++ Programming Guide, "CUDA Environment Variables").
    """
    named = environ.get("CUDA_VISIBLE_DEVICES")
    if named is None:
        nodes = [node for node in devices.iterdir() if _NODE.fullmatch(node.name)]
        return tuple(str(number) for number in range(len(nodes)))
    names = (name.strip() for name in named.split(","))
    return tuple(takewhile(lambda name: name and not name.startswith("-"), names))


def of_worker(environ: Mapping[str, str]) -> dict[str, str]:
    """Return what the environment of SGLang needs so that each worker of xdist has its own GPU.

    xdist numbers its workers gw0, gw1 and so on, and one that replaces a crashed worker higher
    than all before: GPUs are given out in turn. Nothing is changed outside a worker, or where
    there is no GPU.
    """
    worker = environ.get("PYTEST_XDIST_WORKER", "").removeprefix("gw")
    gpus = visible(environ) if worker.isdigit() else ()
    return {"CUDA_VISIBLE_DEVICES": gpus[int(worker) % len(gpus)]} if gpus else {}


def refusal(workers: int, environ: Mapping[str, str]) -> str | None:
    """Return why so many workers cannot have a GPU each, in one sentence; None: they can."""
    gpus = visible(environ)
    if workers <= len(gpus):
        return None
    allowed = f"-n {len(gpus)} at most" if gpus else "there is none"
    return f"{workers} workers with one GPU each: {allowed} (CUDA_VISIBLE_DEVICES, or all)"
