# SPDX-License-Identifier: MIT
"""Real programs behave under every allocator as under glibc; the table is tests/matrix/matrix.toml.

`make check` runs the light ones. ALLOTROPE_MATRIX=all runs all, ALLOTROPE_TEST_ALLOCATORS="bsd"
chooses allocators, -k chooses programs. tests/matrix/install_matrix.py lists or installs the
packages.

With ALLOTROPE_MATRIX=all each program also runs once with all its processes watched, under the
first allocator, and a table at the end has the share that was served (`-k share` makes only that):

    allocations   that our allocator served, in the processes that it served
    processes     that it served, of all; the others have another malloc, which nobody counts
    CPU           of the served processes
    memory        of all anonymous memory of the processes at their ends, what lies in our heap: the
                  rest was handed out by other mallocs, or by allocators that call none
    collections   that the processes report which end in order (gc alone has any)
"""

import atexit
import contextlib
import functools
import json
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Iterator

import pytest
from allotrope.features.reach.served import is_served_by
from allotrope.features.server.plan import free_port
from allotrope.system.allocators import choose
from allotrope.system.launch import Launch, launch
from allotrope.system.serving import Process, Watcher
from under import GLIBC, HANG, SOURCE, Under, allocators_under_test, plain_environment

sys.path.insert(0, str(SOURCE / "bench_programs"))

from setup import is_installed  # noqa: E402

TESTS = Path(__file__).resolve().parent
WHOLE = os.environ.get("ALLOTROPE_MATRIX") == "all"


# What gc says of a program that hides pointers, before anything is lost.
LEAKS_ARE_KEPT = "so leaks are kept from here on (leaks=collect overrides)"
# Of a program that calls another allocator by its own names.
OTHER_NAMES = "own functions stays with "
# What blocks:checked says of a program with operators of its own.
OTHER_OPERATOR = (
    ": freed by another kind of operator than it was allocated by: ",
    "further misuses of the heap are only counted (reports=)",
)


@dataclass(frozen=True)
class Program:
    name: str
    packages: tuple[str, ...]
    script: str
    prepare: str = ""
    light: bool = False
    own_malloc: bool = False
    own_operators: bool = False
    own_names: bool = False
    traces: bool = False

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class Behaviour:
    """What is compared, and what is said of it when it differs."""

    status: int
    stdout: str
    stderr: str


def programs() -> list[Program]:
    table = tomllib.loads((TESTS / "matrix.toml").read_text())
    return [Program(packages=tuple(entry.pop("packages")), **entry) for entry in table["program"]]


def script_environment(directory: Path) -> dict[str, str]:
    return {
        "HOME": str(directory),
        "LC_ALL": "C",
        "MATRIX": str(TESTS),
        "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
        "PORT": str(free_port()),
        "TMPDIR": str(directory),
    }


def shell(under: Under, script: str, directory: Path) -> Behaviour:
    result = under.run(
        ["/bin/sh", "-eu", "-c", script],
        environment=script_environment(directory),
        cwd=directory,
        timeout=HANG,
        stdin=subprocess.DEVNULL,
        errors="replace",
    )
    return Behaviour(result.returncode, result.stdout, result.stderr)


@functools.cache
def scratch() -> Path:
    """Readable for others: some servers give up root."""
    directory = Path(tempfile.mkdtemp(prefix="allotrope-matrix-"))
    directory.chmod(0o755)
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    return directory


@functools.cache
def prepared(program: Program) -> Path:
    directory = Path(tempfile.mkdtemp(dir=scratch()))
    directory.chmod(0o755)
    made = shell(GLIBC, program.prepare, directory)
    assert made.status == 0, made.stderr
    return directory


@contextlib.contextmanager
def copy_of_prepared(program: Program) -> Iterator[Path]:
    """All paths have the same length, since some programs print it."""
    directory = Path(tempfile.mkdtemp(dir=scratch()))
    shutil.copytree(prepared(program), directory, symlinks=True, dirs_exist_ok=True)
    directory.chmod(0o755)
    try:
        yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def behaviour(program: Program, under: Under) -> Behaviour:
    with copy_of_prepared(program) as directory:
        return shell(under, program.script, directory)


@functools.cache
def under_glibc(program: Program) -> Behaviour:
    return behaviour(program, GLIBC)


