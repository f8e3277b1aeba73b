# SPDX-License-Identifier: MIT
"""A suite and a simulation on a cluster whose workers are killed at random: nothing is lost,
nothing doubled.

    /usr/bin/python3 tests/stress/kill_workers.py [RUNS [FILE]] [--seed S] [--work suite|trace]...

Each run (50) has two workers. A worker is killed at a random moment, up to three times, and a new
one started in its place. The moments come from the seed and the run's number; what is under way
then depends on the machine. Runs take the kinds of work in turn:

    suite   two programs. In the end each must be there once, with all of its rounds, and its
            deterministic figures must be those of one machine
    trace   six parts of pages, each of which waits half a second. The output must be that of one
            thread to the byte; references that are missing or too many are counted

FILE keeps a line of JSON for each run. What an earlier start has left there is not done again.
Run it in the build directory.
"""

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
from abc import ABC, abstractmethod
from collections import Counter
from pathlib import Path
from typing import Any

sys.path[:0] = [str(Path(__file__).resolve().parents[1] / name) for name in (".", "analysis")]
os.environ.setdefault("ALLOTROPE_BUILD_DIR", os.getcwd())

from conftest import Command, record_threads  # noqa: E402
from test_cluster import (  # noqa: E402
    TWO,
    Cluster,
    begin,
    deterministic,
    read,
    simulate_words,
    words,
)
from under import BUILD, HANG  # noqa: E402

MOST_KILLS = 3  # Dask gives a task up when four workers have ended under it
WORKERS = 2


class Work(ABC):
    longest_wait: float  # seconds from one kill to the next

    @abstractmethod
    def begin(self, folder: Path, cluster: Cluster) -> subprocess.Popen[str]:
        """The command, whose standard error is a pipe."""

    @abstractmethod
    def judge(self, folder: Path, errors: str) -> dict[str, Any]:
        """What became of it: whether the figures are the `same`, and how much of it is `lost` and
        `doubled`."""


class Suite(Work):
    longest_wait = 6.0

    def __init__(self, folder: Path) -> None:
        self.file = folder / "suite.toml"
        self.file.write_text(TWO)
        Command(BUILD).run(*words(self.file, folder)).check_returncode()
        self.expected = deterministic(read(folder))

    def begin(self, folder: Path, cluster: Cluster) -> subprocess.Popen[str]:
        return begin(Command(BUILD), self.file, folder, cluster)

    def judge(self, folder: Path, errors: str) -> dict[str, Any]:
        document = read(folder)
        names = Counter(entry["name"] for entry in document["programs"] if entry["comparison"])
        # A program that was kept twice is told twice, too.
        told = errors.count(" was measured on ") - len(self.expected)
        return {
            "same": not without_figures(document) and deterministic(document) == self.expected,
            "lost": sum(name not in names for name in self.expected),
            "doubled": max(told, sum(names.values()) - len(names)),
            "begun_anew": errors.count("was lost; begun anew"),
        }


def without_figures(document: dict[str, Any]) -> list[str]:
    """The programs that were not measured."""
    return [entry["name"] for entry in document["programs"] if not entry["comparison"]]


class Trace(Work):
    longest_wait = 2.0
    parts = 6

    def __init__(self, folder: Path) -> None:
        self.trace = record_threads(Command(BUILD), folder)
        simulator = folder / "build" / "allotrope-simulate"
        simulator.parent.mkdir()
        waits = 'case "$*" in *--part*) sleep 0.5;; esac'
        simulator.write_text(f'#!/bin/sh\n{waits}\nexec "{BUILD}/allotrope-simulate" "$@"\n')
        simulator.chmod(0o755)
        self.command = Command(simulator.parent)
        done = Command(BUILD).run(*simulate_words("pages", self.trace))
        done.check_returncode()
        self.expected = done.stdout

    def begin(self, folder: Path, cluster: Cluster) -> subprocess.Popen[str]:
        own = ["--jobs", str(self.parts), "--cluster", cluster.address]
        # A file: nobody reads a pipe while workers are killed.
        line = ["simulate", "pages", "--json", str(folder / "json"), *own, str(self.trace)]
        return self.command.start(*line, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)

    def judge(self, folder: Path, errors: str) -> dict[str, Any]:
        found = (folder / "json").read_text()
        more = references_of(found) - references_of(self.expected)
        return {"same": found == self.expected, "lost": max(0, -more), "doubled": max(0, more)}


