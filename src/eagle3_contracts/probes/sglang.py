"""The process in which SGLang runs, shared by the load and the model probe."""

from __future__ import annotations

import atexit
import json
import os
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.metadata import version
from importlib.util import find_spec
from typing import Any

from eagle3_contracts.errors import Problem, SubjectError, did_you_mean
from eagle3_contracts.facts import Gap, GapKind
from eagle3_contracts.flags import parse_flags
from eagle3_contracts.probes import Request
from eagle3_contracts.serving import gpus
from eagle3_contracts.serving.process import JobError, Server
from eagle3_contracts.serving.sglang import ENVIRONMENT
from eagle3_contracts.serving.sglang.registry import WRITTEN_FOR, known_architectures
from eagle3_contracts.subject import ResolvedModel, ResolvedSubject

_SERVING = "eagle3_contracts.serving.sglang"
_servers: dict[str, Server] = {}
_answers: dict[tuple[str, str, Request], dict[str, Any]] = {}


def run(
    job: str, payload: Mapping[str, Any], request: Request, *, module: str = "jobs"
) -> dict[str, Any] | Gap:
    """Run a job of SGLang; return its answer, or the gap that it leaves.

    A class that this platform cannot run is untestable; a job that died or hung is broken.
    """
    server = _servers.setdefault(
        request.device, Server(f"{_SERVING}.preload", environment(request.device))
    )
    payload = {**payload, "device": request.device, "fault": request.fault, "cache": _cache()}
    try:
        place = module if "." in module else f"{_SERVING}.{module}"
        answer = server.run(f"{place}:{job}", payload, request.timeout)
    except JobError as error:
        return Gap(GapKind.BROKEN, str(error))
    if "unavailable" in answer:
        return Gap(GapKind.UNTESTABLE, answer["unavailable"])
    return answer


def environment(device: str) -> dict[str, str]:
    """Return what the environment of a process that runs SGLang on ``device`` adds to ours."""
    own = gpus.of_worker(os.environ) if device == "cuda" else {}
    return {**ENVIRONMENT[device], **own}


def run_once(job: str, payload: Mapping[str, Any], request: Request) -> dict[str, Any] | Gap:
    """Run a job whose answer depends on ``payload`` and the request alone, once for each of them.

    Subjects have classes and flags in common. A gap is not kept: the job may have been killed.
    """
    key = (job, json.dumps(payload, sort_keys=True), request)
    if key in _answers:
        return _answers[key]
    answer = run(job, payload, request)
    if not isinstance(answer, Gap):
        _answers[key] = answer
    return answer


@cache
def _cache() -> str:
    """Return the directory in which the jobs of this process keep their references."""
    folder = tempfile.mkdtemp(prefix="eagle3-references-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def close() -> None:
    """End all processes of SGLang, and forget their answers."""
    _answers.clear()
    while _servers:
        _servers.popitem()[1].close()


atexit.register(close)


def prerequisite(
    subject: ResolvedSubject, roles: Sequence[str] = ("target", "draft")
) -> Gap | None:
    """Return why SGLang cannot be asked about these models of ``subject``; None: it can.

    Raises SubjectError for an architecture that SGLang does not have. A release other than the one
    that this project is written for may lack what a subject needs, which is no mistake of its.
    """
    if subject.launch is not None and subject.launch.engine != "sglang":
        return Gap(GapKind.ABSENT, f"served by {subject.launch.engine}, not by SGLang")
    if find_spec("sglang") is None:
        reason = "SGLang is not installed: pip install 'eagle3-contracts[sglang]'"
        return Gap(GapKind.UNTESTABLE, reason)
    for role in roles:
        model = {"target": subject.target, "draft": subject.draft}[role]
        if model is None:
            return Gap(GapKind.ABSENT, f"the subject names no {role}")
        if not model.config:
            return Gap(GapKind.ABSENT, f"the {role}'s config.json is unknown")
        if gap := _check_architecture(subject, role, model):
            return gap
    return None


def _check_architecture(subject: ResolvedSubject, role: str, model: ResolvedModel) -> Gap | None:
    names = model.config.get("architectures") or []
    known = known_architectures()
    unknown = [name for name in names if name not in known]
    if not names:
        raise SubjectError(Problem(subject.origin, f"{role}.config names no architectures"))
    if not unknown:
        return None
    hint = did_you_mean(unknown[0], known) or f": not one of SGLang's {len(known)}"
    installed = version("sglang")
    if installed != WRITTEN_FOR:
        text = f"SGLang {installed} has no class for the {role}'s architecture {unknown[0]}{hint}"
        return Gap(GapKind.UNTESTABLE, text)
    text = f"{role}.config: unknown architecture '{unknown[0]}'{hint}"
    raise SubjectError(Problem(subject.origin, text))


def algorithm(subject: ResolvedSubject) -> str:
    """Return the speculative algorithm to run: the launch's, else EAGLE3."""
    flags = parse_flags(subject.launch.args) if subject.launch is not None else {}
    return flags.get("speculative-algorithm", "EAGLE3").upper()
