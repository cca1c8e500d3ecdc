"""The server of jobs: imports a module once, then forks a child for every request.

A request is a line of JSON on standard input: ``job`` ("module:function"), ``payload``,
``timeout`` in seconds, ``folder``. The child writes ``answer.json`` and ``output.log`` there; the
server answers with a line of JSON once the child's process group is gone. The end of standard
input ends the server and the job that it runs.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import io
import json
import os
import select
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Mapping
from typing import Any, NoReturn

_POLL = 0.005
_PR_SET_PDEATHSIG = 1
_ANSWERS = 1  # standard output before anything else can print there
_REQUESTS = io.BufferedReader(io.FileIO(0, closefd=False))


def main(preload: str) -> None:
    """Serve until standard input ends."""
    answers = os.dup(_ANSWERS)
    os.dup2(2, _ANSWERS)
    # What is wrong with it is reported by the first job, which imports it again.
    with contextlib.suppress(Exception):
        importlib.import_module(preload)
    for line in iter(_REQUESTS.readline, b""):
        end = _serve(json.loads(line))
        os.write(answers, json.dumps(end).encode() + b"\n")


def _serve(request: Mapping[str, Any]) -> dict[str, Any]:
    child = os.fork()
    if child == 0:
        _run(request)
    deadline = time.monotonic() + request["timeout"]
    try:
        while (ended := os.waitpid(child, os.WNOHANG))[0] == 0:
            if time.monotonic() > deadline:
                return {"error": f"no answer within {request['timeout']:g} s"}
            if _asker_is_gone():
                raise SystemExit(1)
        return {"error": f"died with exit code {os.waitstatus_to_exitcode(ended[1])}"}
    finally:
        _end_group(child)


def _asker_is_gone() -> bool:
    readable, _, _ = select.select([0], [], [], _POLL)
    return bool(readable) and not _REQUESTS.peek(1)


def _end_group(child: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child, signal.SIGKILL)
    with contextlib.suppress(ChildProcessError):
        os.waitpid(child, 0)


def _run(request: Mapping[str, Any]) -> NoReturn:
    _own_group(request["folder"])
    code = 0
    try:
        module, _, name = request["job"].partition(":")
        answer = getattr(importlib.import_module(module), name)(request["payload"])
    except BaseException as error:
        traceback.print_exc()
        answer = {"error": f"{type(error).__name__}: {error}"}
        code = 1
    with open("answer.json", "w", encoding="utf-8") as file:  # noqa: PTH123
        json.dump(answer, file)
    sys.stdout.flush()
    # Engines leave threads and exit handlers behind that would wait for each other.
    os._exit(code)


def _own_group(folder: str) -> None:
    os.setsid()
    _die_with_parent()
    os.chdir(folder)
    log = os.open("output.log", os.O_CREAT | os.O_WRONLY | os.O_APPEND)
    for stream in (1, 2):
        os.dup2(log, stream)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.environ["TMPDIR"] = tempfile.tempdir = folder


def _die_with_parent() -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def import_again(payload: Mapping[str, Any]) -> dict[str, Any]:
    """Import ``module``, to learn whether the server could."""
    importlib.import_module(payload["module"])
    return {}


if __name__ == "__main__":
    main(sys.argv[1])
