"""What changed between two JSON reports: which verdicts became better, and which worse.

A report that lacks a verdict says as little as one in which the contract could not be judged, so a
pass that is gone counts as worse, and a failure that is gone is no fix.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from eagle3_contracts.errors import OptionError, Problem
from eagle3_contracts.files import read_object, show
from eagle3_contracts.report.document import SCHEMA
from eagle3_contracts.report.failure import folded, paragraph, plain
from eagle3_contracts.report.outcome import LABELS, named, number
from eagle3_contracts.report.style import Style
from eagle3_contracts.verdict import Verdict
from eagle3_contracts.waiver import PASSES

ABSENT = "absent"
"""What a verdict is called that a report does not have."""

Key = tuple[str, str]
"""Contract and subject."""

_HELD = ("pass",)
_VIOLATED = ("note", "warning", "waived", "fail", "stale-waiver")
_SILENT = (ABSENT, "not-applicable", "blocked", "inconclusive", "not-testable", "harness-error")
# Within a state: 0 says nothing of a mistake, 2 lets a run fail.
_WEIGHT = dict.fromkeys((*_HELD, ABSENT, "not-applicable", "note"), 0)
_WEIGHT |= dict.fromkeys(("blocked", "warning", "waived"), 1)
_WEIGHT |= dict.fromkeys(("inconclusive", "not-testable", "harness-error"), 2)
_WEIGHT |= dict.fromkeys(("fail", "stale-waiver"), 2)


class Kind(StrEnum):
    """How a verdict changed, in the order in which changes are shown."""

    BROKEN = "broken"
    """A pass became a failure."""
    REVEALED = "revealed"
    """A failure where nothing was judged before."""
    LOST = "lost"
    """A pass became a skip, or is gone."""
    HIDDEN = "hidden"
    """A failure became a skip, or is gone: nothing shows that it is repaired."""
    WORSE = "worse"
    """A failure that fails the run now, or a skip for a graver reason."""
    OTHER = "other"
    """As bad as before, for another reason."""
    BETTER = "better"
    """The reverse of worse."""
    GAINED = "gained"
    """A pass where nothing was judged before."""
    FIXED = "fixed"
    """A failure became a pass."""

    @property
    def is_worse(self) -> bool:
        """Whether a gate has to stop because of such a change."""
        return self in (Kind.BROKEN, Kind.REVEALED, Kind.LOST, Kind.HIDDEN, Kind.WORSE)


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True)


class Cell(_Part):
    """One verdict, as far as two reports are compared."""

    contract: str
    title: str
    tier: str
    subject: str
    verdict: Verdict
    severity: Literal["error", "warning", "info"]
    message: str

    @property
    def label(self) -> str:
        """What the verdict is called in reports."""
        return named(self.verdict, self.severity)


class _Document(_Part):
    environment: dict[str, Any]
    verdicts: tuple[Cell, ...]


@dataclass(frozen=True, slots=True)
class Report:
    """A report that was read: where from, where its run took place, and its verdicts."""

    source: str
    environment: Mapping[str, Any]
    cells: Mapping[Key, Cell]

    @property
    def contracts(self) -> set[str]:
        """Ids of its contracts."""
        return {contract for contract, _ in self.cells}

    @property
    def subjects(self) -> set[str]:
        """Names of its subjects."""
        return {subject for _, subject in self.cells}


@dataclass(frozen=True, slots=True)
class Change:
    """One verdict that changed; None stands for a report that does not have it."""

    kind: Kind
    before: Cell | None
    after: Cell | None

    @property
    def cell(self) -> Cell:
        """The verdict as it is, or was."""
        cell = self.after or self.before
        assert cell is not None
        return cell

    @property
    def labels(self) -> tuple[str, str]:
        """What the verdict was and is called; ABSENT where there is none."""
        return _label(self.before), _label(self.after)

    @property
    def messages(self) -> tuple[str, str]:
        """What was and is said of it."""
        return _message(self.before), _message(self.after)


@dataclass(frozen=True, slots=True)
class Difference:
    """Two reports and what changed between them, the worst first."""

    before: Report
    after: Report
    changes: tuple[Change, ...]

    @property
    def counts(self) -> dict[str, int]:
        """How many changes there are of each kind, in the order of `Kind`."""
        counted = Counter(change.kind for change in self.changes)
        return {str(kind): counted[kind] for kind in Kind if counted[kind]}

    @property
    def exit_code(self) -> int:
        """1 if anything became worse, else 0."""
        return int(any(change.kind.is_worse for change in self.changes))


def read(path: Path) -> Report:
    """Return the report in the file; OptionError if it is none that this version can read."""
    source = str(path)
    data = read_object(path, OptionError)
    if "verdicts" not in data:
        raise OptionError(Problem(source, "is no JSON report of check: it has no verdicts"))
    if data.get("schema") != SCHEMA:
        text = f"has schema {show(data.get('schema'))}, and this version reads {SCHEMA}"
        raise OptionError(Problem(source, text))
    try:
        document = _Document.model_validate(data)
    except ValidationError as error:
        raise OptionError(Problem(source, _mistake(error))) from None
    cells: dict[Key, Cell] = {}
    for cell in document.verdicts:
        if cells.setdefault((cell.contract, cell.subject), cell) is not cell:
            text = f"has two verdicts of {cell.contract} on {cell.subject}"
            raise OptionError(Problem(source, text))
    return Report(source, document.environment, cells)


def compare(before: Report, after: Report) -> Difference:
    """Return what changed from ``before`` to ``after``."""
    found = []
    for key in {**before.cells, **after.cells}:
        old, new = before.cells.get(key), after.cells.get(key)
        kind = _kind(old, new)
        found += [Change(kind, old, new)] if kind else []
    order = list(Kind)
    found.sort(key=lambda c: (order.index(c.kind), c.cell.contract, c.cell.subject))
    return Difference(before, after, tuple(found))


def document(difference: Difference) -> dict[str, Any]:
    """Return the difference as one JSON object."""
    before, after = difference.before, difference.after
    return {
        "schema": 1,
        "before": {"report": before.source, "environment": dict(before.environment)},
        "after": {"report": after.source, "environment": dict(after.environment)},
        "removed": _only(before, after),
        "added": _only(after, before),
        "changes": [_as_json(change) for change in difference.changes],
        "summary": {
            "kinds": difference.counts,
            "unchanged": len({**before.cells, **after.cells}) - len(difference.changes),
            "exit_code": difference.exit_code,
        },
    }


def render(difference: Difference, style: Style | None = None) -> str:
    """Return the difference as text: changes by contract, the worst first, and the counts."""
    style = style or Style()
    before, after = difference.before, difference.after
    lines = [_head("before", before), _head("after", after), ""]
    whole = (before.contracts ^ after.contracts, before.subjects ^ after.subjects)
    told = [c for c in difference.changes if not _is_whole(c, whole)]
    for group in _alike(told):
        lines += [*_group(group, style), ""]
    lines += [*_one_sided("only before", before, after), *_one_sided("only after", after, before)]
    return "\n".join([*lines, *folded(_counts(difference), style.width, "  ")]) + "\n"


def _label(cell: Cell | None) -> str:
    return cell.label if cell else ABSENT


def _kind(before: Cell | None, after: Cell | None) -> Kind | None:
    old, new = _label(before), _label(after)
    states = _state(before), _state(after)
    if states[0] != states[1]:
        return _CROSSED[states]
    if _WEIGHT[old] != _WEIGHT[new]:
        return Kind.WORSE if _WEIGHT[old] < _WEIGHT[new] else Kind.BETTER
    is_same = _message(before) == _message(after) or states[0] is not _VIOLATED
    # What is absent and what does not apply are alike: nothing is claimed.
    return None if is_same and (old == new or _WEIGHT[old] == 0) else Kind.OTHER


def _message(cell: Cell | None) -> str:
    return cell.message if cell else ""


def _state(cell: Cell | None) -> tuple[str, ...]:
    """Return the state: what is known of the contract, whatever its waiver makes of it."""
    label = _label(cell)
    if label == "stale-waiver" and _message(cell).startswith(PASSES):
        return _HELD
    return next(state for state in (_HELD, _VIOLATED, _SILENT) if label in state)


_CROSSED = {
    (_HELD, _VIOLATED): Kind.BROKEN,
    (_VIOLATED, _HELD): Kind.FIXED,
    (_HELD, _SILENT): Kind.LOST,
    (_SILENT, _HELD): Kind.GAINED,
    (_SILENT, _VIOLATED): Kind.REVEALED,
    (_VIOLATED, _SILENT): Kind.HIDDEN,
}


def _mistake(error: ValidationError) -> str:
    first = error.errors()[0]
    place = ".".join(map(str, first["loc"]))
    return f"is no JSON report of check: {place}: {first['msg'][0].lower()}{first['msg'][1:]}"


def _only(one: Report, other: Report) -> dict[str, list[str]]:
    return {
        "contracts": sorted(one.contracts - other.contracts),
        "subjects": sorted(one.subjects - other.subjects),
    }


def _as_json(change: Change) -> dict[str, Any]:
    cell = change.cell
    sides = zip(("before", "after"), change.labels, change.messages, strict=True)
    return {
        **{name: getattr(cell, name) for name in ("contract", "subject", "tier", "title")},
        "kind": str(change.kind),
        "is_worse": change.kind.is_worse,
        **{side: {"verdict": label, "message": message} for side, label, message in sides},
    }


def _head(side: str, report: Report) -> str:
    versions = [f"{name} {report.environment.get(name) or '-'}" for name in _VERSIONED]
    device = report.environment.get("device", "an unknown device")
    return plain(f"{side:<7} {report.source}: {', '.join(versions)} on {device}")


_VERSIONED = ("sglang", "torch", "transformers")


def _is_whole(change: Change, whole: tuple[set[str], set[str]]) -> bool:
    return change.cell.contract in whole[0] or change.cell.subject in whole[1]


def _alike(changes: Iterable[Change]) -> list[list[Change]]:
    """Return the changes in groups that differ in nothing but the subject."""
    groups: dict[tuple[object, ...], list[Change]] = {}
    for change in changes:
        key = (change.kind, change.cell.contract, change.labels, change.messages)
        groups.setdefault(key, []).append(change)
    return list(groups.values())


def _group(group: Sequence[Change], style: Style) -> list[str]:
    first = group[0]
    old, new = first.labels
    head = f"{first.kind.upper()}  {first.cell.contract}  {old} -> {new}  {first.cell.title}"
    said = paragraph("subject", ", ".join(c.cell.subject for c in group), style.width)
    for side, message in zip(("before", "after"), first.messages, strict=True):
        said += paragraph(side, message, style.width)
    lines = folded(plain(head), style.width, "  ")
    label = "fail" if first.kind.is_worse else "pass" if first.kind in _GOOD else "waived"
    word = str(first.kind.upper())
    return [style.paint(word, label) + lines[0][len(word) :], *lines[1:], *said]


_GOOD = (Kind.BETTER, Kind.GAINED, Kind.FIXED)


def _one_sided(head: str, one: Report, other: Report) -> list[str]:
    lines = []
    for noun, names in _only(one, other).items():
        at = 0 if noun == "contracts" else 1
        for name in names:
            labels = Counter(cell.label for key, cell in one.cells.items() if key[at] == name)
            counts = ", ".join(f"{labels[label]} {label}" for label in LABELS if labels[label])
            lines.append(plain(f"{head}  {noun[:-1]} {name}: {counts}"))
    return lines


def _counts(difference: Difference) -> str:
    total = len({**difference.before.cells, **difference.after.cells})
    if not difference.changes:
        return f"no change in {number(total, 'verdict')}"
    said = ", ".join(f"{count} {kind}" for kind, count in difference.counts.items())
    return f"{len(difference.changes)} of {number(total, 'verdict')} changed: {said}"
