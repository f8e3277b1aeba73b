# SPDX-License-Identifier: MIT
"""Suites on a cluster: the same figures, nothing lost or doubled, and what is told when the workers,
the scheduler or Dask itself are not there."""

import contextlib
import fcntl
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path
from typing import Any, Callable, Iterator

import jsonschema
import pytest
from allotrope.features.cluster import worker
from allotrope.features.cluster.connection import local_workers
from allotrope.features.suite.output import name_of, recommend_suite
from allotrope.system.errors import UserError
from conftest import Command
from test_suite import SCHEMA
from under import HANG, PYTHON

try:
    import distributed  # noqa: F401

    DASK = True
except ImportError:
    DASK = False
needs_dask = pytest.mark.skipif(not DASK, reason="needs the Debian package python3-distributed")

# Each run leaves a letter, so that a program that is measured anew, or twice, can be told.
THREE = """
title = "three"
[[program]]
name = "sorted"
setup = "seq 3000 > input"
input = "input"
command = ["sort", "-r"]
[[program]]
name = "awk"
command = ["/usr/bin/gawk", "BEGIN { for (i = 0; i < 3000; i++) a[i] = i \\"x\\"; print a[7] }"]
[[program]]
name = "slow"
command = "printf s >> $SUITE/trace; sleep 0.1; echo done"
check = "none"
"""
ROUNDS = 2
CHOICE = ("-a", "glibc", "-a", "blocks")


def deterministic(document: dict[str, Any]) -> dict[str, Any]:
    """What does not depend on time: the heap's account, and how often what was called."""
    return {
        entry["name"]: [
            {
                "spec": result["spec"],
                "status": result["status"],
                "rounds": len(result["cpu_seconds"]["rounds"]),
                "allocations": result["served"]["allocations"],
                "heap": result["heap"]
                and {
                    key: result["heap"][key]
                    for key in ("calls", "mapped_peak_bytes", "requested_peak_bytes", "sizes")
                },
            }
            for result in entry["comparison"]["results"]
        ]
        for entry in document["programs"]
    }


@pytest.fixture(scope="module")
def suite_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One for all: programs see where it is, and allocate for it."""
    file = tmp_path_factory.mktemp("suite") / "suite.toml"
    file.write_text(THREE)
    return file


def words(suite: Path, folder: Path, *more: str) -> list[str]:
    given = ["compare", "--suite", str(suite), "--rounds", str(ROUNDS), *CHOICE]
    return [*given, "--json", str(folder / "json"), "--state", str(folder / "state"), *more]


def read(folder: Path) -> dict[str, Any]:
    document: dict[str, Any] = json.loads((folder / "json").read_text())
    jsonschema.validate(document, SCHEMA)
    return document


@pytest.fixture(scope="module")
def one_machine(
    real: Command, suite_file: Path, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Any]:
    """Deterministic figures of the suite without a cluster."""
    folder = tmp_path_factory.mktemp("one")
    done = real.run(*words(suite_file, folder))
    assert done.returncode == 0, done.stderr
    return deterministic(read(folder))


class Cluster:
    """A scheduler and workers, each a process of its own that a test may kill."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = free_port()
        self.address = f"127.0.0.1:{self.port}"
        self.processes: list[subprocess.Popen[bytes]] = []
        self.scheduler = self.start_scheduler()
        self.workers: list[subprocess.Popen[bytes]] = []

    def start(self, *command: str) -> subprocess.Popen[bytes]:
        log = open(self.folder / "dask.log", "ab")
        with log:
            process = subprocess.Popen(command, stdout=log, stderr=log, cwd=self.folder)
        self.processes.append(process)
        return process

    def start_scheduler(self) -> subprocess.Popen[bytes]:
        own = ["--host", "127.0.0.1", "--port", str(self.port), "--no-dashboard"]
        return self.start(PYTHON, shutil.which("dask-scheduler") or "dask-scheduler", *own)

    def start_worker(self, *before: str, port: int | None = None) -> None:
        own = ["--no-nanny", "--no-dashboard", "--nthreads", "1", "--memory-limit", "0"]
        own += ["--local-directory", str(self.folder)]
        program = shutil.which("dask-worker") or "dask-worker"
        self.workers.append(self.start(*before, PYTHON, program, self.address, *own))

    def end(self) -> None:
        for process in self.processes:
            process.kill()
            process.wait()


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    made = Cluster(tmp_path)
    try:
        yield made
    finally:
        made.end()


def wait_until(holds: Callable[[], bool], process: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + HANG
    while not holds():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline, "it never came to that"
        time.sleep(0.02)


def children_of(process: int) -> list[int]:
    with contextlib.suppress(OSError):
        tasks = Path(f"/proc/{process}/task").iterdir()
        found = [(task / "children").read_text().split() for task in tasks]
        return [int(child) for some in found for child in some]
    return []


def measuring(one: subprocess.Popen[bytes]) -> list[int]:
    """The processes by which a worker measures now."""
    return [child for child in children_of(one.pid) if "--only" in command_of(child)]


def command_of(process: int) -> str:
    try:
        return Path(f"/proc/{process}/cmdline").read_text()
    except OSError:
        return ""


@needs_dask
class TestFigures:
    def test_local_workers_find_what_one_machine_finds(
        self, real: Command, suite_file: Path, one_machine: dict[str, Any], tmp_path: Path
    ) -> None:
        done = real.run(*words(suite_file, tmp_path, "--cluster", "local:2"))
        assert done.returncode == 0, done.stderr
        document = read(tmp_path)
        assert deterministic(document) == one_machine
        assert {entry["host"] for entry in document["programs"]} == {socket.gethostname()}
        assert f"awk ({socket.gethostname()})" in done.stdout
        assert not (tmp_path / "state").exists()
        assert "lacks" in done.stderr or "worker tcp://" in done.stderr

    def test_a_killed_worker_loses_and_doubles_nothing(
        self,
        real: Command,
        suite_file: Path,
        one_machine: dict[str, Any],
        cluster: Cluster,
        tmp_path: Path,
    ) -> None:
        """Its program is measured anew by the other worker; what the killed one has begun ends
        with it."""
        cluster.start_worker()
        started = real.start(
            *words(suite_file, tmp_path, "--cluster", cluster.address),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        victim = cluster.workers[0]
        wait_until(lambda: bool(measuring(victim)), started)
        cluster.start_worker()
        time.sleep(random.random())
        orphans = measuring(victim)
        victim.send_signal(signal.SIGKILL)
        out, errors = started.communicate(timeout=HANG)
        assert started.returncode == 0, errors
        assert deterministic(read(tmp_path)) == one_machine
        assert errors.count(" was measured on ") == 3
        assert not any("--only" in command_of(orphan) for orphan in orphans)
