"""The manifest of a feature dump: ``eagle3-features.json``, written next to the dump by its tool.

It says which boundaries the states are, so that whoever serves the draft can check them without
computing anything. This module needs nothing but Python, and may be copied into a tool as it is:

    from eagle3_contracts.manifest import describe, write_manifest

    write_manifest(dump, describe(
        target_dir, tool="my-tool", version="1.0", layer_ids=[2, 30, 58], convention="output-of",
        dtype="bfloat16", last="final-norm",
    ))
"""

from __future__ import annotations

import hashlib
import json
import reprlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

FILE = "eagle3-features.json"
"""Name of the file, in the directory of the dump."""

SCHEMA = 1
"""Version of the format."""

SHIFTS = {"output-of": 1, "input-of": 0, "hf-index": 0}
"""What turns an id into a boundary, by convention.

Boundary k is the residual stream after k decoder layers: the output of layer i is boundary i + 1,
its input and entry i of transformers' ``hidden_states`` are boundary i.
"""

LAST = ("final-norm", "before-norm")
"""What the state after the last layer may be."""

DTYPES = ("float32", "float16", "bfloat16")
"""Dtypes that states are stored in."""

_TOKENIZER_FILES = (
    "tokenizer.json",
    "tokenizer.model",
    "tokenizer_config.json",
    "tiktoken.model",
    "vocab.json",
    "merges.txt",
)
_VOLATILE = ("_name_or_path", "transformers_version")
_TEXT_CONFIGS = ("text_config", "llm_config", "language_config")


class ManifestError(ValueError):
    """A manifest that cannot be read, or that nobody can mean; the text says why."""


@dataclass(frozen=True, slots=True)
class Manifest:
    """What a dump's tool says of its states; ManifestError for values that nobody can mean."""

    tool: str
    """Name of the tool that extracted the states."""
    version: str
    """Its version."""
    target: str
    """The target, as the tool was given it: a path or a name on a hub."""
    revision: str | None
    """Revision of the target on its hub; None: not known."""
    layer_ids: tuple[int, ...]
    """Ids as the tool was given them, in the order of the slots."""
    convention: str
    """How to read the ids: output-of, input-of or hf-index."""
    boundaries: tuple[int, ...]
    """Boundary of each slot."""
    last: str | None
    """The state after the last layer, stored beside the slots: LAST; None: it is not stored."""
    dtype: str
    """Dtype of the states: DTYPES."""
    num_layers: int
    """Decoder layers of the target."""
    hidden_size: int
    """Width of one state."""
    target_config_sha256: str
    """Of the target's config.json, as of :func:`hash_config`."""
    tokenizer_sha256: str | None
    """Of the target's tokenizer, as of :func:`hash_tokenizer`; None: it has no files."""

    def __post_init__(self) -> None:
        """Check the values one by one, and that ids, convention and boundaries agree."""
        said = next(_complaints(self), None)
        if said:
            raise ManifestError(said)


def describe(
    target: str | Path,
    *,
    tool: str,
    version: str,
    layer_ids: Sequence[int],
    convention: str,
    dtype: str,
    last: str | None = None,
    revision: str | None = None,
) -> Manifest:
    """Return the manifest of states that were extracted from the target in a directory.

    Depth, width and hashes are read from there. Raises ManifestError when they cannot be.
    """
    config = _read_object(Path(target, "config.json"))
    text = next((config[key] for key in _TEXT_CONFIGS if isinstance(config.get(key), dict)), config)
    if convention not in SHIFTS:
        raise ManifestError(_wrong("convention", convention, SHIFTS))
    try:
        return Manifest(
            tool=tool,
            version=version,
            target=str(target),
            revision=revision,
            layer_ids=tuple(layer_ids),
            convention=convention,
            boundaries=tuple(layer + SHIFTS[convention] for layer in layer_ids),
            last=last,
            dtype=dtype,
            num_layers=text["num_hidden_layers"],
            hidden_size=text["hidden_size"],
            target_config_sha256=hash_config(config),
            tokenizer_sha256=hash_tokenizer(Path(target)),
        )
    except KeyError as error:
        raise ManifestError(f"{target}: config.json lacks {error}") from None


def write_manifest(dump: str | Path, manifest: Manifest) -> Path:
    """Write the manifest into the directory of the dump; return its path."""
    path = Path(dump, FILE)
    path.write_text(json.dumps({"schema": SCHEMA, **asdict(manifest)}, indent=2) + "\n", "utf-8")
    return path


