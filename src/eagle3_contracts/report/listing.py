"""The catalogue for people: one line for each contract, or everything about one."""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import fill

from eagle3_contracts.catalogue import Entry
from eagle3_contracts.contract import Contract
from eagle3_contracts.facts import field_docs
from eagle3_contracts.report.failure import paragraph
from eagle3_contracts.rules import Rule

COLUMNS = ("id", "family", "tier", "severity", "title")
BOUNDARIES = (
    "Boundary k is the residual stream after k decoder layers: boundary 0 is the output of the "
    "embedding, boundary n the output of the last of n layers before the final norm. By the "
    "convention output-of, id i means boundary i + 1; by input-of and hf-index, boundary i."
)


def rows(contracts: Sequence[Contract]) -> list[dict[str, str]]:
    """Return what a list shows of each contract."""
    return [{name: str(getattr(contract, name)) for name in COLUMNS} for contract in contracts]


def listing(contracts: Sequence[Contract]) -> str:
    """Return one line for each contract, in columns."""
    table = [[name.upper() for name in COLUMNS], *(list(row.values()) for row in rows(contracts))]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    return "".join(
        "  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip()
        + "\n"
        for row in table
    )


def explanation(entry: Entry, width: int) -> str:
    """Return everything about one contract, and the meaning of the facts that it names."""
    contract = entry.contract
    parts = [
        ("family", contract.family),
        ("tier", contract.tier),
        ("severity", contract.severity),
        ("applies if", contract.applies),
        ("rule", contract.rule),
        ("message", contract.message),
        ("why", contract.why),
        *(("cause if", f"{cause.when}: {cause.says}") for cause in contract.causes),
        ("fix", contract.fix),
        ("see", ", ".join(contract.refs)),
        ("depends", ", ".join(contract.depends)),
        ("faults", ", ".join(contract.faults)),
        ("file", f"{entry.source}:{entry.line}"),
    ]
    lines = [f"{contract.id}  {contract.title}"]
    lines += [line for name, text in parts for line in paragraph(name, text, width)]
    return "\n".join([*lines, "", *_facts(entry, width)]) + "\n"


def _facts(entry: Entry, width: int) -> list[str]:
    named = list(dict.fromkeys((group, field) for _, group, field in _names(entry)))
    lines = ["Facts that it names:"] if named else ["It names no facts."]
    for group, field in named:
        text = f"{group}.{field}: {field_docs(group)[field]}"
        lines.append(fill(text, width, initial_indent="  ", subsequent_indent="    "))
    if any("boundar" in field_docs(group)[field] for group, field in named):
        lines += ["", fill(BOUNDARIES, width)]
    return lines


def _names(entry: Entry) -> list[tuple[int, str, str]]:
    rules: list[Rule] = [entry.applies, entry.rule, *(when for when, _ in entry.causes)]
    texts = [entry.message, entry.fix, *(says for _, says in entry.causes)]
    rules += [piece[1] for text in texts for piece in text.pieces if not isinstance(piece, str)]
    return [name for rule in rules for name in rule.names]
