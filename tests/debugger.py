# SPDX-License-Identifier: MIT
"""What gdb says of a program's malloc, for the tests of what `compare` says."""

import re
import subprocess
from typing import Mapping, Sequence

# In gdb's own Python. The loader calls malloc too, also inlined; that does not count. Qualified:
# java's os::malloc is no malloc.
COUNT = """
import collections, gdb
calls = collections.Counter()
class Malloc(gdb.Breakpoint):
    def stop(self):
        place = gdb.solib_name(gdb.selected_frame().pc()) or gdb.current_progspace().filename
        if "/ld-linux" not in place:
            calls[place] += 1
        return sum(calls.values()) >= %d
Malloc("malloc", qualified=True)
"""
IGNORED = ("SIGSEGV", "SIGUSR1", "SIGSYS", "SIGPIPE", "SIGURG")
PATIENCE = 600
# gdb 13.1 now and then takes a status of one of Go's threads for an impossible one.
OWN_FAULT = "A problem internal to GDB has been detected"
TRIES = 5


def malloc_calls(
    command: Sequence[str], environment: Mapping[str, str], most: int = 300
) -> dict[str, int]:
    """In which objects gdb stops when the program's own process calls malloc, `most` times.
    command: a program's file and its arguments. Raises ValueError where gdb fails."""
    words = [
        *("set debuginfod enabled off", "set startup-with-shell off", "set pagination off"),
        *("set breakpoint pending on", "set auto-load off"),
        *(f"handle {name} nostop noprint pass" for name in IGNORED),
        *(f"set environment {name} {value}" for name, value in environment.items()),
        *(f"python exec({COUNT % most!r})", "run", "python print('calls:', dict(calls))", "kill"),
    ]
    line = ["gdb", "-q", "-nx", "-batch", *(part for word in words for part in ("-ex", word))]
    for _ in range(TRIES):
        done = subprocess.run(
            [*line, "--args", *command],
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            timeout=PATIENCE,
            check=False,
        )
        if OWN_FAULT not in done.stderr:
            break
    found = re.search(r"^calls: (.*)$", done.stdout, re.MULTILINE)
    if found is None:
        raise ValueError(f"gdb failed: {done.stderr}")
    return {name: int(count) for name, count in re.findall(r"'([^']+)': (\d+)", found[1])}
