"""The commands: fuzzing the chosen subjects for a time, and replaying what was found."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from eagle3_contracts.catalogue import Entry
from eagle3_contracts.errors import OptionError, Problem, did_you_mean
from eagle3_contracts.facts import Tier
from eagle3_contracts.fuzz import regressions
from eagle3_contracts.fuzz.changes import is_fuzzable
from eagle3_contracts.fuzz.example import Example, Finding, Judge
from eagle3_contracts.fuzz.search import Broken, require_hypothesis, search
from eagle3_contracts.fuzz.spelling import spelling
from eagle3_contracts.modelconfig import architecture_of
from eagle3_contracts.probes import Request
from eagle3_contracts.subject import ResolvedSubject
from eagle3_contracts.waiver import Waiver

Say = Callable[[str], None]
FOLDER = Path("fixtures") / "regressions"
"""Where findings are written, from the directory in which the command runs."""

_UNITS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0}


@dataclass(frozen=True, slots=True)
class Found:
    """What a campaign found; ``idle`` are the subjects for which there was too little time."""

    broken: tuple[Broken, ...]
    idle: tuple[str, ...]

    @property
    def exit_code(self) -> int:
        """0: nothing was found; 1: something; 4: nothing, and not every subject was looked at."""
        return 1 if self.broken else 4 * bool(self.idle)


@dataclass(frozen=True, slots=True)
class Campaign:
    """What to fuzz: the catalogue, the subjects, the tiers, and how."""

    entries: Sequence[Entry]
    subjects: Sequence[ResolvedSubject]
    tiers: Sequence[Tier]
    seed: int
    budget: float
    folder: Path = FOLDER
    waivers: Sequence[Waiver] = ()
    request: Request = field(default_factory=Request)

    def run(self, say: Say) -> Found:
        """Fuzz each subject for its share of the time; return and write what was found.

        Raises OptionError without hypothesis.
        """
        require_hypothesis()
        say(f"seed {self.seed}")
        end, found, idle = time.monotonic() + self.budget, list[Broken](), list[str]()
        for at, subject in enumerate(self.subjects):
            share = (end - time.monotonic()) / (len(self.subjects) - at)
            judge = Judge(self.entries, self.waivers, self.tiers, self.request)
            found += self._fuzz(subject, judge, share, say)
            if not judge.counts[judge.tiers[-1]]:
                idle.append(subject.name)
        if idle:
            say(f"too little time: not one example of {', '.join(idle)} reached the last tier")
        return Found(tuple(found), tuple(idle))

    def share(self, subject: ResolvedSubject) -> Campaign:
        """Return the part of the campaign that is about one subject, with its part of the time."""
        return replace(self, subjects=[subject], budget=self.budget / len(self.subjects))

    def _fuzz(self, subject: ResolvedSubject, judge: Judge, share: float, say: Say) -> list[Broken]:
        started = time.monotonic()

        def check(example: Example) -> Finding | None:
            finding = judge.finding(example)
            return finding or (None if example.harm else spelling(self.entries, example))

        found = []
        for broken in search(subject, check, self.seed, share):
            found.append(broken)
            say(told(broken, regressions.write(broken, self.seed, self.folder)))
        counts = ", ".join(f"{tier} {count}" for tier, count in judge.counts.items())
        seconds = time.monotonic() - started
        say(f"{subject.name}: examples {counts} in {seconds:.0f} s, {len(found)} found")
        return found


def chosen(subjects: Sequence[ResolvedSubject], architecture: str | None) -> list[ResolvedSubject]:
    """Return the subjects that can be fuzzed, of one target class if it is given."""
    whole = [subject for subject in subjects if is_fuzzable(subject)]
    classes = {s.name: architecture_of(s.target.config) for s in whole if s.target}
    fitting = [s for s in whole if architecture in (None, classes[s.name])]
    if not fitting:
        names = sorted({name for name in classes.values() if name})
        hint = did_you_mean(architecture or "", names)
        text = f"no subject of {architecture} can be fuzzed" if architecture else _NONE
        raise OptionError(Problem("fuzz", f"{text}{hint}"))
    return fitting


_NONE = (
    "no subject can be fuzzed; a target, an EAGLE-3 draft with its tensors and with ids in "
    "eagle_config, a launch with EAGLE3 and training ids read as output-of are needed"
)


def seconds_of(text: str) -> float:
    """Return the seconds of a budget such as 60s, 5m or 2h; OptionError for anything else."""
    match = re.fullmatch(r"([0-9]{1,6}(?:\.[0-9]{1,3})?)([smh]?)", text)
    if match is None or not float(match[1]):
        text = f"the budget '{text[:40]}' is no time; write it as 60s, 5m or 2h"
        raise OptionError(Problem("fuzz", text))
    return float(match[1]) * _UNITS[match[2]]


def told(broken: Broken, file: Path) -> str:
    """Return what to say of a finding: the property, the example, what mattered, how to see it."""
    finding, example = broken.finding, broken.example
    fields = [f"{field} = {value}" for field, value in example.fields().items()]
    lines = {
        "observed": finding.message,
        "subject": f"{example.base.name}, {example.depth} layers, ids {list(example.ids)}",
        "mattered": ", ".join(fields) or "the layers and the ids alone",
        "after": f"{broken.seconds:.1f} s",
        "written": str(file),
        "reproduce": f"eagle3-contracts replay {file}",
    }
    name = finding.contract or finding.family or "input"
    head = f"{finding.kind.upper()}  {name} at tier {finding.tier}"
    return "\n".join([head, *(f"  {key:10} {' '.join(v.split())}" for key, v in lines.items())])


def replay(paths: Sequence[Path], entries: Sequence[Entry], say: Say) -> int:
    """Say of each regression whether it is fixed; return how many are not."""
    open_ones = 0
    for one in regressions.replay(regressions.files_of(paths or [FOLDER]), entries):
        say(f"{'fixed' if one.is_fixed else 'still failing':14} {one.file}")
        if not one.is_fixed:
            open_ones += 1
            say(f"  {' '.join(one.text.split())}")
    return open_ones
