"""The JSON report, and results as JSON objects."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from eagle3_contracts.report.outcome import Outcome
from eagle3_contracts.verdict import Result, Verdict

SCHEMA = 1
"""Version of the document's form."""


def render(outcome: Outcome) -> str:
    """Return the document as text."""
    return json.dumps(document(outcome), indent=2, allow_nan=False) + "\n"


def document(outcome: Outcome) -> dict[str, Any]:
    """Return the outcome as one JSON object."""
    return {
        "schema": SCHEMA,
        "environment": dict(outcome.environment),
        "verdicts": [as_json(result) for result in outcome.results],
        "summary": {
            "contracts": len(outcome.contracts),
            "subjects": len(outcome.subjects),
            "verdicts": outcome.counts,
            "unmatched_waivers": list(outcome.unmatched),
            "exit_code": outcome.exit_code,
        },
    }


def as_json(result: Result) -> dict[str, Any]:
    """Return the result as a JSON object; numbers that JSON lacks become the texts inf and nan."""
    plain: dict[str, Any] = _finite(asdict(result))
    return {**plain, "seconds": round(result.seconds, 6)}


def result_from_json(data: Mapping[str, Any]) -> Result:
    """Return the result that `as_json` turned into ``data``."""
    typed = {"verdict": Verdict(data["verdict"]), "refs": tuple(data["refs"])}
    return Result(**{**data, **typed})


def _finite(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, str):
        return str(value)  # enums and other strings of a kind of their own
    if isinstance(value, Mapping):
        return {str(key): _finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    return value
