# SPDX-License-Identifier: MIT
"""What the tests of whole programs share: the command, and allocators that misbehave."""

import json
import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Sequence

import pytest
from under import BUILD, HANG, LAUNCHER, PYTHON, SOURCE, plain_environment

# The package under test is that of the tree; it finds the native parts in the build directory.
sys.path.insert(0, str(SOURCE / "analysis"))
os.environ["ALLOTROPE_BUILD_DIR"] = str(BUILD)
# `make check` speaks to the makes below it; a make under test is none of them.
for variable in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL"):
    os.environ.pop(variable, None)

# A shell starts what runs in the background with INT ignored, and so would all our children be.
signal.signal(signal.SIGINT, signal.default_int_handler)
# The same of HUP under nohup. A handler is not inherited, and the tests themselves go on.
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, lambda *_: None)


def pytest_unconfigure(config: pytest.Config) -> None:
    """The last line counts, for whoever adds up many logs."""
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    if reporter is None:
        return
    count = {
        outcome: len(reporter.stats.get(outcome, []))
        for outcome in ("passed", "failed", "error", "skipped")
    }
    failed = count["failed"] + count["error"]
    print(f"{count['passed']} passed, {failed} failed, {count['skipped']} skipped")


@dataclass(frozen=True)
class Command:
    """The allotrope command over a build directory, each time in a session of its own: what tests
    beside it start, in the process group of `make`, is not to be taken for the command's."""

    build: Path

    def run(
        self, *arguments: str, environment: dict[str, str] | None = None, **settings: Any
    ) -> subprocess.CompletedProcess[str]:
        settings.setdefault("timeout", HANG)
        settings.setdefault("start_new_session", True)
        return subprocess.run(
            self.line(*arguments),
            env=self.environment() | (environment or {}),
            capture_output=True,
            text=True,
            check=False,
            **settings,
        )

    def start(self, *arguments: str, **settings: Any) -> subprocess.Popen[str]:
        settings.setdefault("start_new_session", True)
        return subprocess.Popen(
            self.line(*arguments), env=self.environment(), text=True, **settings
        )

    def line(self, *arguments: str) -> list[str]:
        return [PYTHON, "-I", str(SOURCE / "analysis"), *arguments]

    def environment(self) -> dict[str, str]:
        own = {"ALLOTROPE_BUILD_DIR": str(self.build), "LC_ALL": "C.UTF-8"}
        return plain_environment() | own


@pytest.fixture(scope="session")
def real() -> Command:
    """The command over the build as it is."""
    return Command(BUILD)


@pytest.fixture(scope="session")
def threaded_trace(real: Command, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return record_threads(real, tmp_path_factory.mktemp("threads"))


def record_threads(command: Command, folder: Path) -> Path:
    """A trace of a program with threads, under an allocator: they, classes and regions differ."""
    program = str(BUILD / "tests/trace/allocating")
    whole, start = folder / "whole.alt", folder / "start.alt"
    for words in (
        ["record", "-o", str(whole), "-a", "bsd", "--", program, "threadlets"],
        ["trace", "cut", "--count", "400000", "-o", str(start), str(whole)],
    ):
        done = command.run(*words)
        assert done.returncode == 0, done.stderr
    return start


PRESETS = ("default", "noise", "crash", "fail", "late", "silent")

DESCRIBE = """#!{python}
import json, sys
presets = {presets!r}
options = [dict(key="arenas", title="arenas", presets=["default"], kind="integer",
                minimum=1, maximum=64, default=4)]
if len(sys.argv) == 1:
    allocator = dict(name="mock", title="misbehaves on request", source="none", options=options,
                     presets=[dict(name=preset, title="for tests") for preset in presets])
    print(json.dumps(dict(schema="allotrope.describe/1", version="9.9", allocators=[allocator])))
    sys.exit()
name, *words = sys.argv[1].replace(",", ":").split(":")
preset, chosen = "default", dict(arenas=4)
for word in words:
    if word in presets:
        preset = word
    elif word.startswith("arenas=") and word[7:].isdigit():
        chosen["arenas"] = int(word[7:])
    else:
        sys.exit(print(f"allotrope: unknown option '{{word}}'; valid are: arenas", file=sys.stderr)
                 or 2)
print(json.dumps(dict(allocator=name, preset=preset, options=chosen)))
"""


@pytest.fixture(scope="session")
def mock_build(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A build directory whose one allocator, `mock`, misbehaves as its preset says; see
    misbehaving_heap.c. The launcher is the real one."""
    build = tmp_path_factory.mktemp("build")
    (build / ".libs").mkdir()
    library = build / ".libs" / "liballotrope.so"
    compiler = os.environ.get("CC", "cc").split()
    source = str(SOURCE / "tests" / "analysis" / "misbehaving_heap.c")
    subprocess.run(
        [*compiler, "-shared", "-fPIC", f"-I{SOURCE}", "-o", str(library), source], check=True
    )
    describe = build / "allotrope-describe"
    describe.write_text(DESCRIBE.format(python=PYTHON, presets=PRESETS))
    describe.chmod(0o755)
    (build / "allotrope-launch").symlink_to(LAUNCHER)
    return build


@pytest.fixture
def mock(mock_build: Path) -> Command:
    """The command over an allocator that misbehaves on request."""
    return Command(mock_build)


@pytest.fixture
def launch(tmp_path: Path) -> Any:
    """Runs the launcher and returns its process and its report."""

    def run(
        options: Sequence[str], command: Sequence[str], **settings: Any
    ) -> tuple[subprocess.CompletedProcess[str], dict[str, Any]]:
        report = tmp_path / "report.json"
        settings.setdefault("timeout", HANG)
        done = subprocess.run(
            [str(LAUNCHER), "--report", str(report), *options, "--", *command],
            capture_output=True,
            text=True,
            check=False,
            **settings,
        )
        return done, json.loads(report.read_text())

    return run
