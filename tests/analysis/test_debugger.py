# SPDX-License-Identifier: MIT
"""Whom `compare` names as the server of a program is who gdb finds malloc in, of programs that
bring allocators of their own (tests/measure/served.py has the same for any command)."""

import os
import shutil
import subprocess
from pathlib import Path
from typing import Callable

import pytest
from allotrope.system.allocators import choose, for_program
from allotrope.system.launch import Launch, launch
from allotrope.system.serving import Watcher
from debugger import malloc_calls

GO = """package main
import "fmt"
func main() { fmt.Println(len(make([]byte, 1<<20))) }
"""
JAVA = "public class P { public static void main(String[] a) { System.out.println(1); } }"
PATIENCE = 300


def file_of(name: str) -> str:
    found = shutil.which(name, path="/usr/bin:/usr/sbin:/bin:/usr/local/bin")
    if found is None:
        pytest.skip(f"{name} is not installed")
    return os.path.realpath(found)


def redis(folder: Path) -> list[str]:
    # The link's own name tells it what to be.
    program = file_of("redis-server")
    return [shutil.which("redis-server") or program, "--version"]


def debian_rustc(folder: Path) -> list[str]:
    if not Path("/usr/bin/rustc").exists():
        pytest.skip("Debian's rustc is not installed")
    return ["/usr/bin/rustc", "--version", "--verbose"]


def upstream_rustc(folder: Path) -> list[str]:
    found = sorted(Path.home().glob(".rustup/toolchains/*/bin/rustc"))
    if not found:
        pytest.skip("no rustc of rust-lang.org is installed")
    return [str(found[0]), "--version", "--verbose"]


def go(folder: Path) -> list[str]:
    compiler = shutil.which("go") or shutil.which("go", path="/usr/local/go/bin")
    if compiler is None:
        pytest.skip("go is not installed")
    (folder / "p.go").write_text(GO)
    home = {"HOME": str(folder), "GOCACHE": str(folder / "cache"), "CGO_ENABLED": "0"}
    line = [compiler, "build", "-o", str(folder / "p"), str(folder / "p.go")]
    subprocess.run(line, check=True, env=os.environ | home, timeout=PATIENCE)
    return [str(folder / "p")]


def firefox(folder: Path) -> list[str]:
    for name in ("/usr/lib/firefox-esr/firefox-esr", "/usr/lib/firefox/firefox"):
        if Path(name).exists():
            return [name, "--version"]
    pytest.skip("firefox is not installed")


def java(folder: Path) -> list[str]:
    runtime = file_of("java")
    (folder / "P.java").write_text(JAVA)
    return [runtime, "-Xshare:auto", "-XX:+UseSerialGC", str(folder / "P.java")]


PROGRAMS = (redis, debian_rustc, upstream_rustc, go, firefox, java)


@pytest.fixture(scope="module", params=PROGRAMS, ids=lambda program: program.__name__)
def command(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """A program of its own is built once: Go compiles its library with it."""
    program: Callable[[Path], list[str]] = request.param
    return program(tmp_path_factory.mktemp(program.__name__))


@pytest.mark.skipif(shutil.which("gdb") is None, reason="gdb is not installed")
@pytest.mark.parametrize("spec", ["glibc", "blocks"])
def test_the_report_says_what_a_debugger_says(command: list[str], spec: str) -> None:
    environment = for_program(choose(spec), command[0]).environment()
    with Watcher() as watcher:
        launch(Launch(command, environment=environment, watcher=watcher, timeout=PATIENCE))
    if watcher.forbidden:
        pytest.skip("the kernel allows no ptrace")
    serving = watcher.processes[0].serving
    found = {os.path.realpath(name) for name in malloc_calls(command, environment, most=50)}
    if serving.allocator == "static":
        assert found == set()
    else:
        assert serving.object is not None
        assert found == {os.path.realpath(serving.object)}
