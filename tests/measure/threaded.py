#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""CPU time to glibc's of the threaded programs of bench_programs, with 1, 2 and 4 threads at once.

    tests/measure/threaded.py [ROUNDS]

Run from the top of the build tree. Rounds are interleaved; each figure is the median of the ratios
round by round.
"""

import os
import resource
import statistics
import subprocess
import sys

PROGRAMS = {
    "bleeding_server": ["threads={}", "threadlife=12"],
    "dying_threads": ["lives=2000", "threads={}"],
    "false_sharing": ["threads={}", "rounds=20000"],
    "live_set": ["threads={}", "pairs=800000"],
    "producer_consumer": ["pairs={}", "messages=2000000"],
    "thread_churn": ["threads={}", "tasks=16"],
}
OURS = ["blocks", "knuth", "cartesian", "bsd", "gnu"]


def cpu_seconds(allocator: str, command: list[str]) -> float:
    environment = dict(os.environ)
    if allocator != "glibc":
        environment["LD_PRELOAD"] = os.path.abspath(".libs/liballotrope.so")
        environment["ALLOTROPE"] = allocator
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, env=environment, stdout=subprocess.DEVNULL, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def row(command: list[str], rounds: int) -> list[float]:
    ratios: dict[str, list[float]] = {name: [] for name in OURS}
    for number in range(rounds):
        shift = number % len(OURS)
        base = cpu_seconds("glibc", command)
        for name in OURS[shift:] + OURS[:shift]:
            ratios[name].append(cpu_seconds(name, command) / base)
    return [statistics.median(ratios[name]) for name in OURS]


def main(rounds: int) -> None:
    print("| program | threads |", " | ".join(OURS), "|\n|---|--:|" + "--:|" * len(OURS))
    for program, arguments in PROGRAMS.items():
        for threads in (1, 2, 4):
            command = [f"bench_programs/{program}", *(text.format(threads) for text in arguments)]
            cells = " | ".join(f"{ratio:.2f}" for ratio in row(command, rounds))
            print(f"| {program} | {threads} | {cells} |", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 5)
