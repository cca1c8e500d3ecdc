"""Hundreds of faulty dumps, each fault named as what it is; and none found in clean dumps.

The states are those of a real Llama, the files real files, read by the real readers. That SGLang's
own class computes the same candidates is shown by tests/test_feature_jobs.py, and by the nightly
test here for all faults.
"""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Iterable
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from dump_faults import CAPTURED, DTYPES, FAULTS, Draft, clean, drawn, states, target, write
from eagle3_contracts import probes
from eagle3_contracts.extraction import Inspection, judge
from eagle3_contracts.facts import CaptureFacts
from eagle3_contracts.features.dump import Damage, Dump, Layout, open_dump
from eagle3_contracts.features.identify import TOLERANCE, Candidates, identify
from eagle3_contracts.features.match import Candidate
from eagle3_contracts.probes import Request, features
from eagle3_contracts.probes.features import Identified
from eagle3_contracts.resolve import subject_from_options
from eagle3_contracts.serving.features.samples import DamagedError, read_sample
from eagle3_contracts.verdict import Verdict
from tiny_llama import HIDDEN, LAYERS, normed, save_llama

KINDS = list(itertools.product(Layout, DTYPES))

CAPTURE = CaptureFacts(
    target_class="LlamaForCausalLM",
    ids=[k - 1 for k in CAPTURED],
    refusal=None,
    enabled=True,
    inner_flag=True,
    inner_layers=list(CAPTURED),
    count=3,
    width=3 * HIDDEN,
    hidden_size=HIDDEN,
    num_layers=LAYERS,
    boundaries=list(CAPTURED),
    error=0.0,
    runner_up=0.1,
    exact=True,
    reference=None,
    reference_error=0.0,
    agrees=True,
    decode_boundaries=list(CAPTURED),
    decode_exact=True,
)
"""What SGLang captures of this Llama; tests/test_features_command.py asks it."""


@cache
def candidates(text: int) -> Candidates:
    """Return all boundaries of a text, as they are and after the final norm."""
    plain = {Candidate(k): state.numpy() for k, state in enumerate(states(text))}
    after = {Candidate(k, True): normed(target(), s).numpy() for k, s in enumerate(states(text))}
    return {**plain, **after}


def found_in(file: Path, layout: Layout, text: int) -> Identified:
    """Read and identify one sample, with the states that transformers computed."""
    try:
        sample = read_sample(file, layout)
    except DamagedError as error:
        damage = Damage(file.name, error.kind, str(error))
        return Identified("", LAYERS, {}, (damage,))
    tolerance = max(TOLERANCE[sample.dtype], TOLERANCE["float32"])
    assert sample.last is not None
    *slots, last = (
        identify(np.asarray(state.float().numpy()), candidates(text), tolerance)
        for state in (*sample.states.unbind(1), sample.last)
    )
    return Identified("LlamaForCausalLM", LAYERS, {file.name: (tuple(slots), last)}, ())


def said_of(found: Identified, dump: Dump) -> Inspection:
    return judge(dump, tuple(found.samples), found, CAPTURE)


def troubles(inspection: Inspection) -> dict[str, set[str]]:
    """Return what is wrong, by slot, without the slots that are right."""
    return {f.slot: set(f.troubles) for f in inspection.findings if f.verdict is not Verdict.PASS}


def is_named(draft: Draft, inspection: Inspection) -> bool:
    """Return whether all that is wrong was said, and nothing else."""
    named = [match.best.k for match in inspection.slots] or draft.boundaries
    return troubles(inspection) == draft.expected and named == draft.boundaries


def confusion(judged: Iterable[tuple[Draft, Inspection]]) -> Counter[tuple[str, bool]]:
    """Count the samples by fault, and by whether what was said of them is right."""
    return Counter((draft.fault, is_named(draft, inspection)) for draft, inspection in judged)


def judged_here(drafts: Iterable[Draft], root: Path) -> Iterable[tuple[Draft, Inspection]]:
    for number, (draft, (layout, dtype)) in enumerate(
        zip(drafts, itertools.cycle(KINDS), strict=False)
    ):
        file = write(draft, root / str(number), layout, dtype)
        yield draft, said_of(found_in(file, layout, draft.text), open_dump(file.parent))


def test_two_hundred_faults_are_all_named_right(tmp_path: Path) -> None:
    counts = confusion(judged_here(drawn(204, seed=0), tmp_path))
    assert counts == {(name, True): 17 for name in FAULTS}


def test_nothing_is_found_in_clean_dumps(tmp_path: Path) -> None:
    rng = random.Random(0)
    drafts = [clean(rng) for _ in range(99)]
    for draft, inspection in judged_here(drafts, tmp_path):
        assert troubles(inspection) == {}
        assert inspection.exit_code == 0
        assert [match.best.k for match in inspection.slots] == draft.boundaries


@pytest.mark.nightly
def test_sglang_names_them_all_as_well(tmp_path: Path) -> None:
    save_llama(tmp_path / "target")
    drafts = dict(enumerate(drawn(204, seed=1)))
    for number, draft in drafts.items():
        layout, dtype = KINDS[number % len(KINDS)]
        write(draft, tmp_path / layout / str(number), layout, dtype)
    judged = [pair for layout in Layout for pair in judged_by_sglang(drafts, tmp_path, layout)]
    probes.close()
    assert confusion(judged) == {(name, True): 17 for name in FAULTS}


def judged_by_sglang(
    drafts: dict[int, Draft], root: Path, layout: Layout
) -> Iterable[tuple[Draft, Inspection]]:
    """Identify all samples of a layout in one job, and judge each of them alone."""
    dump = open_dump(root / layout)
    subject = subject_from_options(str(root / "target"), None, None)
    found = features.identify(dump, dump.files, subject, 128, Request())
    assert isinstance(found, Identified)
    for name in map(dump.name, dump.files):
        samples = {n: slots for n, slots in found.samples.items() if n == name}
        damaged = tuple(damage for damage in found.damaged if damage.sample == name)
        alone = Identified(found.target_class, found.num_layers, samples, damaged)
        yield drafts[int(name.partition("/")[0])], said_of(alone, dump)
