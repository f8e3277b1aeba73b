# SPDX-License-Identifier: MIT
"""What a cluster costs by itself: tasks that do nothing, on 1 to 64 workers of this machine, and
from that, when it pays to have one.

    /usr/bin/python3 tests/measure/cluster_overhead.py [--workers 1,2,4,...] [--tasks 16,64,256]
        [--rounds R] [--kinds simulate,suite] [--cases FILE]...

A task is submitted, run and collected by the very code of the command, in a process of its own;
only what the worker starts does nothing. Two kinds, for the client deals with them in two ways:

    simulate    parts of a trace: Dask chooses the workers, any number at once on a host. A part is
                echo
    suite       programs: the client gives each idle worker one, and a host measures one at a time.
                So each worker has a host name and a /tmp of its own here, which needs root. A
                program is the command, over one round of true: that starts for each program, and
                on one machine once. What a worker is asked at first (its doctor) is among the costs
                of a worker

Nobody else may measure on this machine: parts of a trace wait for the timing slot.

The model, fitted to the medians by least squares without negative terms, W workers, n tasks:

    seconds = start + worker * W + task * n + alone * n / min(W, processors)

"task" is what client and scheduler do, one after the other; "alone" what goes on at each worker at
once. Work of t seconds on one machine then takes that and t / W. The workers share the processors
here and have their own on a cluster, so "worker" is too large for one. Beside the model is the
processor time of client and scheduler alone.

--cases are what cluster_trace.py and cluster_machines.py have written: the model is held against
them. It needs some 100 MB of memory for each worker.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, Mapping, Sequence

SOURCE = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(SOURCE / name) for name in ("tests", "tests/analysis", "analysis")]
os.environ.setdefault("ALLOTROPE_BUILD_DIR", os.getcwd())

PROCESSORS = os.cpu_count() or 1
PATIENCE = 600.0
TERMS = ("start", "worker", "task", "alone")
Fit = Mapping[str, float]  # seconds by term
SEEN_BY_ALL = "/var/tmp"  # each worker of a suite has a /tmp of its own
NOTHING = """title = "nothing"
[[program]]
name = "nothing"
command = ["true"]
"""
# A machine of its own, as far as the worker can tell.
ALONE = 'hostname "$1" && mount -t tmpfs tmpfs /tmp && shift && exec "$@"'


@dataclass(frozen=True)
class Point:
    """Seconds, by the clock and of client's and scheduler's processor."""

    workers: int
    tasks: int
    seconds: float
    cpu: float


def submit_parts(address: str, count: int, folder: str) -> None:
    from allotrope.features.cluster import simulate, worker
    from allotrope.features.cluster.connection import connected

    trace = str(Path(folder, "trace"))
    Path(trace).write_text("some file")
    asked = simulate.question([], trace) | {"command": ["echo"]}
    assert worker.see(asked)["unlike"] == []
    with connected(address, PATIENCE) as client:
        answers = simulate.Submission(client, asked, count, lambda *_: None, PATIENCE)
        assert len(answers.simulate_all()) == count


def submit_programs(address: str, count: int, folder: str) -> None:
    from allotrope.features.cluster import submission
    from allotrope.features.cluster.machines import ANY_NOISE, Machines

    suite = Path(folder, "suite.toml")
    suite.write_text(NOTHING)

    class Idle(submission.Tasks):
        scratch = "--state"

        def __init__(self) -> None:
            super().__init__(Machines(ANY_NOISE, replicate=1))
            self.left = {f"task {number}": 1 for number in range(count)}

        def missing(self) -> Mapping[str, int]:
            return self.left

        def depends_on(self) -> list[str]:
            return submission.installed_files()

        def command(self, name: str) -> Sequence[str]:
            own = ["--only", "nothing", "-a", "glibc", "--rounds", "1", "--warmup", "0"]
            compare = [sys.executable, "-I", sys.argv[0], "compare", "--json", "-"]
            return [*compare, "--suite", str(suite), *own]

        def keep(self, name: str, result: submission.Result) -> str | None:
            del self.left[name]
            return submission.ended_badly(result)

        def save(self) -> None:
            pass

        def goes_on(self) -> str:
            return ""

    sys.argv[0] = str(SOURCE / "analysis")  # by which a worker's doctor is asked
    tasks = Idle()
    submission.measure_tasks(tasks, address, lambda _: None, PATIENCE)
    assert not tasks.failures, tasks.failures


SUBMIT = {"simulate": submit_parts, "suite": submit_programs}


def cpu_of(process: int) -> float:
    """User and system seconds so far."""
    after = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(after[11]) + int(after[12])) / os.sysconf("SC_CLK_TCK")


def measure_point(kind: str, cluster: Any, workers: int, tasks: int) -> Point:
    """One command's worth of tasks."""
    own = ["--one", kind, cluster.address, str(tasks)]
    before, begun = cpu_of(cluster.scheduler.pid), time.monotonic()
    process = subprocess.Popen([sys.executable, __file__, *own])
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.monotonic() - begun
    if status != 0:
        raise SystemExit(f"{kind}, {workers} workers, {tasks} tasks: status {status}")
    scheduler = cpu_of(cluster.scheduler.pid) - before
    return Point(workers, tasks, seconds, usage.ru_utime + usage.ru_stime + scheduler)


