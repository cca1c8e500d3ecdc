"""Print how fast fuzzing is, and how long it takes to find each fault that is planted in a class.

    python benchmarks/fuzzing.py [FAULT ...]

The faults are those of the four founding invariants that only running the model shows.
"""

from __future__ import annotations

import sys
from time import perf_counter

from eagle3_contracts import probes
from eagle3_contracts.catalogue import Entry, read_catalogue
from eagle3_contracts.facts import Tier
from eagle3_contracts.faults import Fault, faults
from eagle3_contracts.fuzz.changes import is_fuzzable
from eagle3_contracts.fuzz.example import Example, Finding, Judge, Kind
from eagle3_contracts.fuzz.search import Broken, search
from eagle3_contracts.options import Options
from eagle3_contracts.plan import read_subjects
from eagle3_contracts.probes import Request
from eagle3_contracts.subject import ResolvedSubject

FOUNDING = ("capture-enabled", "width", "keys", "layer-convention")
SECONDS, SEED = 60.0, 1


def planted(entries: tuple[Entry, ...]) -> list[Fault]:
    """Return the faults in a class that a model-tier contract of the founding families names."""
    named = {
        name
        for entry in entries
        if entry.contract.tier is Tier.MODEL and entry.contract.family in FOUNDING
        for name in entry.contract.faults
    }
    return [fault for name, fault in faults().items() if name in named and fault.patch]


def first(judge: Judge, subject: ResolvedSubject) -> Broken | None:
    """Return the first failure of a right integration, made small."""

    def failing(example: Example) -> Finding | None:
        finding = judge.finding(example)
        return finding if finding and finding.kind is Kind.FAILURE else None

    return next(search(subject, failing, SEED, SECONDS), None)


def show_speed(entries: tuple[Entry, ...], subject: ResolvedSubject) -> None:
    """Print how many examples a second are run through the model."""
    judge = Judge(entries, (), [Tier.STATIC, Tier.MODEL])
    judge.finding(Example(subject, 4, (0, 1)))  # imports SGLang
    before, started = judge.counts[Tier.MODEL], perf_counter()
    list(search(subject, judge.finding, SEED, 20))
    rate = (judge.counts[Tier.MODEL] - before) / (perf_counter() - started)
    sys.stdout.write(f"{subject.name:28} {rate:6.1f} examples a second at tier model   goal 5\n")


def show_fault(entries: tuple[Entry, ...], fault: Fault, subject: ResolvedSubject) -> None:
    """Print how long it took to find one fault, and the example that shows it."""
    request = Request(fault=fault.name)
    judge = Judge(entries, (), [Tier.STATIC, Tier.MODEL], request)
    found = first(judge, subject)
    said = f"{found.seconds:5.1f} s  {found.finding.contract}: {found.example}" if found else "NOT"
    sys.stdout.write(f"{fault.name:28} {said}\n")
    sys.stdout.flush()


def main(names: list[str]) -> None:
    """Print all figures, or those of the named faults."""
    entries = read_catalogue()
    subjects = {s.name: s for s in read_subjects(Options()) if is_fuzzable(s)}
    if not names:
        show_speed(entries, subjects["llama-eagle3"])
    for fault in planted(entries):
        if fault.on in subjects and (not names or fault.name in names):
            show_fault(entries, fault, subjects[fault.on])
    probes.close()


if __name__ == "__main__":
    main(sys.argv[1:])
