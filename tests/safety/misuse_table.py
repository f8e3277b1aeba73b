# SPDX-License-Identifier: MIT
"""The table of heap misuse: what becomes of each program of the corpus under each allocator.

    python3 tests/safety/misuse_table.py [--runs 20] [--under NAME …] [--only TEXT] [--cases]

A run is, by its exit and what stands on standard error (misuse.h):

    caught      the allocator ended the process, or a guard faulted at the very access
    reported    it went on, and the allocator has said what is wrong
    harmless    it went on, nobody has said anything, and no memory was harmed
    undetected  it went on and memory was harmed, or the fault was unnoticed; or it crashed
                elsewhere, which is luck

A program is what all of its runs are; of runs that differ, the worst. Addresses are random in
each run, so what depends on them shows. docs/measurements/safety.md has the result.
"""

import argparse
import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Iterable, Sequence

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from under import (  # noqa: E402
    BUILD,
    GLIBC,
    HANG,
    LIBRARY,
    Under,
    described_specs,
    plain_environment,
)

MISUSE = BUILD / "tests" / "safety" / "misuse"
CLASSES = ("caught", "reported", "harmless", "undetected")  # from best to worst
APART = "over-read"

EXIT_HARMLESS, EXIT_HARMED, EXIT_FAULT_AT_ACCESS, EXIT_FAULT_ELSEWHERE = 0, 1, 77, 78
CATCHES = {signal.SIGABRT, signal.SIGILL, signal.SIGTRAP}

Case = tuple[str, str]  # category, name

LIBRARIES = "/usr/lib/x86_64-linux-gnu"
RUNTIMES = "/usr/lib/llvm-14/lib/clang/14.0.6/lib/linux"
FOREIGN = {
    "jemalloc": f"{LIBRARIES}/libjemalloc.so.2",
    "mimalloc": f"{LIBRARIES}/libmimalloc.so.2",
    "mimalloc 3": f"{LIBRARIES}/libmimalloc.so.3",
    "scudo": f"{RUNTIMES}/libclang_rt.scudo_standalone-x86_64.so",
}


def corpus() -> list[Case]:
    lines = subprocess.run([str(MISUSE)], capture_output=True, text=True, check=True).stdout
    return [(category, name) for category, name in map(str.split, lines.splitlines())]


def class_of(status: int, said: str) -> str:
    if status == EXIT_FAULT_AT_ACCESS or (status < 0 and -status in CATCHES):
        return "caught"
    if said.strip():
        return "reported"
    if status in (EXIT_HARMED, EXIT_FAULT_ELSEWHERE) or status < 0:
        return "undetected"
    if status == EXIT_HARMLESS:
        return "harmless"
    raise ValueError(f"exit status {status} of a program of the corpus: {said}")


def run_once(under: Under, case: Case) -> tuple[int, str]:
    process = subprocess.run(
        [str(MISUSE), *case],
        env=plain_environment() | under.environment(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        timeout=HANG,
        errors="replace",
        check=False,
    )
    return process.returncode, process.stderr


def judge(under: Under, case: Case, runs: int) -> str:
    found = {class_of(*run_once(under, case)) for _ in range(runs)}
    return max(found, key=CLASSES.index)


def contenders() -> list[Under]:
    ours = [Under(spec, LIBRARY, spec) for spec in described_specs()]
    foreign = [Under(name, Path(path)) for name, path in FOREIGN.items() if os.path.exists(path)]
    return [GLIBC, *foreign, *ours]


Results = dict[str, dict[Case, str]]  # by allocator


def row(cells: Iterable[object]) -> str:
    return "| " + " | ".join(map(str, cells)) + " |"


def totals(results: Results) -> list[str]:
    lines = [row(["allocator", *CLASSES, "of"]), row(["---"] + ["--:"] * 5)]
    for name, classes in results.items():
        count = Counter(kind for case, kind in classes.items() if case[0] != APART)
        lines.append(row([f"`{name}`", *(count[kind] for kind in CLASSES), count.total()]))
    return lines


def by_category(results: Results) -> list[str]:
    """Of each category how many programs were caught or reported, + how many harmless."""
    categories = list(dict.fromkeys(case[0] for case in next(iter(results.values()))))
    lines = [row(["allocator", *categories]), row(["---"] + ["--:"] * len(categories))]
    sizes = Counter(case[0] for case in next(iter(results.values())))
    lines.append(row(["programs", *(sizes[category] for category in categories)]))
    for name, classes in results.items():
        count = Counter((case[0], kind) for case, kind in classes.items())
        cells = [
            f"{count[category, 'caught'] + count[category, 'reported']}"
            + (f" + {count[category, 'harmless']}" if count[category, "harmless"] else "")
            for category in categories
        ]
        lines.append(row([f"`{name}`", *cells]))
    return lines


def each_case(results: Results) -> list[str]:
    names = list(results)
    lines = [row(["program", *names]), row(["---"] * (len(names) + 1))]
    for case in next(iter(results.values())):
        lines.append(row([" ".join(case), *(results[name][case] for name in names)]))
    return lines


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description="what becomes of heap misuse, by allocator")
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--under", nargs="*", help="names as in the table, or specifications")
    parser.add_argument("--only", default="", help="programs whose name has this in it")
    parser.add_argument("--cases", action="store_true", help="a line for each program too")
    chosen = parser.parse_args(arguments)
    named = {under.name: under for under in contenders()}
    names = chosen.under or list(named)
    unders = [named.get(name, Under(name, LIBRARY, name)) for name in names]
    cases = [case for case in corpus() if chosen.only in " ".join(case)]
    results: Results = {}
    for under in unders:
        results[under.name] = {case: judge(under, case, chosen.runs) for case in cases}
        print(f"{under.name} done", file=sys.stderr, flush=True)
    parts = [totals(results), by_category(results)] + ([each_case(results)] if chosen.cases else [])
    print("\n\n".join("\n".join(part) for part in parts))


if __name__ == "__main__":
    main(sys.argv[1:])
