# SPDX-License-Identifier: MIT
"""Where the tree and the build are, and running a program under an allocator by the preloaded
library alone, without the command: what tests and measurements share."""

import json
import os
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable, Sequence

SOURCE = Path(__file__).resolve().parent.parent
BUILD = Path(os.environ.get("ALLOTROPE_BUILD_DIR", SOURCE)).resolve()
LAUNCHER = BUILD / "allotrope-launch"
LIBRARY = BUILD / ".libs" / "liballotrope.so"
PYTHON = os.environ.get("PYTHON", "/usr/bin/python3")

# Seconds. What takes longer hangs, however busy the machine is: a limit for hangs, never for speed.
HANG = 1200

# A malloc of the program's own, which no preloaded library comes before.
OWN_MALLOC = """
#include <stddef.h>
static char room[1 << 22];
static size_t used;
void *malloc(size_t size)
{
    used += (size + 15) / 16 * 16 + 16;
    return used < sizeof room ? room + used - (size + 15) / 16 * 16 : NULL;
}
void free(void *block) { (void)block; }
void *calloc(size_t count, size_t size) { return malloc(count * size); }
void *realloc(void *block, size_t size)
{
    char *to = malloc(size);
    for (size_t i = 0; block && to && i < size; i++)
        to[i] = ((char *)block)[i];
    return to;
}
"""


# Says that it runs, by making a file, and ends when there is another.
LINGERS = """
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
int main(int argc, char **argv)
{
    void *volatile block = malloc(100);
    fclose(fopen(argv[1], "w"));
    while (access(argv[2], F_OK) != 0)
        usleep(10000);
    return argc != 3 || !block;
}
"""


def static_that_lingers(folder: Path) -> Path:
    """The program LINGERS, linked statically, so that nothing can be preloaded into it."""
    source, program = folder / "lingers.c", folder / "static"
    source.write_text(LINGERS)
    compiler = os.environ.get("CC", "cc").split()
    subprocess.run([*compiler, "-static", "-o", program, source], check=True)
    return program


# Becomes a command whose system calls of some numbers fail with EPERM, as by the filter of a
# container. The filter is BPF: load the call's number; for each that is refused, jump over what
# follows if it is another; allow.
REFUSES = """
import ctypes, os, struct, sys
calls, command = map(int, sys.argv[1].split(",")), sys.argv[2:]
lines = [(0x20, 0, 0, 0)]
for call in calls:
    lines += [(0x15, 0, 1, call), (0x06, 0, 0, 0x00050001)]
lines.append((0x06, 0, 0, 0x7FFF0000))
code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *line) for line in lines))
program = ctypes.create_string_buffer(struct.pack("H6xP", len(lines), ctypes.addressof(code)))
prctl = ctypes.CDLL(None, use_errno=True).prctl
if prctl(38, 1, 0, 0, 0) != 0 or prctl(22, 2, ctypes.byref(program), 0, 0) != 0:
    sys.exit(f"no filter: {os.strerror(ctypes.get_errno())}")
os.execvp(command[0], command)
"""


def refusing(*calls: int) -> list[str]:
    """The words before a command to which the kernel refuses these system calls (x86-64)."""
    return [PYTHON, "-I", "-c", REFUSES, ",".join(map(str, calls))]


def plain_environment() -> dict[str, str]:
    """Ours, but for what would choose an allocator for a program or tell it what to report, and but
    for what pytest puts there and takes away for each test, while other threads may look."""
    return {
        name: os.environ[name]
        for name in os.environ
        if name not in ("LD_PRELOAD", "PYTEST_CURRENT_TEST") and not name.startswith("ALLOTROPE")
    }


@dataclass(frozen=True)
class Under:
    """An allocator as programs meet it: a library to preload and what it is told."""

    name: str
    library: Path | None = None
    spec: str | None = None  # the value of ALLOTROPE; None for glibc and foreign libraries

    def __str__(self) -> str:
        return self.name

    @property
    def is_ours(self) -> bool:
        return self.spec is not None

    @property
    def allocator(self) -> str:
        return (self.spec or "").split(":")[0]

    @property
    def preset(self) -> str:
        return "classic" if self.name.endswith(":classic") else "default"

    def environment(self) -> dict[str, str]:
        """What is to be added to a program's environment."""
        added = {}
        if self.library:
            added["LD_PRELOAD"] = str(self.library)
        if self.spec is not None:
            added["ALLOTROPE"] = self.spec
        return added

    def run(
        self, command: Sequence[str], environment: dict[str, str] | None = None, **settings: Any
    ) -> subprocess.CompletedProcess[str]:
        settings.setdefault("capture_output", True)
        settings.setdefault("text", True)
        timeout = settings.pop("timeout", None)
        for stream in ("stdout", "stderr") if settings.pop("capture_output") else ():
            settings[stream] = subprocess.PIPE
        process = subprocess.Popen(
            command,
            env=plain_environment() | self.environment() | (environment or {}),
            start_new_session=True,
            **settings,
        )
        try:
            stdout, stderr = process.communicate(timeout=timeout)
        except BaseException:  # a timeout above all: what the command started ends with it
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            raise
        return subprocess.CompletedProcess(command, process.returncode, stdout, stderr)

    def run_counted(
        self, command: Sequence[str], folder: Path
    ) -> tuple[subprocess.CompletedProcess[str], dict[str, Any]]:
        """Runs a command that must succeed. Returns the statistics that it wrote, too."""
        path = folder / "statistics.json"
        result = self.run(command, {"ALLOTROPE_STATS": str(path)}, timeout=HANG)
        assert result.returncode == 0, result.stderr
        return result, json.loads(path.read_text())


GLIBC = Under("glibc")


# Reproduces the collector of 1992 for the programs of 1992: only a pointer to its start keeps a
# block, and most of today's programs hold others. Tried where it is asked for by name.
NOT_FOR_ANY_PROGRAM = {"gc:classic"}


def described_specs() -> list[str]:
    """Every allocator and preset of the build, as the library's own description lists them."""
    text = subprocess.run(
        [str(BUILD / "allotrope-describe")], capture_output=True, text=True, check=True
    ).stdout
    return [
        allocator["name"] + ("" if preset["name"] == "default" else ":" + preset["name"])
        for allocator in json.loads(text)["allocators"]
        for preset in allocator["presets"]
    ]


def allocators_under_test() -> list[Under]:
    foreign = os.environ.get("ALLOTROPE_TEST_PRELOAD")
    if foreign:
        return [Under(Path(foreign).name, Path(foreign))]
    chosen = os.environ.get("ALLOTROPE_TEST_ALLOCATORS", "").split()
    specs = chosen or [spec for spec in described_specs() if spec not in NOT_FOR_ANY_PROGRAM]
    return [Under(spec, LIBRARY, spec) for spec in specs]


def processes_that_name(folder: Path) -> list[str]:
    """The ids of those whose command line has its name."""
    found = []
    for status in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if str(folder).encode() in status.read_bytes():
                found.append(status.parent.name)
        except OSError:
            continue
    return found


def await_that(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + HANG
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.02)


def await_looks(pid: int, switches: int = 60) -> None:
    """Until the threads of a process, which wait between two looks at what it runs, have done so
    many times."""

    def waits() -> int:
        found = 0
        for status in Path(f"/proc/{pid}/task").glob("*/status"):
            for line in status.read_text().splitlines():
                if line.startswith("voluntary_ctxt_switches:"):
                    found += int(line.split()[1])
        return found

    before = waits()
    await_that(lambda: waits() >= before + switches)
