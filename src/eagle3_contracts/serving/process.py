"""Jobs in child processes, forked from one process that has imported the engine.

Importing a serving engine takes ten seconds or more; forking from a process that has done it
takes none. Nothing outlives a job: it runs in a process group of its own, which is ended when
the job is over, when its time is up, and when the process that asked for it goes away.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

IMPORT_TIMEOUT = 300.0
"""Seconds that importing the engine may take, on a slow disk with a cold cache."""

_TAIL = 4000


class JobError(Exception):
    """A job that gave no answer: it crashed, was killed, or took too long."""


@dataclass(slots=True)
class Server:
    """A process that has imported ``preload``, from which jobs are forked; started when needed.

    ``environment`` is set in the server, and so in all jobs, before anything is imported.
    """

    preload: str
    environment: Mapping[str, str] = field(default_factory=dict)
    _process: subprocess.Popen[bytes] | None = None

    def run(self, job: str, payload: Mapping[str, Any], timeout: float) -> dict[str, Any]:
        """Run ``job`` ("module:function", mapping to mapping) and return its answer.

        Raises JobError, whose text ends with the last lines that the job printed.
        """
        if self._process is None or self._process.poll() is not None:
            self._process = self._started()
            self._run(f"{_FORKS}:import_again", {"module": self.preload}, IMPORT_TIMEOUT)
        return self._run(job, payload, timeout)

    def close(self) -> None:
        """End the server and whatever job it runs; it starts anew with the next job."""
        process, self._process = self._process, None
        if process is None:
            return
        if process.stdin:
            process.stdin.close()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if process.stdout:
            process.stdout.close()

    def _started(self) -> subprocess.Popen[bytes]:
        # -P: the user's folder may hold a platform.py or a types.py of its own.
        return subprocess.Popen(
            [sys.executable, "-P", "-m", _FORKS, self.preload],
            env={**os.environ, **self.environment},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )

    def _run(self, job: str, payload: Mapping[str, Any], timeout: float) -> dict[str, Any]:
        name = job.partition(":")[2]
        with tempfile.TemporaryDirectory(prefix="eagle3-job-") as folder:
            request = {"job": job, "payload": payload, "timeout": timeout, "folder": folder}
            end = self._ask(request)
            answer = _answer(Path(folder))
            if answer is None or "error" in answer:
                reason = (answer or end).get("error")
                raise JobError(f"{name}: {reason}{_tail(Path(folder))}")
        return answer

    def _ask(self, request: Mapping[str, Any]) -> dict[str, Any]:
        process = self._process
        assert process is not None
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(json.dumps(request).encode() + b"\n")
            process.stdin.flush()
            line = process.stdout.readline()
        except BaseException as error:
            self.close()
            if isinstance(error, BrokenPipeError):
                return {"error": "the server of jobs died"}
            raise
        end: dict[str, Any] = json.loads(line or b'{"error": "the server of jobs died"}')
        return end


_FORKS = "eagle3_contracts.serving.forks"


def _answer(folder: Path) -> dict[str, Any] | None:
    try:
        answer: dict[str, Any] = json.loads((folder / "answer.json").read_bytes())
    except (OSError, ValueError):
        return None
    return answer


def _tail(folder: Path) -> str:
    with contextlib.suppress(OSError):
        text = (folder / "output.log").read_text(errors="replace")[-_TAIL:].strip()
        return f"\n{text}" if text else ""
    return ""
