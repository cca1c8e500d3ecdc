"""Models on the hub, read by the real client from a server on this machine."""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
from huggingface_hub import constants

from eagle3_contracts.errors import CheckpointError, SubjectError
from eagle3_contracts.resolve import subject_from_options
from eagle3_contracts.subject import ResolvedModel, Tensor
from weights import write_raw, write_shards, write_tensors

FC = {"fc.weight": ("BF16", (8, 24))}
FC_TENSOR = Tensor(dtype="BF16", shape=(8, 24))


class _Hub(BaseHTTPRequestHandler):
    """Serves the files of one directory as the repository ``owner/name``."""

    directory: Path

    def do_HEAD(self) -> None:
        self._answer(with_body=False)

    def do_GET(self) -> None:
        self._answer(with_body=True)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""

    def _answer(self, with_body: bool) -> None:
        repo, _, name = self.path.strip("/").partition("/resolve/main/")
        path = self.directory / name
        found = repo == "owner/name" and path.is_file()
        body = path.read_bytes() if found else b""
        self.send_response(200 if found else 404)
        if not found:
            self.send_header("X-Error-Code", "EntryNotFound" if name else "RepoNotFound")
        self.send_header("X-Repo-Commit", "a" * 40)
        self.send_header("ETag", f'"{hashlib.sha1(body).hexdigest()}"')
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if with_body:
            self.wfile.write(body)


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Return the directory whose files are ``owner/name`` on the hub during the test."""
    directory = tmp_path / "served"
    directory.mkdir()
    (directory / "config.json").write_text('{"hidden_size": 8}')
    handler = type("Handler", (_Hub,), {"directory": directory})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    # The client reads its settings when it is imported, so the variables would come too late.
    url = f"http://127.0.0.1:{server.server_port}"
    template = f"{url}/{{repo_id}}/resolve/{{revision}}/{{filename}}"
    monkeypatch.setattr(constants, "ENDPOINT", url)
    monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    yield directory
    server.shutdown()
    server.server_close()


def _draft(source: str = "owner/name") -> ResolvedModel:
    draft = subject_from_options(target=None, draft=source, launch=None).draft
    assert draft is not None
    return draft


def test_configs_and_headers_are_read_from_the_hub(repository: Path) -> None:
    (repository / "hf_quant_config.json").write_text('{"quantization": {}}')
    write_tensors(repository / "model.safetensors", FC)
    assert _draft() == ResolvedModel(
        config={"hidden_size": 8},
        quant_config={"quantization": {}},
        tensors={"fc.weight": FC_TENSOR},
    )


def test_a_shard_that_the_hub_lacks_is_a_verdict_not_an_error(repository: Path) -> None:
    write_shards(repository, {"a.safetensors": FC, "b.safetensors": {"norm": ("F32", (8,))}})
    (repository / "b.safetensors").unlink()
    assert _draft() == ResolvedModel(
        config={"hidden_size": 8},
        tensors={"fc.weight": FC_TENSOR},
        missing_shards=("b.safetensors",),
    )


def test_a_repository_without_safetensors_has_no_known_tensors(repository: Path) -> None:
    (repository / "pytorch_model.bin").write_bytes(b"PK")
    assert _draft() == ResolvedModel(config={"hidden_size": 8})


def test_a_repository_without_a_config_is_no_model(repository: Path) -> None:
    (repository / "config.json").unlink()
    with pytest.raises(SubjectError) as caught:
        _draft()
    assert str(caught.value) == ("owner/name: the repository has no config.json; is this a model?")


def test_a_header_that_makes_no_sense_names_file_and_tensor(repository: Path) -> None:
    entry = {"dtype": "BF16", "shape": [-8], "data_offsets": [0, 0]}
    write_raw(repository / "model.safetensors", json.dumps({"fc.weight": entry}).encode())
    with pytest.raises(CheckpointError) as caught:
        _draft()
    assert str(caught.value) == (
        "owner/name/model.safetensors: tensor 'fc.weight' has the shape [-8]; an array of at most "
        "64 integers from 0 to 281474976710656 is needed"
    )


def test_a_header_that_is_no_header_is_a_problem_of_the_subject(repository: Path) -> None:
    write_raw(repository / "model.safetensors", b"{")
    with pytest.raises(SubjectError) as caught:
        _draft()
    assert str(caught.value).startswith(
        "owner/name/model.safetensors: the hub does not give it (SafetensorsParsingError: "
    )


@pytest.mark.usefixtures("repository")
def test_offline_the_headers_come_from_the_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    config = _draft("owner/name").config
    snapshot = Path(constants.HF_HUB_CACHE, "models--owner--name", "snapshots", "a" * 40)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    assert _draft() == ResolvedModel(config=config)
    write_tensors(snapshot / "model.safetensors", FC)
    assert _draft() == ResolvedModel(config=config, tensors={"fc.weight": FC_TENSOR})


@pytest.mark.usefixtures("repository")
def test_offline_a_repository_outside_the_cache_is_a_problem_of_the_subject(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(SubjectError) as caught:
        _draft("other/draft")
    assert str(caught.value).startswith(
        "other/draft: is no directory here, and the hub does not give it (LocalEntryNotFoundError: "
    )


def test_a_hub_id_without_the_hub_package_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(SubjectError) as caught:
        _draft()
    assert str(caught.value) == (
        "owner/name: is no directory here, and reading it from the hub needs huggingface_hub; "
        "pip install 'eagle3-contracts[hub]'"
    )


def test_a_local_directory_of_the_form_of_a_hub_id_stays_local(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    monkeypatch.chdir(tmp_path)
    Path("owner/name").mkdir(parents=True)
    Path("owner/name/config.json").write_text("{}")
    assert _draft().path == Path("owner/name")
