"""The manifest of a feature dump: written, read, and refused when nobody can mean it."""

from __future__ import annotations

import ast
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from eagle3_contracts import manifest
from eagle3_contracts.manifest import (
    ManifestError,
    describe,
    hash_config,
    read_manifest,
    write_manifest,
)

CONFIG = {
    "architectures": ["KimiK25ForConditionalGeneration"],
    "text_config": {"num_hidden_layers": 61, "hidden_size": 7168},
}


def make_target(folder: Path, **config: Any) -> Path:
    """Write a target's config.json and tokenizer."""
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps({**CONFIG, **config}))
    (folder / "tokenizer.json").write_text("{}")
    return folder


def make_manifest(target: Path, **changes: Any) -> manifest.Manifest:
    """Describe a dump of three slots."""
    said = {
        "tool": "extractor",
        "version": "1.0",
        "layer_ids": [1, 29, 57],
        "convention": "output-of",
        "dtype": "bfloat16",
        "last": "final-norm",
        "revision": "abc",
    }
    return describe(target, **{**said, **changes})


def test_what_is_written_is_read(tmp_path: Path) -> None:
    target = make_target(tmp_path / "target")
    written = make_manifest(target)
    path = write_manifest(tmp_path, written)
    assert path.name == "eagle3-features.json"
    assert read_manifest(tmp_path) == written
    assert read_manifest(path) == written
    assert (written.boundaries, written.num_layers, written.hidden_size) == ((2, 30, 58), 61, 7168)


@pytest.mark.parametrize(
    ("convention", "boundaries"),
    [("output-of", (2, 30, 58)), ("input-of", (1, 29, 57)), ("hf-index", (1, 29, 57))],
)
def test_the_convention_gives_the_boundaries(
    tmp_path: Path, convention: str, boundaries: tuple[int, ...]
) -> None:
    said = make_manifest(make_target(tmp_path / "target"), convention=convention)
    assert said.boundaries == boundaries


def test_a_dump_without_a_manifest_has_none(tmp_path: Path) -> None:
    assert read_manifest(tmp_path) is None


def test_the_hashes_tell_targets_apart(tmp_path: Path) -> None:
    one, two = make_target(tmp_path / "one"), make_target(tmp_path / "two", rope_theta=1)
    (two / "tokenizer.json").write_text('{"added": 1}')
    first, second = make_manifest(one), make_manifest(two)
    assert first.target_config_sha256 != second.target_config_sha256
    assert first.tokenizer_sha256 != second.tokenizer_sha256
    (two / "tokenizer.json").unlink()
    assert make_manifest(two).tokenizer_sha256 is None


def test_saving_a_config_again_does_not_change_its_hash() -> None:
    again = {**dict(reversed(CONFIG.items())), "transformers_version": "9", "_name_or_path": "x"}
    assert hash_config(again) == hash_config(CONFIG)


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"convention": "hf"}, "convention is 'hf'; known are output-of"),
        ({"dtype": "int8"}, "dtype is 'int8'"),
        ({"last": "normed"}, "last is 'normed'; known are final-norm, before-norm, null"),
        ({"layer_ids": []}, "layer_ids must be a list of integers"),
        ({"layer_ids": [1.5]}, "layer_ids must be a list of integers"),
        ({"layer_ids": [61]}, r"boundaries \[62\] of a target of 61 layers"),
        ({"tool": ""}, "tool must be a text"),
        ({"revision": 3}, "revision must be a text or null"),
    ],
)
def test_what_nobody_can_mean_is_not_described(
    tmp_path: Path, changes: dict[str, Any], text: str
) -> None:
    target = make_target(tmp_path / "target")
    with pytest.raises(ManifestError, match=text):
        make_manifest(target, **changes)


def edited(data: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """Return ``data`` with entries replaced, or taken away by None."""
    return {key: value for key, value in {**data, **changes}.items() if value is not None}


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"schema": 2}, "schema must be 1"),
        ({"tool": None}, "lacks tool"),
        ({"extra": 1}, "unknown key 'extra'"),
        ({"boundaries": [1, 29, 57]}, "are not those of the ids"),
        ({"boundaries": "many"}, "boundaries must be a list"),
        ({"num_layers": 0}, "num_layers must be a positive integer"),
    ],
)
def test_a_wrong_file_is_refused(tmp_path: Path, changes: dict[str, Any], text: str) -> None:
    path = write_manifest(tmp_path, make_manifest(make_target(tmp_path / "target")))
    path.write_text(json.dumps(edited(json.loads(path.read_text()), **changes)))
    with pytest.raises(ManifestError, match=text):
        read_manifest(tmp_path)


@pytest.mark.parametrize("text", ["", "[]", "{", "[" * 100_000, "\udcff"])
def test_what_is_no_object_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / manifest.FILE).write_text(text, "utf-8", "surrogateescape")
    with pytest.raises(ManifestError, match=r"cannot be read|JSON object"):
        read_manifest(tmp_path)


def test_a_target_without_a_depth_is_refused(tmp_path: Path) -> None:
    target = make_target(tmp_path / "target", text_config={"hidden_size": 8})
    with pytest.raises(ManifestError, match=r"config\.json lacks 'num_hidden_layers'"):
        make_manifest(target)


def test_the_writer_needs_nothing_but_python() -> None:
    tree = ast.parse(Path(manifest.__file__).read_text())
    names = {
        name.partition(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in (
            [node.module or ""]
            if isinstance(node, ast.ImportFrom)
            else [alias.name for alias in node.names]
        )
    }
    assert names <= set(sys.stdlib_module_names)
