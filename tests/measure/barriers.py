#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""The figures of docs/measurements/barriers.md: make && tests/measure/barriers.py PROGRAM [ROUNDS]

PROGRAM is destroy, interactive, json or loop. Phases as percentages of `dirty`, which is composed
as Hosking & Moss 1993 do; medians of rounds in which the barriers take turns."""

import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

RUNTIME = Path(__file__).resolve().parents[2] / "bench_programs" / "runtime"
CARDS = [f"cards-{size}" for size in (16, 64, 256, 512, 1024, 4096)]
BARRIERS = ["remsets", *CARDS, "scan-512", "scan-4096", "pages", "oracle", "kernel"]
LOOPS = ["remsets", *CARDS, "pages", "kernel"]
PHASES = ("running", "roots", "promoted", "other")
PROGRAMS = {
    "destroy": ["kernel.st", "destroy.st"],
    "interactive": ["kernel.st", "compiler.st", "interactive.st", "young=520000"],
    "json": ["kernel.st", "json.st", "young=524288"],
}


def run(program: str, *words: str) -> dict[str, Any]:
    command = [str(RUNTIME / program), *words]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, cwd=RUNTIME)
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def phases(name: str, rounds: int, record: str) -> None:
    run("run-pages", *PROGRAMS[name], record)
    runs: dict[str, list[dict[str, Any]]] = {barrier: [] for barrier in BARRIERS}
    for turn in range(rounds):
        at = turn % len(BARRIERS)
        for barrier in BARRIERS[at:] + BARRIERS[:at]:
            words = [*PROGRAMS[name], *([record] if barrier == "oracle" else [])]
            runs[barrier].append(run(f"run-{barrier}", *words)["ns"])
    middle = {
        barrier: {phase: statistics.median(ns[phase] for ns in found) for phase in PHASES}
        for barrier, found in runs.items()
    }
    dirty = {**middle["oracle"], "other": middle["cards-4096"]["other"]}
    print("| | dirty, ms |", " | ".join(BARRIERS), "|")
    print("|---|--:|" + "--:|" * len(BARRIERS))
    for phase in (*PHASES, "total"):
        parts = PHASES if phase == "total" else (phase,)
        whole = sum(dirty[part] for part in parts)
        shares = [sum(middle[barrier][part] for part in parts) / whole for barrier in BARRIERS]
        cells = " | ".join(f"{share:.0%}" for share in shares)
        print(f"| {phase} | {whole / 1e6:.2f} | {cells} |")


def loops(rounds: int) -> None:
    runs = [{barrier: run(f"loop-{barrier}", "50") for barrier in LOOPS} for _ in range(rounds)]
    kinds = [kind for kind in runs[0]["remsets"] if kind != "barrier"]
    print("| barrier |", " | ".join(kinds), "|")
    print("|---|" + "--:|" * len(kinds))
    for barrier in LOOPS:
        middle = (statistics.median(each[barrier][kind] for each in runs) for kind in kinds)
        print(f"| {barrier} |", " | ".join(f"{ns:.2f}" for ns in middle), "|")


def main() -> int:
    name, rounds = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 9
    if name == "loop":
        loops(rounds)
        return 0
    with tempfile.TemporaryDirectory() as folder:
        phases(name, rounds, f"file={folder}/dirty-pages")
    return 0


if __name__ == "__main__":
    sys.exit(main())
