"""Other releases of SGLang: which are run, and what one says of a class that it does not have."""

from __future__ import annotations

import configparser
import json
import os
import re
import subprocess
import sys
import tomllib
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import yaml

from eagle3_contracts.serving.sglang.registry import WRITTEN_FOR

ROOT = Path(__file__).parents[1]


def test_the_pin_is_the_release_that_the_project_is_written_for() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["optional-dependencies"]["sglang"] == [f"sglang=={WRITTEN_FOR}"]
    assert (ROOT / "fixtures" / "waivers" / f"sglang-{WRITTEN_FOR}.yaml").is_file()


def test_each_environment_has_the_release_of_its_name() -> None:
    tox = configparser.ConfigParser(interpolation=None)
    tox.read(ROOT / "tox.ini")
    (section,) = (name for name in tox.sections() if "contracts-sglang{" in name)
    names = re.findall(r"\d{4}", section)
    pinned = re.findall(r"sglang(\d{4}): sglang==([\d.]+)", tox[section]["deps"])
    assert [name for name, _ in pinned] == names == ["0516", "0518", "0521"]
    assert [release.replace(".", "").zfill(4) for _, release in pinned] == names


def _check(folder: Path, *path: Path) -> subprocess.CompletedProcess[str]:
    """Judge a subject whose target no release has, with directories in front of the packages."""
    subject: dict[str, Any] = {
        "subject": "later",
        "target": {"config": {"architectures": ["LaterForCausalLM"], "hidden_size": 16}},
        "draft": {"config": {"architectures": ["LlamaForCausalLMEagle3"], "hidden_size": 16}},
    }
    (folder / "later.yaml").write_text(yaml.safe_dump(subject))
    before = [*map(str, path), *filter(None, [os.environ.get("PYTHONPATH")])]
    words = ["check", "later.yaml", "--contract", "CAPTURE-HOOK", "--format", "json"]
    return subprocess.run(
        [sys.executable, "-m", "eagle3_contracts.cli", *words],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(before)},
        capture_output=True,
        text=True,
        timeout=60,
    )


needs_sglang = pytest.mark.skipif(find_spec("sglang") is None, reason="SGLang is not installed")


@needs_sglang
def test_a_class_that_the_release_written_for_lacks_is_a_mistake_of_the_subject(
    tmp_path: Path,
) -> None:
    done = _check(tmp_path)
    assert done.returncode == 2
    assert "target.config: unknown architecture 'LaterForCausalLM'" in done.stderr


@needs_sglang
def test_a_class_that_an_earlier_release_lacks_is_a_gap_with_its_reason(tmp_path: Path) -> None:
    earlier = tmp_path / "packages" / "sglang-0.5.16.dist-info"
    earlier.mkdir(parents=True)
    (earlier / "METADATA").write_text("Metadata-Version: 2.1\nName: sglang\nVersion: 0.5.16\n")
    done = _check(tmp_path, earlier.parent)
    assert done.returncode == 3
    verdicts = json.loads(done.stdout)["verdicts"]
    found = next(v for v in verdicts if v["contract"] == "CAPTURE-HOOK")
    assert found["verdict"] == "not-testable"
    said = "SGLang 0.5.16 has no class for the target's architecture LaterForCausalLM"
    assert found["message"].startswith(said)
