# SPDX-License-Identifier: MIT
"""Real programs behave under every allocator as under glibc; the table is tests/matrix/matrix.toml.

`make check` runs the light ones. ALLOTROPE_MATRIX=all runs all, ALLOTROPE_TEST_ALLOCATORS="bsd"
chooses allocators, -k chooses programs. tests/matrix/install_matrix.py lists or installs the
packages.
"""

import atexit
import functools
import os
import shutil
import socket
import subprocess
import tempfile
import tomllib
from dataclasses import dataclass
from pathlib import Path

import pytest
from under import GLIBC, HANG, Under, allocators_under_test

TESTS = Path(__file__).resolve().parent
WHOLE = os.environ.get("ALLOTROPE_MATRIX") == "all"


# What gc says of a program that hides pointers, before anything is lost.
LEAKS_ARE_KEPT = "so leaks are kept from here on (leaks=collect overrides)"


@dataclass(frozen=True)
class Program:
    name: str
    packages: tuple[str, ...]
    script: str
    prepare: str = ""
    light: bool = False
    own_malloc: bool = False

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


@functools.cache
def is_installed(package: str) -> bool:
    query = ["dpkg-query", "-W", "-f", "${Status}", package]
    result = subprocess.run(query, capture_output=True, text=True, check=False)
    return "ok installed" in result.stdout


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def shell(under: Under, script: str, directory: Path) -> Behaviour:
    environment = {
        "HOME": str(directory),
        "LC_ALL": "C",
        "MATRIX": str(TESTS),
        "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
        "PORT": str(free_port()),
        "TMPDIR": str(directory),
    }
    result = under.run(
        ["/bin/sh", "-eu", "-c", script],
        environment=environment,
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


def behaviour(program: Program, under: Under) -> Behaviour:
    """In a copy of the prepared directory; all paths have the same length, since some print it."""
    directory = Path(tempfile.mkdtemp(dir=scratch()))
    shutil.copytree(prepared(program), directory, symlinks=True, dirs_exist_ok=True)
    directory.chmod(0o755)
    try:
        return shell(under, program.script, directory)
    finally:
        shutil.rmtree(directory, ignore_errors=True)


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
        if line.startswith("allotrope: ") and not line.endswith(LEAKS_ARE_KEPT)
    ]
    if program.own_malloc:
        assert any("served by another malloc" in line for line in lines), found.stderr
    else:
        assert lines == []
    assert (found.status, found.stdout) == (expected.status, expected.stdout), found.stderr
