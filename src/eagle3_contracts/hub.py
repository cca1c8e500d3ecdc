"""Models on the Hugging Face hub: their configs and the headers of their weights, never weights.

Needs the optional package huggingface_hub, which is imported only for a source that is no local
directory. Its settings apply: HF_HUB_OFFLINE, HF_ENDPOINT, HF_TOKEN, HF_HOME.
"""

from __future__ import annotations

import re
from collections import ChainMap
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

from eagle3_contracts.checkpoint import (
    INDEX,
    has_safetensors,
    make_tensor,
    read_checkpoint,
    read_index,
)
from eagle3_contracts.errors import Problem, SubjectError
from eagle3_contracts.files import read_object
from eagle3_contracts.subject import ResolvedModel, Tensor

SINGLE = "model.safetensors"
"""The one file of weights of a repository without an index."""
CONNECTIONS = 8
"""Headers that are asked for at the same time; the client's own number."""
Headers = Mapping[str, Mapping[str, Tensor] | None]
"""Tensors by name of the file; None for a file that is not there."""

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,95}/[A-Za-z0-9][A-Za-z0-9._-]{0,95}")


def is_hub_id(source: str) -> bool:
    """Return whether ``source`` has the form of a hub id, ``owner/name``."""
    return _ID.fullmatch(source) is not None


def read_hub(repo: str, weights: bool) -> ResolvedModel:
    """Return the configs of ``repo`` and, with ``weights``, the headers of its safetensors files.

    Tensors are not read by value. Offline, the headers are those of the local cache if it holds the
    whole checkpoint. Raises SubjectError when the repository cannot be read, or when
    huggingface_hub is not installed, and CheckpointError for a header that makes no sense.
    """
    api = _api(repo)
    config = _download(api, repo, "config.json")
    if config is None:
        raise _error(repo, "the repository has no config.json; is this a model?")
    quant_config = _download(api, repo, "hf_quant_config.json")
    model = ResolvedModel(
        config=read_object(config, SubjectError),
        quant_config=read_object(quant_config, SubjectError) if quant_config else None,
    )
    return model.model_copy(update=_weights(api, repo, config.parent)) if weights else model


def _api(repo: str) -> Any:
    try:
        from huggingface_hub import HfApi
    except ImportError:
        text = "is no directory here, and reading it from the hub needs huggingface_hub; "
        raise _error(repo, f"{text}pip install 'eagle3-contracts[hub]'") from None
    return HfApi()


def _download(api: Any, repo: str, name: str) -> Path | None:
    from huggingface_hub.errors import EntryNotFoundError, LocalEntryNotFoundError

    is_optional = name != "config.json"
    try:
        return Path(api.hf_hub_download(repo, name))
    except EntryNotFoundError as caught:
        # Raised both for a file that is not there and for a hub that cannot be reached.
        if is_optional or not isinstance(caught, LocalEntryNotFoundError):
            return None
        raise _unreadable(repo, caught) from None
    except Exception as caught:  # the client lets the errors of its HTTP library through
        raise _unreadable(repo, caught) from None


def _weights(api: Any, repo: str, snapshot: Path) -> dict[str, Any]:
    from huggingface_hub import constants

    if constants.HF_HUB_OFFLINE:
        return _cached(snapshot)
    index = _download(api, repo, INDEX)
    places = read_index(index) if index else {}
    files = sorted(set(places.values())) or [SINGLE]
    with ThreadPoolExecutor(CONNECTIONS) as pool:
        headers = dict(zip(files, pool.map(partial(_header, api, repo), files), strict=True))
    if not places and headers[SINGLE] is None:
        return {}
    return {
        "tensors": dict(ChainMap(*filter(None, headers.values()))),
        "missing_shards": tuple(file for file, tensors in headers.items() if tensors is None),
        "missing_tensors": _missing(headers, places),
    }


def _header(api: Any, repo: str, file: str) -> dict[str, Tensor] | None:
    from huggingface_hub.errors import EntryNotFoundError

    source = f"{repo}/{file}"
    try:
        tensors = api.parse_safetensors_file_metadata(repo, file).tensors
    except EntryNotFoundError:
        return None
    except Exception as caught:  # the client lets the errors of its HTTP library through
        raise _error(source, f"the hub does not give it ({_reason(caught)})") from None
    return {name: make_tensor(name, t.dtype, t.shape, source) for name, t in tensors.items()}


def _missing(headers: Headers, places: Mapping[str, str]) -> tuple[str, ...]:
    read = {file: tensors for file, tensors in headers.items() if tensors is not None}
    return tuple(sorted(n for n, file in places.items() if file in read and n not in read[file]))


def _cached(snapshot: Path) -> dict[str, Any]:
    checkpoint = read_checkpoint(snapshot) if has_safetensors(snapshot) else None
    if checkpoint is None or checkpoint.missing_shards:
        return {}
    return {"tensors": checkpoint.tensors, "missing_tensors": checkpoint.missing_tensors}


def _unreadable(repo: str, caught: Exception) -> SubjectError:
    text = f"is no directory here, and the hub does not give it ({_reason(caught)})"
    return _error(repo, text)


def _reason(caught: Exception) -> str:
    lines = str(caught).strip().splitlines()
    return f"{type(caught).__name__}: {lines[0]}" if lines else type(caught).__name__


def _error(repo: str, text: str) -> SubjectError:
    return SubjectError(Problem(repo, text))
