"""Jobs answer, and whatever they do, nothing of them survives."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from eagle3_contracts.serving.process import JobError, Server

JOBS = """
import os, subprocess, sys, time

def double(payload):
    return {"value": 2 * payload["value"], "pid": os.getpid(), "parent": os.getppid()}

def environment(payload):
    return {"value": os.environ.get(payload["name"])}

def wait(payload):
    child = subprocess.Popen(["sleep", "60"])
    print("waiting for", child.pid, flush=True)
    time.sleep(60)

def leave_a_child(payload):
    return {"pid": subprocess.Popen(["sleep", "60"]).pid}

def fail(payload):
    print("about to divide", flush=True)
    return {"value": 1 / 0}

def die(payload):
    os._exit(7)
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "some_jobs.py").write_text(JOBS)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    return tmp_path


@pytest.fixture
def server(folder: Path) -> Iterator[Server]:
    server = Server("some_jobs", {"MARK": "set"})
    yield server
    server.close()


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def wait_until_gone(pid: int) -> bool:
    for _ in range(100):
        if not is_alive(pid):
            return True
        time.sleep(0.05)
    return False


def test_jobs_are_forked_from_one_process(server: Server) -> None:
    first = server.run("some_jobs:double", {"value": 2}, 10)
    second = server.run("some_jobs:double", {"value": 3}, 10)
    assert (first["value"], second["value"]) == (4, 6)
    assert first["parent"] == second["parent"]
    assert first["pid"] != second["pid"]


def test_the_environment_of_the_server_is_that_of_its_jobs_only(server: Server) -> None:
    assert server.run("some_jobs:environment", {"name": "MARK"}, 10) == {"value": "set"}
    assert "MARK" not in os.environ


def test_an_exception_is_reported_with_what_was_printed_before(server: Server) -> None:
    with pytest.raises(JobError) as error:
        server.run("some_jobs:fail", {}, 10)
    text = str(error.value)
    assert text.startswith("fail: ZeroDivisionError: division by zero\nabout to divide\nTraceback")


def test_a_job_that_dies_is_reported_with_its_exit_code(server: Server) -> None:
    with pytest.raises(JobError, match=r"^die: died with exit code 7$"):
        server.run("some_jobs:die", {}, 10)
    assert server.run("some_jobs:double", {"value": 1}, 10)["value"] == 2


def test_a_job_that_takes_too_long_is_ended_with_its_children(server: Server) -> None:
    with pytest.raises(JobError) as error:
        server.run("some_jobs:wait", {}, 0.5)
    text = str(error.value)
    assert text.startswith("wait: no answer within 0.5 s\nwaiting for ")
    assert wait_until_gone(int(text.split()[-1]))


def test_a_child_that_a_job_leaves_behind_is_ended(server: Server) -> None:
    assert wait_until_gone(server.run("some_jobs:leave_a_child", {}, 10)["pid"])


def test_a_server_that_was_closed_starts_anew(server: Server) -> None:
    before = server.run("some_jobs:double", {"value": 1}, 10)["parent"]
    server.close()
    assert wait_until_gone(before)
    assert server.run("some_jobs:double", {"value": 1}, 10)["parent"] != before


def test_a_preload_that_cannot_be_imported_is_the_error_of_the_first_job(folder: Path) -> None:
    (folder / "broken_preload.py").write_text("raise OSError('libgpu.so is missing')")
    server = Server("broken_preload")
    with pytest.raises(JobError, match=r"^import_again: OSError: libgpu.so is missing\n"):
        server.run("some_jobs:double", {"value": 1}, 10)
    server.close()


def test_a_module_in_the_users_folder_does_not_shadow_the_standard_library(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = folder / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "platform.py").write_text("raise RuntimeError('shadowed')")
    monkeypatch.chdir(elsewhere)
    server = Server("platform")
    assert server.run("some_jobs:double", {"value": 1}, 10)["value"] == 2
    server.close()


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_nothing_survives_the_process_that_asked(folder: Path, how: signal.Signals) -> None:
    script = textwrap.dedent("""
        from eagle3_contracts.serving.process import Server
        server = Server("some_jobs")
        print(server.run("some_jobs:double", {"value": 1}, 10)["parent"], flush=True)
        server.run("some_jobs:wait", {}, 60)
    """)
    asker = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    assert asker.stdout is not None
    forks = int(asker.stdout.readline())
    children = wait_for_children(forks)
    asker.send_signal(how)
    asker.wait()
    asker.stdout.close()
    assert all(wait_until_gone(pid) for pid in [forks, *children])


def wait_for_children(pid: int) -> list[int]:
    """Return the job and its sleeping child, once both are there."""
    for _ in range(100):
        jobs = children_of(pid)
        found = jobs + [child for job in jobs for child in children_of(job)]
        if len(found) == 2:
            return found
        time.sleep(0.05)
    raise AssertionError("the job did not start its child")


def children_of(pid: int) -> list[int]:
    return [int(n) for n in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
