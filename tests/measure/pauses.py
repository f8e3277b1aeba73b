# SPDX-License-Identifier: MIT
"""Pauses of the collector, its kinds apart, and what they cost.

    /usr/bin/python3 tests/measure/pauses.py [ROUNDS] [--program NAME]... [-s SPEC]... [--seconds N]
                                             [--first-in-line]

Run in the build directory. Programs: destroy 18, destroy 21, session_cache, thread_churn, foreign
(python3 with a gigabyte of mappings of its own), redis and node with 500 MB and more live under a
load of N seconds (180). Specs are of `gc`; by default a stopped world, generations, and generations
with cycles, each with frees ignored, and the last with frees that count. Rounds take turns; figures
are medians of the rounds, maxima are of all. --first-in-line: servers run before all others (chrt;
needs root), so that no stop has the scheduler's delay in it; what they fork does not.

A stop is all that a program sees of a collection, but for slices, in which the thread that
allocates marks. The 99th percentile is the upper end of its bucket, a power of two. `mmu` is the
least share of any 10 ms in which the world ran (ALLOTROPE_STATS: gc_stopped).
"""

import argparse
import contextlib
import json
import os
import resource
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any, Callable

SOURCE = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(SOURCE / name) for name in ("tests", "analysis", "bench_programs")]
os.environ.setdefault("ALLOTROPE_BUILD_DIR", os.getcwd())

from allotrope.features.server.plan import free_port  # noqa: E402
from collectors import foreign_script  # noqa: E402
from under import BUILD, LIBRARY  # noqa: E402

SPECS = (
    "gc:free=ignore,markers=1",
    "gc:free=ignore,markers=1,generations=2",
    "gc:free=ignore,markers=1,generations=2,concurrent=on,pause=5",
    "gc:markers=1,generations=2,concurrent=on,pause=5",
)
# 600,000 buffers of 100 to 1,900 bytes, of which a request replaces 500.
NODE = """
const held = [];
const size = i => 100 + (i * 7919) % 1800;
for (let i = 0; i < 600000; i++) held.push(Buffer.alloc(size(i), 1));
let next = 0;
require('http').createServer((request, response) => {
    for (let i = 0; i < 500; i++) {
        next = (next * 1103515245 + 12345) % 2147483648;
        held[next % held.length] = Buffer.alloc(size(next), 1);
    }
    response.end('done');
}).listen(Number(process.argv[1]), '127.0.0.1');
process.on('SIGINT', () => process.exit(0));
"""


@dataclass
class Found:
    """What one run's statistics say."""

    figures: dict[str, Any]
    cpu: float
    requests: int = 0
    stops: list[tuple[float, int]] = field(default_factory=list)  # bucket's upper end in ms, number

    def __post_init__(self) -> None:
        for key, count in self.figures.get("gc_pauses", {}).items():
            at = int(key.removeprefix("from_").removesuffix("_us").removeprefix("2^"))
            self.stops.append((2 ** (at + 1) / 1e3, count))
        self.stops.sort()

    def quantile(self, share: float) -> float:
        total, seen = sum(count for _, count in self.stops), 0
        for end, count in self.stops:
            seen += count
            if seen >= share * total:
                return end
        return float("nan")

    def of(self, kind: str, key: str) -> float:
        return float(self.figures.get(kind, {}).get(key, 0))

    def mean_ms(self, kind: str) -> float:
        count = self.of(kind, "collections")
        return self.of(kind, "pause_ns") / count / 1e6 if count else float("nan")


def environment(spec: str, statistics: Path) -> dict[str, str]:
    added = {"LD_PRELOAD": str(LIBRARY), "ALLOTROPE": spec, "ALLOTROPE_STATS": str(statistics)}
    return {**os.environ, **added, "PYTHONMALLOC": "malloc"}


def run(command: list[str], spec: str, folder: Path) -> Found:
    statistics = folder / "s.json"
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        command, env=environment(spec, statistics), stdout=subprocess.DEVNULL, check=False
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode != 0:
        sys.exit(f"pauses: {command[0]} under {spec}: status {done.returncode}")
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Found(json.loads(statistics.read_text()), cpu)


def served(
    command: list[str], port: int, load: Callable[[int, float], int], spec: str, folder: Path
) -> Found:
    statistics = folder / "s.json"
    before = ["chrt", "--rr", "--reset-on-fork", "1"] if ASKED.first_in_line else []
    process = subprocess.Popen(
        [*before, *command],
        env=environment(spec, statistics),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        cwd=folder,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    deadline = time.monotonic() + 300
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError):
            socket.create_connection(("127.0.0.1", port), timeout=300).close()
            break
        time.sleep(0.2)
    number = load(port, ASKED.seconds)
    times = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    cpu = (int(times[11]) + int(times[12])) / os.sysconf("SC_CLK_TCK")
    process.send_signal(signal.SIGINT)
    process.wait(timeout=300)
    return Found(json.loads(statistics.read_text()), cpu, number)


