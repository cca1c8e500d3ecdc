"""Waivers: known failures, each with a reason, an issue, an owner and a last day.

A waiver covers a failure or a not-testable of one contract. It is no licence to forget: one that
has expired, or whose contract passes, fails the run, and so does one that is about nothing.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from eagle3_contracts.errors import Problem, WaiverError, did_you_mean, raise_if_any
from eagle3_contracts.files import is_directory
from eagle3_contracts.locate import Document, Steps, read_yaml
from eagle3_contracts.validate import validate
from eagle3_contracts.verdict import Result, Verdict

COVERED = (Verdict.FAIL, Verdict.NOT_TESTABLE)
"""Verdicts that a waiver excuses."""

PASSES = "the contract passes"
"""How the message of a stale waiver begins whose contract holds; all others are of failures."""

_ISSUE = re.compile(r"https?://\S+|[\w.-]+/[\w.-]+#\d+|[\w./-]+\.md(#\S+)?")
_Text = Annotated[str, Field(min_length=1)]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class WaiverEntry(_Part):
    """One waiver as the file gives it."""

    contract: _Text
    """Id of the contract."""
    subject: _Text = "*"
    """Name of the subject, or a pattern with ``*`` and ``?``; every subject of an architecture."""
    architecture: _Text | None = None
    """Target class whose subjects it is about, for what no draft of that class can help."""
    reason: _Text
    """Why this is accepted for the time being."""
    issue: _Text
    """Where it is followed up: an address, owner/repo#123, or a finding (*.md)."""
    owner: _Text
    """Who sees to it."""
    expires: _Text
    """Last day on which it counts, as 2027-06-30."""


class WaiverFile(_Part):
    """A file of waivers about one release of SGLang."""

    version: Literal[1]
    """Version of the file format."""
    sglang: _Text
    """Release that the waivers are about."""
    waivers: tuple[WaiverEntry, ...]
    """The waivers; an empty list says that there are none."""


@dataclass(frozen=True, slots=True)
class Waiver:
    """A waiver in force, and where it stands."""

    contract: str
    subject: str
    reason: str
    issue: str
    owner: str
    expires: date
    place: str
    """File and line."""
    architecture: str | None = None

    def matches(self, subject: str, architecture: str | None = None) -> bool:
        """Return whether it is about the subject of that name, whose target has that class."""
        is_meant = self.architecture in (None, architecture)
        return is_meant and fnmatchcase(subject, self.subject)


def read_waivers(
    paths: Iterable[Path], contracts: Collection[str], sglang: str | None
) -> tuple[Waiver, ...]:
    """Return the waivers of the files, and of the ``*.yaml`` files of the directories.

    ``contracts`` are the known ids. Files about another release than the installed ``sglang`` are
    checked and left out; without an installed release (None) all count. Raises WaiverError with
    every mistake of every file.
    """
    problems: list[Problem] = []
    found: list[Waiver] = []
    for path in paths:
        for file in sorted(path.glob("*.yaml")) if is_directory(path) else [path]:
            found += _read_file(file, contracts, sglang, problems)
    problems += _repeated(found)
    raise_if_any(WaiverError, problems)
    return tuple(found)


def waiver_for(
    waivers: Iterable[Waiver], contract: str, subject: str, architecture: str | None = None
) -> Waiver | None:
    """Return the waiver of a contract on a subject; one that names it beats one with a pattern.

    ``architecture`` is the class of the subject's target.
    """
    fitting = [w for w in waivers if w.contract == contract and w.matches(subject, architecture)]
    return min(fitting, key=lambda waiver: waiver.subject != subject, default=None)


def waived(result: Result, waiver: Waiver | None, today: date) -> Result:
    """Return ``result`` as it stands under its waiver; unchanged where the waiver says nothing."""
    if waiver is None or result.verdict not in (*COVERED, Verdict.PASS):
        return result
    if result.verdict is Verdict.PASS:
        text = f"{PASSES}: remove the waiver {waiver.place}"
        return replace(result, verdict=Verdict.STALE_WAIVER, message=text, waiver=waiver.place)
    if today > waiver.expires:
        ended = f"the waiver {waiver.place} expired on {waiver.expires}"
        text = f"{result.message}; {ended}: renew it with a reason, or correct the failure"
        return replace(result, verdict=Verdict.STALE_WAIVER, message=text, waiver=waiver.place)
    said = f"until {waiver.expires}: {waiver.reason} ({waiver.issue}; {waiver.owner})"
    return replace(result, verdict=Verdict.WAIVED, waiver=said)