def read_manifest(dump: str | Path) -> Manifest | None:
    """Return the manifest of a dump, a directory or one file in it; None: there is none.

    Raises ManifestError for a file that is no manifest of this version.
    """
    folder = Path(dump) if _is(Path(dump).is_dir) else Path(dump).parent
    path = folder / FILE
    if not _is(path.is_file):
        return None
    data = _read_object(path)
    names = {field.name for field in fields(Manifest)}
    if data.pop("schema", None) != SCHEMA:
        raise ManifestError(f"{path}: schema must be {SCHEMA}")
    if wrong := sorted(names ^ data.keys()):
        raise ManifestError(f"{path}: {_lacking_or_unknown(wrong[0], names)}")
    tuples = {name: tuple(value) for name, value in data.items() if isinstance(value, list)}
    try:
        return Manifest(**{**data, **tuples})
    except ManifestError as error:
        raise ManifestError(f"{path}: {error}") from None


def hash_config(config: Mapping[str, Any]) -> str:
    """Return the SHA-256 of a config.json, whatever its layout and who saved it last."""
    kept = {key: value for key, value in config.items() if key not in _VOLATILE}
    return hashlib.sha256(json.dumps(kept, sort_keys=True).encode()).hexdigest()


def hash_tokenizer(target: Path) -> str | None:
    """Return the SHA-256 of the tokenizer's files in a directory; None: it has none."""
    digest, found = hashlib.sha256(), False
    for name in _TOKENIZER_FILES:
        if _is((target / name).is_file):
            digest.update(f"{name}\0".encode() + (target / name).read_bytes())
            found = True
    return digest.hexdigest() if found else None


def _is(kind: Callable[[], bool]) -> bool:
    try:
        return kind()
    except OSError:  # such as a name that is too long
        return False


def _read_object(path: Path) -> dict[str, Any]:
    try:
        data = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise ManifestError(f"{path}: cannot be read: {error}") from None
    if not isinstance(data, dict):
        raise ManifestError(f"{path}: must hold a JSON object")
    return data


def _complaints(manifest: Manifest) -> Iterator[str]:
    """Yield what is wrong, the simplest first."""
    yield from _wrong_texts(manifest)
    for name in ("num_layers", "hidden_size"):
        if type(getattr(manifest, name)) is not int or getattr(manifest, name) < 1:
            yield f"{name} must be a positive integer"
    for name, known in (("convention", tuple(SHIFTS)), ("dtype", DTYPES), ("last", (*LAST, None))):
        if getattr(manifest, name) not in known:
            yield _wrong(name, getattr(manifest, name), known)
    yield from _wrong_lists(manifest)


def _wrong_texts(manifest: Manifest) -> Iterator[str]:
    for name in ("tool", "version", "target", "target_config_sha256"):
        if not isinstance(getattr(manifest, name), str) or not getattr(manifest, name):
            yield f"{name} must be a text that is not empty"
    for name in ("revision", "tokenizer_sha256"):
        if not isinstance(getattr(manifest, name), str | None):
            yield f"{name} must be a text or null"


def _wrong_lists(manifest: Manifest) -> Iterator[str]:
    for name in ("layer_ids", "boundaries"):
        value = getattr(manifest, name)
        if not isinstance(value, tuple) or not value or {type(item) for item in value} != {int}:
            yield f"{name} must be a list of integers, got {reprlib.repr(value)}"
    meant = tuple(layer + SHIFTS[manifest.convention] for layer in manifest.layer_ids)
    if manifest.boundaries != meant:
        yield f"boundaries {_list(manifest.boundaries)} are not those of the ids, {_list(meant)}"
    if not all(0 <= k <= manifest.num_layers for k in meant):
        yield f"boundaries {_list(meant)} of a target of {manifest.num_layers} layers"


def _wrong(name: str, value: object, known: Any) -> str:
    names = ", ".join("null" if item is None else item for item in known)
    return f"{name} is {reprlib.repr(value)}; known are {names}"


def _list(numbers: tuple[int, ...]) -> str:
    return reprlib.repr(list(numbers))


def _lacking_or_unknown(name: str, known: set[str]) -> str:
    return f"lacks {name}" if name in known else f"unknown key {reprlib.repr(name)}"
