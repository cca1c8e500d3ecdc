"""Print what is said of faulty feature dumps, by fault, and how long one takes.

    PYTHONPATH=tests python benchmarks/confusion.py [FAULTS] [SEED]

The faults are those of ``tests/dump_faults.py``; every change is tested with 204 of seed 0.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from time import perf_counter

from dump_faults import FAULTS, drawn
from test_confusion import confusion, judged_here


def main(faults: int = 204, seed: int = 0) -> None:
    """Print a line for each fault: how many were drawn, how many of them were named right."""
    with tempfile.TemporaryDirectory() as folder:
        started = perf_counter()
        counts = confusion(judged_here(drawn(faults, seed), Path(folder)))
        seconds = perf_counter() - started
    for name in FAULTS:
        right, wrong = counts[name, True], counts[name, False]
        sys.stdout.write(f"{name:20} {right + wrong:5} drawn {right:5} named right\n")
    right = sum(count for (_, is_right), count in counts.items() if is_right)
    share = f"{right} of {faults} named right"
    sys.stdout.write(f"{share}, {1000 * seconds / faults:.0f} ms each   goal: all\n")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:3]))