def unmatched(
    waivers: Iterable[Waiver], results: Sequence[Result], subjects: Mapping[str, str | None]
) -> list[str]:
    """Return a text for each waiver that is about nothing in a run over all known ``subjects``.

    ``subjects`` are names with the classes of their targets.

    That is a waiver that names no known subject, and one whose contract was judged on every
    subject it names and applied to none of them. What was not judged proves nothing: selecting
    contracts or tiers makes no waiver unmatched. A run over chosen subjects must not ask.
    """
    verdicts = {(result.contract, result.subject): result.verdict for result in results}
    texts = []
    for waiver in waivers:
        names = [name for name, kind in subjects.items() if waiver.matches(name, kind)]
        judged = {verdicts.get((waiver.contract, name)) for name in names}
        if not names:
            texts.append(f"{waiver.place}: {_nobody(waiver, subjects)}")
        elif judged == {Verdict.NOT_APPLICABLE}:
            said = f"{waiver.contract} does not apply to '{waiver.architecture or waiver.subject}'"
            texts.append(f"{waiver.place}: {said}; remove the waiver")
    return texts


def _nobody(waiver: Waiver, subjects: Mapping[str, str | None]) -> str:
    if waiver.architecture is not None:
        known = {kind for kind in subjects.values() if kind is not None}
        hint = did_you_mean(waiver.architecture, known)
        return f"no subject's target is a '{waiver.architecture}'{hint}"
    return f"no subject is named '{waiver.subject}'{did_you_mean(waiver.subject, subjects)}"


def _read_file(
    path: Path, contracts: Collection[str], sglang: str | None, problems: list[Problem]
) -> list[Waiver]:
    try:
        document = read_yaml(path, WaiverError)
    except WaiverError as error:
        problems += error.problems
        return []
    file, mistakes = validate(WaiverFile, document)
    problems += mistakes
    if file is None:
        return []
    read = [
        _read_entry(entry, document, ("waivers", at), contracts, problems)
        for at, entry in enumerate(file.waivers)
    ]
    return read if sglang in (None, file.sglang) else []


def _read_entry(
    entry: WaiverEntry,
    document: Document,
    path: Steps,
    contracts: Collection[str],
    problems: list[Problem],
) -> Waiver:
    def refuse(field: str, text: str) -> None:
        problems.append(document.problem(f"{field}: {text}", (*path, field)))

    if entry.contract not in contracts:
        hint = did_you_mean(entry.contract, contracts) or f"; known are {_listed(contracts)}"
        refuse("contract", f"unknown contract '{entry.contract}'{hint}")
    if entry.architecture is None and not re.search(r"[^*?\[\]!.-]", entry.subject):
        refuse("subject", f"'{entry.subject}' covers every subject; name those that fail")
    if not _ISSUE.fullmatch(entry.issue):
        forms = "https://…, owner/repo#123 or a finding such as docs/findings/x.md"
        refuse("issue", f"'{entry.issue}' is none of {forms}")
    if not re.fullmatch(r"\d{4}-\d\d-\d\d", entry.expires) or _day(entry.expires) is None:
        refuse("expires", f"'{entry.expires}' is no day; write it as 2027-06-30")
    return Waiver(
        **entry.model_dump(exclude={"expires"}),
        expires=_day(entry.expires) or date.min,
        place=f"{document.source}:{document.place(path)[0]}",
    )


def _day(text: str) -> date | None:
    try:
        return date.fromisoformat(text)
    except ValueError:
        return None


def _repeated(waivers: Iterable[Waiver]) -> list[Problem]:
    first: dict[tuple[str, str, str | None], Waiver] = {}
    problems = []
    for waiver in waivers:
        key = (waiver.contract, waiver.subject, waiver.architecture)
        earlier = first.setdefault(key, waiver)
        if earlier is not waiver:
            source, _, line = waiver.place.rpartition(":")
            on = waiver.architecture or waiver.subject
            text = f"{waiver.contract} on '{on}' is waived at {earlier.place} already"
            problems.append(Problem(source, f"{text}; keep one of them", int(line)))
    return problems


def _listed(names: Iterable[str]) -> str:
    return ", ".join(sorted(names))
