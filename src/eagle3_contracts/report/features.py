"""What was found out about a feature dump, as text and as JSON."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Iterator
from typing import Any

from eagle3_contracts.extraction import LAST, Finding, Inspection
from eagle3_contracts.features import wording
from eagle3_contracts.features.match import Fit
from eagle3_contracts.report import svg
from eagle3_contracts.report.outcome import number
from eagle3_contracts.report.picture import Mark, draw
from eagle3_contracts.report.style import Style
from eagle3_contracts.verdict import Verdict

SCHEMA = 1
"""Version of the document's form."""


def document(inspection: Inspection) -> dict[str, Any]:
    """Return the inspection as one JSON object."""
    captured = inspection.captured
    return {
        "schema": SCHEMA,
        "dump": str(inspection.dump.root),
        "layout": str(inspection.dump.layout),
        "samples": list(inspection.picked),
        "target_class": inspection.target_class or None,
        "num_layers": inspection.num_layers or None,
        "captured": None if captured is None else list(captured),
        "findings": [_finding(finding) for finding in inspection.findings],
        "fix": inspection.fix,
        "exit_code": inspection.exit_code,
    }


def render(inspection: Inspection, style: Style) -> str:
    """Return the picture, a sentence for each slot, and the fix, as text."""
    lines = [*_head(inspection), ""]
    if inspection.slots:
        training, serving = marks(inspection)
        picture = draw(
            inspection.num_layers, training, serving, style.width, has_unicode=style.has_unicode
        )
        lines += [picture]
    for finding in inspection.findings:
        lines += _sentence(finding, style)
    if inspection.fix:
        lines += ["", *_wrapped("fix  ", inspection.fix, style)]
    return "\n".join([*lines, "", _total(inspection)]) + "\n"


def picture(inspection: Inspection) -> str:
    """Return the picture as SVG; there have to be slots."""
    title = f"{inspection.dump.root.name}, states of {inspection.target_class}"
    return svg.picture(title, inspection.num_layers, *marks(inspection))


def marks(inspection: Inspection) -> tuple[list[Mark], list[Mark]]:
    """Return the marks of the picture: slots that have a name, and what SGLang will capture.

    ``L`` is the last state; a star stands for the final norm.
    """
    named = {str(at): match for at, match in enumerate(inspection.slots)}
    if inspection.last is not None:
        named["L"] = inspection.last
    training = [
        Mark(match.best.k, f"{label}*" if match.best.normed else label, wording.say(match))
        for label, match in named.items()
        if match.fit is not Fit.NONE
    ]
    return training, [Mark(k, str(at)) for at, k in enumerate(inspection.captured or ())]


def _head(inspection: Inspection) -> Iterator[str]:
    dump = inspection.dump
    sampled = f"{len(inspection.picked)} of {number(len(dump.files), 'sample')}"
    yield f"dump    {dump.root} ({dump.layout}), {sampled}"
    if inspection.target_class:
        yield f"target  {inspection.target_class}, {inspection.num_layers} layers"


def _sentence(finding: Finding, style: Style) -> list[str]:
    label = str(finding.verdict)
    lines = _wrapped(f"{style.paint(style.mark(label), label)}  ", finding.text, style, 3)
    if finding.match is not None:
        lines += [f"   {wording.measured(finding.match)}"]
    return lines


def _wrapped(start: str, text: str, style: Style, indent: int | None = None) -> list[str]:
    margin = " " * (len(start) if indent is None else indent)
    first, *others = textwrap.wrap(text, style.width - len(margin)) or [""]
    return [start + first, *(margin + line for line in others)]


def _total(inspection: Inspection) -> str:
    counts = Counter(finding.verdict for finding in inspection.findings)
    return ", ".join(f"{counts[verdict]} {verdict}" for verdict in Verdict if counts[verdict])


def _finding(finding: Finding) -> dict[str, Any]:
    match = finding.match
    return {
        "slot": finding.slot.removeprefix("slot ") if finding.slot != LAST else "last",
        "verdict": str(finding.verdict),
        "troubles": [str(trouble) for trouble in finding.troubles],
        "text": finding.text,
        "samples": list(finding.samples),
        "captured": finding.captured,
        "match": match and {**match.as_json(), "margin": match.margin},
    }