def measure(kind: str, workers: int, asked: argparse.Namespace) -> list[Point]:
    """Medians, one for each number of tasks, of a cluster of so many workers."""
    from distributed import Client
    from test_cluster import Cluster

    found = []
    with tempfile.TemporaryDirectory(dir=SEEN_BY_ALL) as folder:
        cluster = Cluster(Path(folder))
        try:
            for number in range(workers):
                alone = ["unshare", "--uts", "--mount", "sh", "-c", ALONE, "sh", f"alone-{number}"]
                cluster.start_worker(*(alone if kind == "suite" else []))
            with Client(cluster.address, timeout=PATIENCE) as client:
                client.wait_for_workers(workers, timeout=PATIENCE)
            for tasks in asked.tasks:
                rounds = [measure_point(kind, cluster, workers, tasks) for _ in range(asked.rounds)]
                point = Point(
                    workers,
                    tasks,
                    median(one.seconds for one in rounds),
                    median(one.cpu for one in rounds),
                )
                print(f"| {kind} | {workers} | {tasks} | {point.seconds:.2f} | {point.cpu:.2f} |")
                sys.stdout.flush()
                found.append(point)
        finally:
            cluster.end()
    return found


def row(workers: float, tasks: float) -> list[float]:
    """What the terms are multiplied by."""
    return [1.0, workers, tasks, tasks / min(workers, PROCESSORS)]


def fit(points: Sequence[Point]) -> Fit:
    import numpy as np
    from scipy.optimize import nnls

    rows = np.array([row(one.workers, one.tasks) for one in points])
    # Relative errors count: a point of 64 workers is not to decide alone.
    weights = np.array([1 / one.seconds for one in points])
    found, _ = nnls(rows * weights[:, None], np.ones(len(points)))
    return dict(zip(TERMS, map(float, found)))


def fit_cpu(points: Sequence[Point]) -> Fit:
    import numpy as np
    from scipy.optimize import nnls

    rows = np.array([row(one.workers, one.tasks)[:3] for one in points])
    found, _ = nnls(rows, np.array([one.cpu for one in points]))
    return dict(zip(TERMS, map(float, found)))


def overhead(terms: Fit, workers: float, tasks: float) -> float:
    return sum(terms[name] * times for name, times in zip(TERMS, row(workers, tasks)))


def least_work(terms: Fit, workers: int, tasks: int) -> float:
    """From how many seconds on one machine the cluster is the faster. Each worker has processors of
    its own there, so what goes on at the workers is shared by all of them."""
    own = terms["start"] + terms["worker"] * workers + terms["task"] * tasks
    return (own + terms["alone"] * tasks / workers) / (1 - 1 / workers)


def tell(kind: str, points: Sequence[Point], cases: Sequence[Mapping[str, Any]]) -> None:
    terms = fit(points)
    said = ", ".join(f"{name} {1000 * seconds:.1f}" for name, seconds in terms.items())
    errors = [overhead(terms, one.workers, one.tasks) / one.seconds - 1 for one in points]
    print(f"\n{kind}: milliseconds: {said}")
    print(f"    against what it was fitted to: {min(errors):+.0%} to {max(errors):+.0%}")
    cpu = ", ".join(f"{name} {1000 * one:.1f}" for name, one in fit_cpu(points).items())
    print(f"    processor time of client and scheduler, milliseconds: {cpu}")
    for workers in (2, 4, 16, 64):
        pays = [f"{least_work(terms, workers, tasks):.1f} s of {tasks}" for tasks in (workers, 256)]
        print(f"    {workers} workers pay from {' tasks, '.join(pays)} tasks on")
    for case in cases:
        if case["kind"] != kind:
            continue
        work = case["one_machine"] / case["at_once"]
        expected = overhead(terms, case["workers"], case["tasks"]) + work
        print(
            f"    {case['name']}: {case['one_machine']:.2f} s here, {expected:.2f} s expected, "
            f"{case['seconds']:.2f} s measured ({expected / case['seconds'] - 1:+.0%})"
        )


def numbers(text: str) -> list[int]:
    return [int(one) for one in text.split(",")]


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--workers", type=numbers, default=[1, 2, 4, 8, 16, 32, 64])
    parser.add_argument("--tasks", type=numbers, default=[16, 64, 256])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--kinds", default="simulate,suite")
    parser.add_argument("--cases", type=Path, action="append", default=[])
    parser.add_argument("--one", nargs=3, metavar=("KIND", "ADDRESS", "TASKS"))
    asked = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # takes all down
    if asked.one:
        kind, address, tasks = asked.one
        with tempfile.TemporaryDirectory(dir=SEEN_BY_ALL) as folder:
            SUBMIT[kind](address, int(tasks), folder)
        return 0
    kinds = asked.kinds.split(",")
    if "suite" in kinds and os.geteuid() != 0:
        raise SystemExit("--kinds suite needs root: each worker has a /tmp of its own")
    if len(asked.tasks) < 2 or len(asked.workers) < 2:
        raise SystemExit("the model needs two numbers of workers and of tasks")
    cases = [case for file in asked.cases for case in json.loads(file.read_text())["cases"]]
    print("| kind | workers | tasks | seconds | processor seconds of client and scheduler |")
    print("|---|--:|--:|--:|--:|")
    found = {kind: [measure(kind, workers, asked) for workers in asked.workers] for kind in kinds}
    for kind, by_workers in found.items():
        tell(kind, [point for points in by_workers for point in points], cases)
    return 0


if __name__ == "__main__":
    sys.exit(main())