def references_of(document: str) -> int:
    return int(json.loads(document)["references"])


KINDS = {"suite": Suite, "trace": Trace}


def one_run(work: Work, folder: Path, dice: random.Random) -> tuple[int, str]:
    """How many workers were killed, and what the command said."""
    cluster = Cluster(folder)
    kills = 0
    try:
        for _ in range(WORKERS):
            cluster.start_worker()
        started = work.begin(folder, cluster)
        while kills < MOST_KILLS and started.poll() is None:
            try:
                started.wait(dice.uniform(0, work.longest_wait))
            except subprocess.TimeoutExpired:
                cluster.workers.pop(dice.randrange(WORKERS)).kill()
                cluster.start_worker()
                kills += 1
        _, errors = started.communicate(timeout=HANG)
        if started.returncode != 0:
            raise SystemExit(f"status {started.returncode}: {errors}")
        return kills, errors
    finally:
        cluster.end()


def measure(asked: argparse.Namespace, kept: Path) -> None:
    """Does the runs that `kept` has not, and adds a line for each."""
    done = len(lines_of(kept))
    with tempfile.TemporaryDirectory() as name:
        works: dict[str, Work] = {}
        for kind in asked.work:
            folder = Path(name, kind)
            folder.mkdir()
            works[kind] = KINDS[kind](folder)
        for number in range(done + 1, asked.runs + 1):
            kind = asked.work[number % len(asked.work)]
            folder = Path(name, f"{number:04}")
            folder.mkdir()
            dice = random.Random(f"{asked.seed} {number}")
            kills, errors = one_run(works[kind], folder, dice)
            line: dict[str, Any] = {"run": number, "work": kind, "seed": asked.seed, "kills": kills}
            line |= works[kind].judge(folder, errors)
            with kept.open("a") as file:
                file.write(json.dumps(line) + "\n")
            print(f"run {number}, {kind}: {kills} workers killed, {told(line)}", flush=True)
            if is_wrong(line):
                print(errors, file=sys.stderr)


def is_wrong(line: dict[str, Any]) -> bool:
    return not line["same"] or bool(line["lost"] or line["doubled"])


def told(line: dict[str, Any]) -> str:
    same = "same figures" if line["same"] else "OTHER FIGURES"
    return f"{same}, {line['lost']} lost, {line['doubled']} doubled"


def lines_of(kept: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in kept.read_text().splitlines()] if kept.exists() else []


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("runs", nargs="?", type=int, default=50)
    parser.add_argument("file", nargs="?", type=Path)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--work", action="append", choices=KINDS)
    asked = parser.parse_args()
    asked.work = asked.work or list(KINDS)
    with tempfile.TemporaryDirectory() as name:
        kept = asked.file or Path(name, "lines")
        measure(asked, kept)
        lines = lines_of(kept)
    for kind in asked.work:
        own = [line for line in lines if line["work"] == kind]
        killed, wrong = sum(one["kills"] for one in own), sum(map(is_wrong, own))
        lost, doubled = (sum(one[name] for one in own) for name in ("lost", "doubled"))
        print(
            f"{kind}: {len(own)} runs, {killed} workers killed; {lost} lost, {doubled} doubled, "
            f"{wrong} runs with something wrong"
        )
    return 1 if any(map(is_wrong, lines)) else 0


if __name__ == "__main__":
    sys.exit(main())
