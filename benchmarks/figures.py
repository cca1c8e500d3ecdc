"""Print the figures that this project keeps an eye on, each beside its goal.

    python benchmarks/figures.py

Every time is the best of a few runs, since a shared machine only ever adds to it.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from time import perf_counter

from eagle3_contracts import probes
from eagle3_contracts.checkpoint import read_checkpoint
from eagle3_contracts.data import fixtures_dir
from eagle3_contracts.facts import Gap, Tier
from eagle3_contracts.probes import Request
from eagle3_contracts.resolve import load_subjects
from eagle3_contracts.subject import ResolvedSubject
from large_checkpoint import write_checkpoint

KIMI = fixtures_dir() / "subjects" / "kimi-k2.5-eagle3.yaml"
LLAMA = fixtures_dir() / "subjects" / "llama-eagle3.yaml"


def best(runs: int, work: Callable[[], object]) -> float:
    """Return the shortest of ``runs`` times of ``work``, in seconds."""
    times = []
    for _ in range(runs):
        started = perf_counter()
        work()
        times.append(perf_counter() - started)
    return min(times)


def show(what: str, seconds: float, goal: float) -> None:
    """Print one figure."""
    mark = "ok" if seconds <= goal else "OVER"
    sys.stdout.write(f"{what:62} {seconds:8.3f} s   goal {goal:g} s   {mark}\n")
    sys.stdout.flush()


def static_process() -> None:
    """Check one subject at the static tier, as a person does."""
    command = [sys.executable, "-m", "eagle3_contracts.cli", "check", "--tier", "static"]
    subprocess.run([*command, str(LLAMA)], check=True, stdout=subprocess.DEVNULL)


def probed(tier: Tier, subject: ResolvedSubject) -> Callable[[], None]:
    """Return work that runs the probes of ``tier``, and that is no good when one could not run."""
    chosen = [probe for probe in probes.probes() if probe.tier is tier]

    def work() -> None:
        for probe in chosen:
            for fact in probe.run(subject, Request()).values():
                assert not isinstance(fact, Gap) or fact.kind == "absent", fact

    return work


def main() -> None:
    """Print all figures, cheapest first."""
    (kimi,) = load_subjects([str(KIMI)])
    show("check --tier static, one subject, whole process", best(5, static_process), 0.35)
    show("static work on one subject", best(20, probed(Tier.STATIC, kimi)), 0.005)
    with tempfile.TemporaryDirectory() as folder:
        write_checkpoint(Path(folder))
        reading = best(3, lambda: read_checkpoint(Path(folder)))
    show("index of 60 shards, 70,000 tensor names", reading, 1.5)
    first = best(1, probed(Tier.LOAD, kimi))
    later = best(5, probed(Tier.LOAD, kimi))
    show("importing SGLang, once per run", first - later, 20)
    show("load tier, Kimi-K2.5's draft at its full size", later, 1)
    show("model tier, twin of Kimi-K2.5 with all 61 layers", best(5, probed(Tier.MODEL, kimi)), 1)
    probes.close()


if __name__ == "__main__":
    main()
