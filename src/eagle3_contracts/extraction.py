"""Extraction against inference: what the slots of a dump are, and what SGLang will capture."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from eagle3_contracts.facts import CaptureFacts, Gap, GapKind
from eagle3_contracts.features import wording
from eagle3_contracts.features.dump import Damage, Dump
from eagle3_contracts.features.match import Fit, Match, Trouble
from eagle3_contracts.probes import Request
from eagle3_contracts.probes.features import Identified, identify
from eagle3_contracts.probes.model import ModelProbe
from eagle3_contracts.probes.static import shift_between
from eagle3_contracts.subject import ResolvedSubject
from eagle3_contracts.verdict import Verdict, exit_code

LAST = "last state"
"""What the state after the last layer is called, beside the slots."""

_UNSURE = (Fit.NEAR, Fit.UNCLEAR)
_NAMED = (Fit.SAME, Fit.NEAR)


@dataclass(frozen=True, slots=True)
class Picks:
    """Which samples of a dump are looked at, and how many tokens of each."""

    samples: int = 8
    seed: int = 0
    tokens: int = 128


@dataclass(frozen=True, slots=True)
class Finding:
    """One sentence about a slot, or about the whole when ``slot`` is empty.

    ``samples`` are those it is about, ``match`` is the one of them that fits worst, ``captured``
    the boundary that SGLang will capture in the place of the slot. ``troubles`` are what is wrong,
    of :class:`Trouble` or, of a damaged sample, of :class:`~eagle3_contracts.features.dump.Kind`.
    """

    slot: str
    verdict: Verdict
    text: str
    samples: tuple[str, ...] = ()
    match: Match | None = None
    captured: int | None = None
    troubles: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Inspection:
    """All that was found out about a dump.

    ``slots`` holds the match of each slot in most samples, ``last`` that of the last state.
    ``captured`` are the boundaries that SGLang will capture; None: no draft was given, or nothing
    could be found out.
    """

    dump: Dump
    picked: tuple[str, ...]
    target_class: str
    num_layers: int
    slots: tuple[Match, ...]
    last: Match | None
    captured: tuple[int, ...] | None
    findings: tuple[Finding, ...]
    fix: str = ""

    @property
    def exit_code(self) -> int:
        """Exit code of the command line: 0, 1, 3 or 4."""
        return exit_code(Counter(finding.verdict for finding in self.findings))


def inspect(dump: Dump, subject: ResolvedSubject, picks: Picks, request: Request) -> Inspection:
    """Identify the slots of a dump and compare them with what SGLang captures for the draft.

    Raises OptionError for a target without local weights, SubjectError for an architecture that
    SGLang does not have.
    """
    files = dump.pick(picks.samples, picks.seed)
    names = tuple(dump.name(file) for file in files)
    found = identify(dump, files, subject, picks.tokens, request)
    if isinstance(found, Gap):
        findings = (Finding("", _verdict_of(found), found.reason),)
        return Inspection(dump, names, "", 0, (), None, None, findings)
    return judge(dump, names, found, _capture(subject, request))


def _capture(subject: ResolvedSubject, request: Request) -> CaptureFacts | Gap | None:
    if subject.draft is None:
        return None
    capture = ModelProbe().run(subject, request)["capture"]
    assert isinstance(capture, CaptureFacts | Gap)
    return capture


def _verdict_of(gap: Gap) -> Verdict:
    return Verdict.HARNESS_ERROR if gap.kind is GapKind.BROKEN else Verdict.NOT_TESTABLE


def judge(
    dump: Dump, names: tuple[str, ...], found: Identified, capture: CaptureFacts | Gap | None
) -> Inspection:
    """Compare identified slots with what SGLang captured; without ``capture``, with nothing."""
    captured = _captured(capture)
    count = max((len(slots) for slots, _ in found.samples.values()), default=0)
    columns = [_column(found, at) for at in range(count)]
    slots = tuple(_usual(column) for column in columns)
    findings = [_of_damage(damage) for damage in found.damaged]
    findings += _of_capture(capture, count)
    context = _Context(slots, captured)
    for at, column in enumerate(columns):
        findings += _of_slot(f"slot {at}", column, found, context, at)
    last = {name: state for name, (_, state) in found.samples.items() if state is not None}
    findings += _of_last(last, found) if last else ()
    return Inspection(
        dump=dump,
        picked=names,
        target_class=found.target_class,
        num_layers=found.num_layers,
        slots=slots,
        last=_usual(last) if last else None,
        captured=captured,
        findings=tuple(findings),
        fix=_fix(context, capture, found.num_layers),
    )


Column = dict[str, Match]
"""One slot: its match in every sample."""


@dataclass(frozen=True, slots=True)
class _Context:
    slots: tuple[Match, ...]
    captured: tuple[int, ...] | None

    @property
    def is_reordered(self) -> bool:
        """The slots are what is captured, in another order."""
        bests = [match.best.k for match in self.slots]
        return self.captured is not None and sorted(bests) == sorted(self.captured)


def _column(found: Identified, at: int) -> Column:
    return {name: slots[at] for name, (slots, _) in found.samples.items() if at < len(slots)}


def _groups(column: Column) -> list[Column]:
    """Return the samples in which a slot is the same, the most frequent kind first."""
    groups: dict[object, Column] = {}
    for name, match in column.items():
        best = None if match.fit is Fit.NONE else match.best
        groups.setdefault((match.fit, best, match.offset), {})[name] = match
    return sorted(groups.values(), key=len, reverse=True)


def _usual(column: Column) -> Match:
    return max(_groups(column)[0].values(), key=lambda match: match.error)


def _captured(capture: CaptureFacts | Gap | None) -> tuple[int, ...] | None:
    """Return the boundaries that SGLang captured, None where they are not known."""
    if not isinstance(capture, CaptureFacts) or (capture.enabled and not capture.exact):
        return None
    return tuple(capture.boundaries)


def _of_damage(damage: Damage) -> Finding:
    return Finding("", Verdict.FAIL, str(damage), (damage.sample,), troubles=(damage.kind,))


def _of_capture(capture: CaptureFacts | Gap | None, count: int) -> Iterator[Finding]:
    if isinstance(capture, Gap):
        text = f"what SGLang will capture is unknown: {capture.reason}"
        yield Finding("", _verdict_of(capture), text)
    elif capture is not None and capture.refusal is not None:
        yield Finding("", Verdict.FAIL, f"SGLang refuses to capture: {capture.refusal}")
    elif capture is not None and capture.enabled and not capture.exact:
        text = "what SGLang captures is no boundary; eagle3-contracts check says more"
        yield Finding("", Verdict.FAIL, text)
    elif capture is not None and count and capture.count != count:
        text = f"the dump has {count} slots, and SGLang will capture {capture.count} states"
        yield Finding("", Verdict.FAIL, text)


def _of_slot(
    slot: str, column: Column, found: Identified, context: _Context, at: int
) -> Iterator[Finding]:
    for group in _groups(column):
        match = max(group.values(), key=lambda match: match.error)
        captured = None
        if context.captured is not None and at < len(context.captured):
            captured = context.captured[at]
        relation = _relation(match, captured, context)
        repeated = _repeated(match, at, relation, context)
        text = f"{slot} {wording.say(match)}{relation.text}{repeated.text}{_where(group, found)}"
        troubles = _troubles(match, relation, repeated)
        yield Finding(
            slot, _verdict(match, troubles), text, tuple(group), match, captured, troubles
        )


@dataclass(frozen=True, slots=True)
class _Relation:
    """What a slot is beside what it should be: what is wrong, and the words that say it."""

    trouble: Trouble | None = None
    text: str = ""


def _troubles(match: Match, *relations: _Relation) -> tuple[Trouble, ...]:
    found = (match.trouble, *(relation.trouble for relation in relations))
    return tuple(trouble for trouble in found if trouble is not None)


def _verdict(match: Match, troubles: tuple[Trouble, ...]) -> Verdict:
    if not troubles:
        return Verdict.PASS
    is_unsure = match.fit in _UNSURE and troubles == (match.trouble,)
    return Verdict.INCONCLUSIVE if is_unsure else Verdict.FAIL


def _relation(match: Match, captured: int | None, context: _Context) -> _Relation:
    """Compare a slot with what SGLang will capture in its place."""
    if captured is None or match.fit is Fit.NONE:
        return _Relation()
    best, second = match.best, match.second
    will = f"; SGLang will capture boundary {captured}"
    if match.fit is Fit.UNCLEAR and second is not None and captured in (best.k, second.k):
        return _Relation(None, will)
    if best.normed:
        return _Relation(Trouble.NORMED, f"{will} before the norm")
    if best.k == captured:
        return _Relation(None, "; SGLang will capture it")
    if context.is_reordered:
        text = f"{will} here: the same boundaries in another order"
        return _Relation(Trouble.REORDERED, text)
    if abs(best.k - captured) == 1:
        return _Relation(Trouble.OFF_BY_ONE, f"{will}: off by one")
    return _Relation(Trouble.OTHER_LAYER, will)


def _repeated(match: Match, at: int, relation: _Relation, context: _Context) -> _Relation:
    """Look for a slot that is the same state, of which one is right if SGLang captures it."""
    is_known = bool(relation.text)
    if is_known and relation.trouble is None:
        return _Relation()
    others = context.slots if is_known else context.slots[:at]
    for other, state in enumerate(others):
        if other != at and _is_same(match, state):
            return _Relation(Trouble.REPEATED, f"; slot {other} is the same")
    return _Relation()


def _is_same(one: Match, two: Match) -> bool:
    return Fit.NONE not in (one.fit, two.fit) and (one.best, one.fit) == (two.best, two.fit)


def _where(group: Column, found: Identified) -> str:
    total = len(found.samples)
    if len(group) == total:
        return ""
    first = next(iter(group))
    return f" ({first})" if len(group) == 1 else f" ({len(group)} of {total} samples, as {first})"


def _of_last(column: Column, found: Identified) -> Iterator[Finding]:
    for group in _groups(column):
        match = max(group.values(), key=lambda match: match.error)
        relation = _relation_of_last(match, found.num_layers)
        text = f"the {LAST} {wording.say(match)}{relation.text}{_where(group, found)}"
        troubles = _troubles(match, relation)
        yield Finding(LAST, _verdict(match, troubles), text, tuple(group), match, troubles=troubles)


def _relation_of_last(match: Match, num_layers: int) -> _Relation:
    """Compare the last state with what it is called."""
    if match.fit is not Fit.NONE and match.best.k != num_layers:
        is_next = match.best.k == num_layers - 1
        trouble = Trouble.OFF_BY_ONE if is_next else Trouble.OTHER_LAYER
        return _Relation(trouble, f"; the last layer is {num_layers - 1}")
    if match.fit is Fit.SAME and not match.best.normed:
        return _Relation(None, ", before the final norm")
    return _Relation()


def _fix(context: _Context, capture: CaptureFacts | Gap | None, num_layers: int) -> str:
    """Return the ids that make SGLang capture the slots, where its class can be told to."""
    if not isinstance(capture, CaptureFacts) or context.captured is None or not context.slots:
        return ""
    bests = [match.best.k for match in context.slots]
    is_plain = all(m.fit in _NAMED and not m.best.normed for m in context.slots)
    if not is_plain or bests == list(context.captured):
        return ""
    if bests != sorted(set(bests)):
        return (
            "Train with the slots in the order of the layers; SGLang hands them over in no other."
        )
    shift = shift_between(capture.ids, context.captured)
    if shift is None or not all(0 <= k - shift < num_layers for k in bests):
        return ""
    ids = [k - shift for k in bests]
    return f"Declare eagle_config.eagle_aux_hidden_state_layer_ids {ids} in the draft's config."
