"""The proof that contracts can fail, as text and as JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any

from eagle3_contracts.facts import Tier
from eagle3_contracts.prove import Fate, Pointer, Proof, Proven, Signal
from eagle3_contracts.report.outcome import number


def document(proven: Proven) -> dict[str, Any]:
    """Return the proof as one JSON object."""
    return {
        "schema": 1,
        "proofs": [{**asdict(p), "seconds": round(p.seconds, 6)} for p in proven.proofs],
        "faults": [asdict(signal) for signal in proven.signals],
        "problems": list(proven.problems),
        "summary": {
            "fates": {fate: _count(proven.proofs, fate) for fate in Fate},
            "pointers": dict(Counter(signal.pointer for signal in proven.signals)),
            "exit_code": proven.exit_code,
        },
    }


def render(proven: Proven) -> str:
    """Return pairs, reverse table, everything that is wrong, and the counts, as text."""
    lines = [*_pairs(proven.proofs), "", *_first(proven.signals), ""]
    lines += [f"WRONG  {text}" for text in (*proven.problems, *_wrong(proven))]
    return "\n".join([*lines, *_totals(proven)]) + "\n"


def _pairs(proofs: Sequence[Proof]) -> Iterable[str]:
    rows = [("TIER", "CONTRACT", "FAULT", "FATE"), *((p.tier, *_key(p), p.fate) for p in proofs)]
    return _columns(rows)


def _first(signals: Sequence[Signal]) -> Iterable[str]:
    rows = [("FAULT", "SEEN AT", "NAMED BY", "FAILS FIRST")]
    rows += [
        (signal.fault, signal.tier or "-", signal.pointer, ", ".join(signal.contracts) or "-")
        for signal in signals
    ]
    return _columns(rows)


def _wrong(proven: Proven) -> Iterable[str]:
    for proof in proven.proofs:
        if proof.fate is not Fate.KILLED:
            place = f"{proof.contract} under {proof.fault} on {proof.subject}"
            yield f"{place}: {proof.fate}: {proof.message}"
    for signal in proven.signals:
        if signal.pointer is Pointer.WRONG:
            names = ", ".join(signal.contracts)
            yield f"{signal.fault}: {names} suspects something else: {signal.cause}"


def _totals(proven: Proven) -> Iterable[str]:
    proofs, signals = proven.proofs, proven.signals
    for tier in Tier:
        there = [proof for proof in proofs if proof.tier is tier]
        if there:
            killed = _count(there, Fate.KILLED)
            contracts = number(len({proof.contract for proof in there}), "contract")
            yield f"{tier}: {killed} of {number(len(there), 'pair')} killed ({contracts})"
    pointers = Counter(signal.pointer for signal in signals)
    named = len(signals) - pointers[Pointer.GENERAL] - pointers[Pointer.WRONG]
    yield f"{named} of {number(len(signals), 'fault')} are named by what fails first"


def _count(proofs: Iterable[Proof], fate: Fate) -> int:
    return sum(proof.fate is fate for proof in proofs)


def _key(proof: Proof) -> tuple[str, str]:
    return proof.contract, proof.fault


def _columns(rows: Sequence[Sequence[str]]) -> Iterable[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        yield "  ".join(f"{c:<{w}}" for c, w in zip(row, widths, strict=True)).rstrip()
