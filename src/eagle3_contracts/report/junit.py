"""The JUnit XML report: a suite for each subject, a case for each contract."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Sequence

from eagle3_contracts.report.failure import failure_text
from eagle3_contracts.report.outcome import Outcome, label
from eagle3_contracts.verdict import Result, Verdict

_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_SKIPPED = (Verdict.NOT_APPLICABLE, Verdict.WAIVED, Verdict.BLOCKED)


def render(outcome: Outcome) -> str:
    """Return the report as XML."""
    root = ET.Element("testsuites", name="eagle3-contracts")
    for subject in outcome.subjects:
        _add_suite(root, subject, [r for r in outcome.results if r.subject == subject])
    if outcome.unmatched:
        suite = ET.SubElement(root, "testsuite", name="waivers")
        for text in outcome.unmatched:
            case = ET.SubElement(suite, "testcase", classname="waivers", name=_clean(text))
            ET.SubElement(case, "failure", message="unmatched waiver").text = _clean(text)
    ET.indent(root)
    return ET.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def properties(result: Result) -> list[tuple[str, str]]:
    """Return what a test case says about itself: contract, family, tier, severity, verdict."""
    names = ("contract", "family", "tier", "severity", "verdict")
    return [(name, str(getattr(result, name))) for name in names]


def _add_suite(root: ET.Element, subject: str, results: Sequence[Result]) -> None:
    kinds = [_kind(result) for result in results]
    suite = ET.SubElement(
        root,
        "testsuite",
        name=subject,
        tests=str(len(results)),
        failures=str(kinds.count("failure")),
        errors=str(kinds.count("error")),
        skipped=str(kinds.count("skipped")),
        time=f"{sum(result.seconds for result in results):.3f}",
    )
    for result, kind in zip(results, kinds, strict=True):
        _add_case(suite, result, kind)


def _add_case(suite: ET.Element, result: Result, kind: str) -> None:
    case = ET.SubElement(
        suite,
        "testcase",
        classname=f"eagle3_contracts.{result.subject}",
        name=result.contract,
        time=f"{result.seconds:.3f}",
    )
    listed = ET.SubElement(case, "properties")
    for name, value in properties(result):
        ET.SubElement(listed, "property", name=name, value=value)
    if kind in ("failure", "error"):
        said = ET.SubElement(case, kind, type=label(result), message=_clean(result.message))
        said.text = _clean(failure_text([result]))
    elif kind == "skipped":
        reason = result.waiver or result.message
        ET.SubElement(case, "skipped", type=label(result), message=_clean(reason))
    elif result.verdict is not Verdict.PASS:
        ET.SubElement(case, "system-out").text = _clean(failure_text([result]))


def _kind(result: Result) -> str:
    if result.verdict in _SKIPPED:
        return "skipped"
    if not result.is_failure:
        return ""
    return "error" if result.verdict is Verdict.HARNESS_ERROR else "failure"


def _clean(text: str) -> str:
    return _NOT_XML.sub(lambda found: f"\\x{ord(found[0]):02x}", text)
