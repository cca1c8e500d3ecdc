"""Whatever a file holds, its reader gives a value or one clean error, in bounded time and memory.

Every property draws as many inputs as the profile says (``conftest.py``): a hundred each for every
change, two thousand each with ``--nightly``, which is 20,000 in all.
"""

from __future__ import annotations

import json
import resource
import signal
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import date
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from eagle3_contracts.catalogue import read_catalogue
from eagle3_contracts.checkpoint import INDEX
from eagle3_contracts.corpus import Judge
from eagle3_contracts.data import contracts_dir, fixtures_dir
from eagle3_contracts.errors import BadInput
from eagle3_contracts.facts import Tier
from eagle3_contracts.features.dump import Layout, open_dump
from eagle3_contracts.manifest import FILE, ManifestError, read_manifest
from eagle3_contracts.options import find_pyproject, parse_options, read_settings
from eagle3_contracts.plan import make_plan
from eagle3_contracts.resolve import load_subjects, subject_from_options
from eagle3_contracts.run import Checker
from eagle3_contracts.serving.features.samples import DamagedError, read_sample
from eagle3_contracts.verdict import Verdict
from eagle3_contracts.waiver import read_waivers
from feature_dumps import made_up, write_sample
from mutants import BAD_PLACES, bytes_of, json_of, put, safetensors_of, yaml_of
from weights import header_of, write_tensors

SECONDS = 5
"""Time that one input may take; on a free machine all but a few take milliseconds."""
MEMORY = 512 * 2**20
"""Bytes that one input may take beyond what the process has already."""
MAX_TEXT = 2_000
"""Characters of the longest message: more than a screen is no sentence."""

ENTRIES = read_catalogue()
IDS = frozenset(entry.contract.id for entry in ENTRIES)
"""The catalogue, against which whatever can be read is judged."""


class TooSlowError(Exception):
    """An input took longer than SECONDS."""


