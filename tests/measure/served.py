# SPDX-License-Identifier: MIT
"""Whether `compare` says of who served a program what a debugger says.

    python3 tests/measure/served.py [-a ALLOCATOR]... -- CMD...

For each allocator: the row of CMD's own process as compare writes it, and in which objects gdb
stops when that process calls malloc, 300 times. CMD is a program, not a shell's words.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "analysis"))
os.environ.setdefault("ALLOTROPE_BUILD_DIR", str(ROOT))

from allotrope.features.compare.measure import Plan, compare  # noqa: E402
from allotrope.features.compare.output import as_document  # noqa: E402
from allotrope.system.allocators import Allocator, choose, for_program  # noqa: E402

# In gdb's own Python. The loader calls malloc too, also inlined; that does not count.
COUNT = """
import collections, gdb
calls = collections.Counter()
class Malloc(gdb.Breakpoint):
    def stop(self):
        place = gdb.solib_name(gdb.selected_frame().pc()) or gdb.current_progspace().filename
        if "/ld-linux" not in place:
            calls[place] += 1
        return sum(calls.values()) >= 300
Malloc("malloc")
"""


def said_by_compare(command: list[str], chosen: list[Allocator]) -> list[str]:
    plan = Plan(command, chosen, rounds=1, warmup=0, check="none")
    name = Path(command[0]).name
    said = []
    for result in as_document(compare(plan))["results"]:
        rows = result["served"]["rows"] if result["served"] else []
        row = next((row for row in rows if row["command"] == name), None)
        said.append(f"{result['status']}: {row['object'] if row else 'no row'}")
    return said


def said_by_gdb(command: list[str], allocator: Allocator) -> str:
    environment = for_program(allocator, command[0]).environment()
    words = [
        *("set debuginfod enabled off", "set startup-with-shell off", "set pagination off"),
        *("set breakpoint pending on", "set auto-load off"),
        *(f"handle {name} nostop noprint pass" for name in ("SIGSEGV", "SIGUSR1", "SIGSYS")),
        *(f"set environment {name} {value}" for name, value in environment.items()),
        *(f"python exec({COUNT!r})", "run", "python print('calls:', dict(calls))", "kill"),
    ]
    line = ["gdb", "-q", "-nx", "-batch", *(part for word in words for part in ("-ex", word))]
    program = shutil.which(command[0]) or command[0]
    done = subprocess.run(
        [*line, "--args", program, *command[1:]], capture_output=True, text=True, timeout=600
    )
    found = re.search(r"^calls: (.*)$", done.stdout, re.MULTILINE)
    return found[1] if found else "gdb failed"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-a", "--allocator", action="append", default=[])
    parser.add_argument("command", nargs="+")
    options = parser.parse_args()
    chosen = [choose(spec) for spec in ["glibc", *(options.allocator or ["blocks", "jemalloc"])]]
    for said, allocator in zip(said_by_compare(options.command, chosen), chosen):
        print(f"{allocator.spec:10} compare: {said}")
        print(f"{'':10} gdb:     {said_by_gdb(options.command, allocator)}", flush=True)


if __name__ == "__main__":
    main()