def skip_unless_possible(program: Program) -> None:
    missing = [package for package in program.packages if not is_installed(package)]
    if missing:
        pytest.skip(f"needs the Debian package {' '.join(missing)}")
    if not program.light and not WHOLE:
        pytest.skip("not light; ALLOTROPE_MATRIX=all runs it")


@pytest.mark.parametrize("under", allocators_under_test(), ids=str)
@pytest.mark.parametrize("program", programs(), ids=str)
def test_behaves_as_under_glibc(program: Program, under: Under) -> None:
    skip_unless_possible(program)
    expected = under_glibc(program)
    assert expected.status == 0, f"fails under glibc: {expected.stderr}"
    found = behaviour(program, under)
    lines = [
        line
        for line in found.stderr.splitlines()
        if line.startswith("allotrope: ")
        and not line.endswith(LEAKS_ARE_KEPT)
        and not (program.own_operators and any(words in line for words in OTHER_OPERATOR))
        and not (program.own_names and OTHER_NAMES in line)
    ]
    if program.own_malloc:
        assert any("has a malloc of its own" in line for line in lines), found.stderr
    else:
        assert lines == []
    assert (found.status, found.stdout) == (expected.status, expected.stdout), found.stderr


def collections_of(reports: Path) -> int:
    """In all processes that wrote their statistics into the folder."""
    documents = [json.loads(file.read_text() or "{}") for file in reports.iterdir()]
    return sum(document.get("gc", {}).get("collections", 0) for document in documents)


def share(processes: list[Process], under: Under, reports: Path) -> str:
    """A row of the table, without the program's name."""
    allocator = choose(under.allocator)
    served = [process for process in processes if is_served_by(process.serving, allocator)]
    allocations = sum(process.serving.allocations or 0 for process in served)
    whole = sum(process.cpu_seconds for process in processes)
    seconds = sum(process.cpu_seconds for process in served)
    memory = sum(process.anonymous_bytes for process in processes)
    heap = sum(process.heap_bytes for process in served)
    shares = [f"{100 * seconds / max(whole, 1e-9):.0f}%", f"{100 * heap / max(memory, 1):.0f}%"]
    row = [f"{allocations:,}", f"{len(served)} of {len(processes)}", *shares]
    return " | ".join([*row, f"{memory / 1e6:,.0f} MB", f"{collections_of(reports):,}"])


@pytest.fixture(scope="module")
def shares(request: pytest.FixtureRequest) -> Iterator[list[str]]:
    rows: list[str] = []
    yield rows
    capture = request.config.pluginmanager.getplugin("capturemanager")
    with capture.global_and_fixture_disabled():
        print(f"\nserved by {allocators_under_test()[0]}:")
        heads = ["program", "allocations", "processes", "CPU", "memory", "of", "collections"]
        print("|", " | ".join(heads), "|\n" + "|---" * len(heads) + "|")
        print(*rows, sep="\n")


@pytest.mark.parametrize("program", programs(), ids=str)
def test_share_that_is_served(program: Program, shares: list[str]) -> None:
    if not WHOLE:
        pytest.skip("ALLOTROPE_MATRIX=all runs it")
    skip_unless_possible(program)
    if program.traces:
        pytest.skip("a program that traces others cannot be watched")
    under = allocators_under_test()[0]
    hidden = [name for name in os.environ if name not in plain_environment()]
    reports = Path(tempfile.mkdtemp(dir=scratch()))
    reports.chmod(0o777)  # for servers that give up root
    counted = {"ALLOTROPE_STATS": f"{reports}/%p.json"}
    with copy_of_prepared(program) as directory, Watcher(weighs=True) as watcher:
        run = launch(
            Launch(
                ["/bin/sh", "-eu", "-c", program.script],
                environment=under.environment() | script_environment(directory) | counted,
                unset=[name for name in hidden if name not in under.environment() | counted],
                stdout=directory / "stdout of the script",
                stderr=directory / "stderr of the script",
                directory=directory,
                timeout=HANG,
                watcher=watcher,
            )
        )
        stdout = (directory / "stdout of the script").read_text(errors="replace")
        stderr = (directory / "stderr of the script").read_text(errors="replace")
    if watcher.forbidden:
        pytest.skip("the kernel allows no ptrace")
    assert (run.exit_status, stdout) == (0, under_glibc(program).stdout), stderr
    shares.append(f"| {program} | {share(watcher.processes, under, reports)} |")
