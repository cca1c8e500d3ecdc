"""Regressions: what fuzzing found, kept as subject files that are judged in every later run.

A file is a case of the corpus: it says what the checker must say of the subject. A right
integration must be clean up to the tier where it was not, a broken one must be refused.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from eagle3_contracts.catalogue import Entry
from eagle3_contracts.corpus import Judge, case_files
from eagle3_contracts.fuzz.example import Finding, Kind
from eagle3_contracts.fuzz.search import Broken
from eagle3_contracts.subject import ResolvedModel, ResolvedSubject


@dataclass(frozen=True, slots=True)
class Replayed:
    """One regression; ``text`` is why it still fails, empty where it is fixed."""

    file: Path
    text: str

    @property
    def is_fixed(self) -> bool:
        """Whether the checker says of the subject what it must."""
        return not self.text


def write(broken: Broken, seed: int, folder: Path) -> Path:
    """Write the example into ``folder`` and return the file; the same example, the same file."""
    subject = broken.example.subject()
    tree = {**_tree(subject), "expect": _expected(broken.finding)}
    digest = hashlib.sha256(repr(tree).encode()).hexdigest()[:8]
    tree["subject"] = f"{subject.name}-{broken.finding.kind}-{digest}"
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{tree['subject']}.yaml"
    text = yaml.safe_dump(tree, sort_keys=False, default_flow_style=None, width=110)
    file.write_text(_comment(broken, seed) + text)
    return file


def files_of(paths: Sequence[Path]) -> list[Path]:
    """Return the regressions in files and directories; SubjectError for a directory of none."""
    return [file for path in paths for file in (case_files(path) if path.is_dir() else [path])]


def replay(files: Iterable[Path], entries: Sequence[Entry]) -> Iterator[Replayed]:
    """Judge regressions, one by one; BadInput for a file that is none."""
    with closing(Judge(entries)) as judge:
        for file in files:
            judged = judge.judge(file)
            assert judged is not None
            missed = [f"nothing of the family {family} fails" for family in judged.missed]
            yield Replayed(file, "; ".join([*missed, *judged.alarms, *judged.broken]))


def _comment(broken: Broken, seed: int) -> str:
    finding = broken.finding
    said = " ".join(finding.message.split())[:300]
    lines = [f"{finding.kind}: {finding.contract or finding.family} at tier {finding.tier}", said]
    return "".join(f"# {line}\n" for line in (*lines, f"Seed {seed}, {broken.example}"))


def _expected(finding: Finding) -> dict[str, Any]:
    if finding.kind is Kind.HOLE:
        return {"tier": "load", "violates": [str(finding.family)]}
    if finding.kind is Kind.SILENCE:
        return {"tier": "model", "violates": [str(finding.family)]}
    return {"tier": str(finding.tier)}


def _tree(subject: ResolvedSubject) -> dict[str, Any]:
    tree: dict[str, Any] = {"subject": subject.name}
    for role in ("target", "draft"):
        model: ResolvedModel | None = getattr(subject, role)
        if model is not None:
            kept = {"config", "quant_config", "tensors", "values"}
            tree[role] = model.model_dump(mode="json", include=kept, exclude_defaults=True)
    for part in ("launch", "training"):
        if (value := getattr(subject, part)) is not None:
            tree[part] = value.model_dump(mode="json", exclude_defaults=True)
    return tree
