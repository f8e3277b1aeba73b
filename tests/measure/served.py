# SPDX-License-Identifier: MIT
"""Whether `compare` says of who served a program what a debugger says.

    python3 tests/measure/served.py [-a ALLOCATOR]... -- CMD...

For each allocator: the row of CMD's own process as compare writes it, and in which objects gdb
stops when that process calls malloc, 300 times. CMD is a program, not a shell's words.
"""

import argparse
import os
import shutil
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "analysis"), str(ROOT / "tests")]
os.environ.setdefault("ALLOTROPE_BUILD_DIR", str(ROOT))

from allotrope.features.compare.comparison import Plan  # noqa: E402
from allotrope.features.compare.measure import compare  # noqa: E402
from allotrope.features.compare.output import as_document  # noqa: E402
from allotrope.system.allocators import Allocator, choose, for_program  # noqa: E402
from debugger import malloc_calls  # noqa: E402


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
    program = shutil.which(command[0]) or command[0]
    return str(malloc_calls([program, *command[1:]], environment))


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
