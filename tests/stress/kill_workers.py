# SPDX-License-Identifier: MIT
"""A suite on a cluster whose workers are killed at random: nothing is lost, nothing doubled.

    /usr/bin/python3 tests/stress/kill_workers.py [RUNS [FILE]]   (50; run in the build directory)

Each run measures a suite of two programs on two workers. A worker is killed at a random moment, up
to three times, and a new one started in its place. In the end every program is there once, with all
of its rounds, and its deterministic figures are those of one machine.

FILE keeps a line of JSON for each run. What an earlier start has left there is not done again.
"""

import json
import os
import random
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path[:0] = [str(Path(__file__).resolve().parents[1] / name) for name in (".", "analysis")]
os.environ.setdefault("ALLOTROPE_BUILD_DIR", os.getcwd())

from conftest import Command  # noqa: E402
from test_cluster import TWO, Cluster, begin, deterministic, read, words  # noqa: E402
from under import BUILD, HANG  # noqa: E402

MOST_KILLS = 3  # Dask gives a task up when four workers have ended under it
LONGEST_WAIT = 6.0


def one_run(suite: Path, folder: Path) -> tuple[int, str]:
    """How many workers were killed, and what the command said."""
    cluster = Cluster(folder)
    kills = 0
    try:
        for _ in range(2):
            cluster.start_worker()
        started = begin(Command(BUILD), suite, folder, cluster)
        while kills < MOST_KILLS and started.poll() is None:
            try:
                started.wait(random.uniform(0, LONGEST_WAIT))
            except subprocess.TimeoutExpired:
                cluster.workers.pop(random.randrange(2)).kill()
                cluster.start_worker()
                kills += 1
        _, errors = started.communicate(timeout=HANG)
        if started.returncode != 0:
            raise SystemExit(f"status {started.returncode}: {errors}")
        return kills, errors
    finally:
        cluster.end()


def measure(runs: int, kept: Path) -> None:
    """Does the runs that `kept` has not, and adds a line for each."""
    done = len(lines_of(kept))
    with tempfile.TemporaryDirectory() as name:
        suite = Path(name, "suite.toml")
        suite.write_text(TWO)
        folder = Path(name, "0000")
        folder.mkdir()
        Command(BUILD).run(*words(suite, folder)).check_returncode()
        expected = deterministic(read(folder))
        for number in range(done + 1, runs + 1):
            folder = Path(name, f"{number:04}")
            folder.mkdir()
            kills, errors = one_run(suite, folder)
            same = deterministic(read(folder)) == expected
            once = errors.count(" was measured on ") == len(expected)
            line = {"run": number, "kills": kills, "same": same, "once": once}
            with kept.open("a") as file:
                file.write(json.dumps(line) + "\n")
            said = "same" if same and once else f"DIFFERENT: {errors}"
            print(f"run {number}: {kills} workers killed, {said}", flush=True)


def lines_of(kept: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in kept.read_text().splitlines()] if kept.exists() else []


def main() -> int:
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 50
    with tempfile.TemporaryDirectory() as name:
        kept = Path(sys.argv[2]) if len(sys.argv) > 2 else Path(name, "lines")
        measure(runs, kept)
        lines = lines_of(kept)
    killed = sum(line["kills"] for line in lines)
    wrong = sum(not (line["same"] and line["once"]) for line in lines)
    print(f"{len(lines)} runs, {killed} workers killed, {wrong} runs with other figures")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