def load_redis(port: int, seconds: float) -> int:
    """2,000,000 keys of 200 bytes, then the same at random for so long."""
    common = ["redis-benchmark", "-q", "-p", str(port), "-r", "2000000", "-d", "200", "-P", "16"]
    subprocess.run([*common, "-n", "4000000", "-t", "set"], stdout=subprocess.DEVNULL, check=True)
    until, number = time.monotonic() + seconds, 0
    while time.monotonic() < until:
        more = [*common, "-n", "400000", "-t", "set,lpush,lpop"]
        subprocess.run(more, stdout=subprocess.DEVNULL, check=True)
        number += 1200000
    return number


def load_node(port: int, seconds: float) -> int:
    until, counts = time.monotonic() + seconds, [0, 0]

    def keep_asking(place: int) -> None:
        while time.monotonic() < until:
            with socket.create_connection(("127.0.0.1", port), timeout=300) as one:
                one.sendall(b"GET / HTTP/1.0\r\n\r\n")
                while one.recv(4096):
                    pass
            counts[place] += 1

    threads = [threading.Thread(target=keep_asking, args=(place,)) for place in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(counts)


def redis(spec: str, folder: Path) -> Found:
    port = free_port()
    own = ["--port", str(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]
    return served(["redis-server", *own], port, load_redis, spec, folder)


def node(spec: str, folder: Path) -> Found:
    port = free_port()
    return served(["node", "-e", NODE, str(port)], port, load_node, spec, folder)


def tree(*words: str) -> Callable[[str, Path], Found]:
    program, *options = words
    command = [str(BUILD / "bench_programs" / program), *options]
    return lambda spec, folder: run(command, spec, folder)


def foreign(spec: str, folder: Path) -> Found:
    return run(["/usr/bin/python3", "-c", foreign_script(24)], spec, folder)


PROGRAMS: dict[str, Callable[[str, Path], Found]] = {
    "destroy 18": tree("destroy", "depth=18", "replace=200000"),
    "destroy 21": tree("destroy", "depth=21", "replace=200000"),
    "session_cache": tree("session_cache", "requests=400000"),
    "thread_churn": tree("thread_churn", "tasks=128"),
    "foreign": foreign,
    "redis": redis,
    "node": node,
}


def row(name: str, spec: str, found: list[Found]) -> str:
    def middle(value: Callable[[Found], float]) -> float:
        return median(value(one) for one in found)

    def most(kind: str, key: str) -> float:
        return max(one.of(kind, key) for one in found) / 1e6

    stops = sum(count for one in found for _, count in one.stops)
    cells = [
        name,
        spec.partition(":")[2],
        f"{stops}",
        f"{middle(lambda one: one.quantile(0.5)):.2f}",
        f"{middle(lambda one: one.quantile(0.99)):.1f}",
        f"{middle(lambda one: one.of('gc', 'longest_pause_ns')) / 1e6:.1f}",
        f"{most('gc', 'longest_pause_ns'):.1f}",
        f"{middle(lambda one: one.of('gc_minor', 'collections')):.0f}, "
        f"{middle(lambda one: one.mean_ms('gc_minor')):.2f}, "
        f"{most('gc_minor', 'longest_pause_ns'):.1f}",
        f"{middle(lambda one: one.of('gc_full', 'collections')):.0f}, "
        f"{middle(lambda one: one.mean_ms('gc_full')):.2f}, "
        f"{most('gc_full', 'longest_pause_ns'):.1f}",
        f"{most('gc_first_stop', 'longest_pause_ns'):.1f}",
        f"{most('gc_cycles', 'longest_slice_ns'):.1f}",
        f"{1 - most('gc_stopped', 'longest_in_10_ms_ns') / 10:.0%}",
        f"{middle(lambda one: one.of('gc', 'live_bytes')) / 1e6:.0f}",
        f"{middle(lambda one: float(one.figures['mapped_peak_bytes'])) / 1e6:.0f}",
        f"{middle(lambda one: one.cpu):.2f}",
    ]
    return "| " + " | ".join(cells) + " |"


HEAD = (
    "program, spec, stops, 50%, 99% below, longest, longest of all rounds, "
    "minor: number; mean; longest, full: number; mean; longest, longest first stop, "
    "longest slice, mmu 10 ms, live MB, peak MB, CPU s"
).split(", ")


def main() -> int:
    specs, names = ASKED.spec or SPECS, ASKED.program or list(PROGRAMS)
    print("| " + " | ".join(HEAD) + " |\n|" + "---|" * len(HEAD))
    with tempfile.TemporaryDirectory() as folder:
        for name in names:
            found: dict[str, list[Found]] = {spec: [] for spec in specs}
            for number in range(ASKED.rounds):
                shift = number % len(specs)
                for spec in [*specs[shift:], *specs[:shift]]:
                    found[spec].append(PROGRAMS[name](spec, Path(folder)))
            for spec in specs:
                print(row(name, spec, found[spec]), flush=True)
    return 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("rounds", type=int, nargs="?", default=3)
    parser.add_argument("--program", action="append", choices=PROGRAMS)
    parser.add_argument("-s", "--spec", action="append")
    parser.add_argument("--seconds", type=float, default=180.0)
    parser.add_argument("--first-in-line", action="store_true")
    ASKED = parser.parse_args()
    sys.exit(main())