@contextmanager
def bounded() -> Iterator[None]:
    """End what takes too long, and refuse it more memory than MEMORY."""
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + MEMORY, hard))
    before = signal.signal(signal.SIGALRM, _too_slow)
    signal.setitimer(signal.ITIMER_REAL, SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def _too_slow(number: int, frame: object) -> None:
    raise TooSlowError


def outcome(read: Callable[[], Any], *clean: type[Exception]) -> Any:
    """Return what ``read`` returns, or None for one of the ``clean`` errors, a sentence each."""
    try:
        with bounded():
            return read()
    except clean as error:
        problems = error.problems if isinstance(error, BadInput) else (error,)
        assert problems
        for problem in problems:
            check_sentence(str(problem))
        return None


def check_sentence(text: str) -> None:
    """Demand one line that a terminal can show."""
    assert text.strip()
    assert len(text) <= MAX_TEXT, text[:200]
    assert text.isprintable(), ascii(text)


@contextmanager
def folder_of(files: Mapping[str, bytes | str]) -> Iterator[Path]:
    """Lay out files, each given by its bytes or as one of BAD_PLACES."""
    with tempfile.TemporaryDirectory() as name:
        for file, content in files.items():
            put(Path(name, file), content)
        yield Path(name)


def fixture(*parts: str) -> dict[str, Any]:
    """Return the tree of a YAML fixture."""
    tree: dict[str, Any] = yaml.safe_load(fixtures_dir().joinpath(*parts).read_text())
    return tree


def contract_file(name: str) -> dict[str, Any]:
    """Return the first two contracts of a built-in file, as a file."""
    tree = yaml.safe_load((contracts_dir() / name).read_text())
    return {**tree, "contracts": tree["contracts"][:2]}


PLACES = st.sampled_from(BAD_PLACES)
SUBJECT = fixture("subjects", "tiny-maps.yaml")
CASE = {**SUBJECT, "expect": {"tier": "static", "violates": ["width"], "warns": ["rope"]}}
WAIVERS: dict[str, Any] = {
    "version": 1,
    "sglang": "0.5.23",
    "waivers": [
        {
            "contract": min(IDS),
            "subject": "tiny-*",
            "reason": "known",
            "issue": "sgl-project/sglang#1",
            "owner": "someone",
            "expires": "2030-01-31",
        }
    ],
}
CONTRACTS = st.sampled_from(sorted(path.name for path in contracts_dir().glob("*.yaml"))).flatmap(
    lambda name: yaml_of(contract_file(name))
)


def renamed(architecture: str) -> bytes:
    """Return a subject file whose draft is of another class."""
    config = {**SUBJECT["draft"]["config"], "architectures": [architecture]}
    return json.dumps({**SUBJECT, "draft": {**SUBJECT["draft"], "config": config}}).encode()


def judge_static(subject: Any) -> None:
    """Judge the static contracts: no input may break a probe or a rule."""
    results = Checker(ENTRIES, tiers={Tier.STATIC}, today=date(2026, 1, 1)).check(subject)
    broken = [r for r in results if r.verdict is Verdict.HARNESS_ERROR]
    assert not broken, f"{broken[0].contract}: {broken[0].message}"
    for result in results:
        if result.message:
            check_sentence(result.message.replace("\n", " "))  # lines of a job's output


@example("pipe")  # opening one waits for a writer
@given(raw=CONTRACTS | PLACES)
def test_contract_files(raw: bytes | str) -> None:
    with folder_of({"contracts.yaml": raw}) as folder:
        outcome(lambda: read_catalogue([folder / "contracts.yaml"]), BadInput)


@example(json.dumps({**SUBJECT, "\0": 1}).encode())
@example(renamed("\ufeffLlamaForCausalLMEagle3"))
@given(raw=yaml_of(SUBJECT) | PLACES)
def test_subject_files(raw: bytes | str) -> None:
    def read() -> None:
        for subject in load_subjects([str(folder / "subject.yaml")]):
            judge_static(subject)

    with folder_of({"subject.yaml": raw}) as folder:
        outcome(read, BadInput)


@example(json.dumps({**WAIVERS, "a\x1b[31m": 1}).encode())
@example("pipe")
@given(raw=yaml_of(WAIVERS) | PLACES)
def test_waiver_files(raw: bytes | str) -> None:
    with folder_of({"waivers.yaml": raw}) as folder:
        outcome(lambda: read_waivers([folder / "waivers.yaml"], IDS, "0.5.23"), BadInput)


@given(raw=yaml_of(CASE) | PLACES)
def test_cases(raw: bytes | str) -> None:
    with folder_of({"case-bad.yaml": raw}) as folder:
        outcome(lambda: Judge(ENTRIES).judge(folder / "case-bad.yaml", {Tier.STATIC}), BadInput)


def judge_models(folder: Path) -> None:
    """Judge a target and a draft in directories of their own."""
    options = {role: str(folder / role) for role in ("target", "draft")}
    judge_static(subject_from_options(**options, launch=SUBJECT["launch"]["args"]))


QUANT = {"quantization": {"quant_algo": "FP8", "exclude_modules": ["lm_head"]}}


@given(
    target=json_of(SUBJECT["target"]["config"]) | PLACES,
    draft=json_of(SUBJECT["draft"]["config"]) | PLACES,
    quant=json_of(QUANT) | PLACES,
)
def test_model_configs(target: bytes | str, draft: bytes | str, quant: bytes | str) -> None:
    with folder_of({"target": "directory", "draft": "directory"}) as folder:
        put(folder / "target" / "config.json", target)
        put(folder / "target" / "hf_quant_config.json", quant)
        put(folder / "draft" / "config.json", draft)
        outcome(lambda: judge_models(folder), BadInput)


TENSORS = {
    "fc.weight": ("BF16", (4, 12)),
    "norm.weight": ("F32", (4,)),
    "d2t": ("I64", (4,)),
    "t2d": ("BOOL", (8,)),
}
HEADER = {"__metadata__": {"format": "pt"}, **header_of(TENSORS)}
DATA = bytes(max(entry["data_offsets"][1] for entry in header_of(TENSORS).values()))


@given(raw=safetensors_of(HEADER, DATA) | PLACES)
def test_safetensors_headers(raw: bytes | str) -> None:
    with folder_of({"config.json": b"{}", "model.safetensors": raw}) as folder:
        judge = lambda: judge_static(subject_from_options(None, str(folder), None))  # noqa: E731
        outcome(judge, BadInput)


SHARDS = {name: f"model-0000{1 + at % 2}-of-00002.safetensors" for at, name in enumerate(TENSORS)}


@given(
    index=json_of({"metadata": {"total_size": 1}, "weight_map": SHARDS}) | PLACES,
    second=safetensors_of(header_of({"norm.weight": ("F32", (4,))}), bytes(16)) | PLACES,
)
def test_shard_indexes(index: bytes | str, second: bytes | str) -> None:
    with folder_of({"config.json": b"{}", INDEX: index}) as folder:
        first, other = sorted(set(SHARDS.values()))
        write_tensors(folder / first, {"fc.weight": TENSORS["fc.weight"]})
        put(folder / other, second)
        outcome(lambda: judge_static(subject_from_options(None, str(folder), None)), BadInput)


def sample_files() -> dict[str, bytes]:
    """Return a right sample of each layout, by name of its file."""
    with tempfile.TemporaryDirectory() as name:
        paths = [write_sample(Path(name, layout), layout, 0, *made_up()) for layout in Layout]
        packed = write_sample(Path(name, "packed"), Layout.SPECFORGE, 0, *made_up(), packed=True)
        return {path.name: path.read_bytes() for path in (*paths, packed)}


def damaged(file: tuple[str, bytes]) -> st.SearchStrategy[tuple[str, bytes]]:
    """Return the name of a sample, and its bytes gone wrong."""
    name, raw = file
    if name.endswith(".safetensors"):
        length = 8 + int.from_bytes(raw[:8], "little")
        header = json.loads(raw[8:length])
        return st.tuples(st.just(name), safetensors_of(header, raw[length:]) | bytes_of(raw))
    return st.tuples(st.just(name), bytes_of(raw))


@example(("data_0.ckpt", sample_files()["data_0.ckpt"].replace(b"torch\nL", b"\0orch\nL")))
@given(file=st.sampled_from(sorted(sample_files().items())).flatmap(damaged))
def test_feature_samples(file: tuple[str, bytes]) -> None:
    def read() -> None:
        dump = open_dump(folder)
        for sample in dump.files:
            read_sample(sample, dump.layout)

    with folder_of(dict([file])) as folder:
        outcome(read, BadInput, DamagedError)


MANIFEST = {
    "schema": 1,
    "tool": "extractor",
    "version": "1.0",
    "target": "some/target",
    "revision": None,
    "layer_ids": [1, 3],
    "convention": "output-of",
    "boundaries": [2, 4],
    "last": "final-norm",
    "dtype": "bfloat16",
    "num_layers": 8,
    "hidden_size": 16,
    "target_config_sha256": "0" * 64,
    "tokenizer_sha256": None,
}


@example(json.dumps({**MANIFEST, "convention": {}}).encode())
@example(json.dumps({**MANIFEST, "\0": 1}).encode())
@example(json.dumps({**MANIFEST, "9" * 5000: 1}).encode())
@given(raw=json_of(MANIFEST) | PLACES)
def test_feature_manifests(raw: bytes | str) -> None:
    with folder_of({FILE: raw}) as folder:
        outcome(lambda: read_manifest(folder), ManifestError)


SETTINGS = (
    b'[tool.eagle3_contracts]\nsubject = ["a", "b"]\ntier = "static,load"\ntimeout = 60\n'
    b'weights = true\nreport = "json=x.json"\n'
)


@example(SETTINGS.replace(b"x.json", b"x" * 300))  # longer than the name of a file may be
@example(SETTINGS.replace(b'"a"', b'"' + b"a" * 300 + b'"'))
@given(raw=bytes_of(SETTINGS) | PLACES)
def test_settings(raw: bytes | str) -> None:
    with folder_of({"pyproject.toml": raw}) as folder:
        read = lambda: parse_options({}, read_settings(find_pyproject(folder)))  # noqa: E731
        outcome(read, BadInput)


@pytest.mark.parametrize("name", ["x" * 300, "\0", "no-such-subject"])
def test_a_subject_that_is_no_path(name: str) -> None:
    with pytest.raises(BadInput) as caught:
        make_plan(parse_options({"subject": [name]}))
    check_sentence(str(caught.value))


def test_a_dump_whose_name_is_too_long() -> None:
    with pytest.raises(BadInput):
        open_dump(Path("x" * 300))
    assert read_manifest("x" * 300) is None
