# SPDX-License-Identifier: MIT
"""One trace simulated by N threads here, and by workers of a cluster on this machine: whether the
output is the same to the byte, how long it takes, and how many bytes are read.

    /usr/bin/python3 tests/measure/cluster_trace.py [--references N] [--word pages|caches|tlb]
        [--rounds R] [--workers 1,2,4] [--jobs 1,2] [--trace FILE] [--json FILE]

The trace is gawk's (bench_programs/gawk_fill), of N references (10^7, the aim is 10^9). --trace
keeps it: a file that is there is used, whatever it is of. It is read once before anything is timed,
so it comes out of memory where it fits.

The ways take turns in each round. A cluster exists before its turn begins, so what is timed is the
command, as with threads. Bytes are those that the command, the workers and the simulators asked the
kernel for by read(): the trace, what workers hand on through pipes, and Python's own modules. Ends
with status 1 when an output differs.

--json writes the seconds, for cluster_overhead.py --cases.
"""

import argparse
import hashlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Iterator, Sequence

sys.path[:0] = [str(Path(__file__).resolve().parents[1] / name) for name in (".", "analysis")]
os.environ.setdefault("ALLOTROPE_BUILD_DIR", os.getcwd())

from conftest import Command  # noqa: E402
from test_cluster import Cluster  # noqa: E402
from under import BUILD, HANG, SOURCE  # noqa: E402

FILL = SOURCE / "bench_programs" / "gawk_fill" / "fill.awk"
DICTIONARY = Path("/usr/share/dict/words")
# gawk makes 421 M references in a pass over 104,334 words (docs/measurements/simulators.md); fewer
# are reckoned with, so that the trace is long enough to be cut.
REFERENCES_OF_A_WORD = 3000
OPTIONS = {
    "pages": ["--page-size", "4096"],
    "caches": ["--block", "64:8", "--no-causes"],
    "tlb": ["--tlb", "4K"],
}


@dataclass
class Way:
    """A number of threads here, or of workers, each of which has a part."""

    count: int
    is_cluster: bool
    seconds: list[float] = field(default_factory=list)
    read: list[int] = field(default_factory=list)
    outputs: set[str] = field(default_factory=set)

    def __str__(self) -> str:
        plural = "" if self.count == 1 else "s"
        return f"{self.count} worker{plural}" if self.is_cluster else f"--jobs {self.count}"


def record(command: Command, trace: Path, references: int) -> None:
    """Makes a trace of exactly so many references."""
    words = DICTIONARY.read_text().splitlines(keepends=True)
    wanted = references // REFERENCES_OF_A_WORD + 100
    passes = -(-wanted // len(words))
    with tempfile.TemporaryDirectory(dir=trace.parent) as folder:
        some, whole = Path(folder, "words"), Path(folder, "whole.alt")
        some.write_text("".join(words[: -(-wanted // passes)]))
        gawk = ["gawk", "-v", f"passes={passes}", "-f", str(FILL), str(some)]
        cut = ["trace", "cut", "--count", str(references), "-o", str(trace), str(whole)]
        for line in (["record", "-o", str(whole), "--", *gawk], cut):
            done = command.run(*line, timeout=None)
            if done.returncode != 0:
                raise SystemExit(f"{' '.join(line)}: {done.stderr}")


def references_of(trace: Path) -> int:
    tracer = str(BUILD / "trace" / "allotrope-trace")
    done = subprocess.run([tracer, "info", str(trace)], capture_output=True, check=True)
    return int(json.loads(done.stdout)["totals"]["references"])


def bytes_read(processes: Sequence[int]) -> int:
    """By these, and by those of their children that have ended."""
    total = 0
    for process in processes:
        lines = Path(f"/proc/{process}/io").read_text().splitlines()
        total += next(int(line.split()[1]) for line in lines if line.startswith("rchar:"))
    return total


def started(count: int, folder: Path) -> tuple[Cluster, list[int]]:
    """A cluster whose workers are all there, and the ids of their processes."""
    from distributed import Client

    cluster = Cluster(folder)
    for _ in range(count):
        cluster.start_worker()
    with Client(cluster.address, timeout=HANG) as client:
        client.wait_for_workers(count, timeout=HANG)
    return cluster, [one.pid for one in cluster.workers]


def run(command: Command, way: Way, words: Sequence[str]) -> None:
    if not way.is_cluster:
        return take(command, way, [*words, "--jobs", str(way.count)], [os.getpid()])
    with tempfile.TemporaryDirectory() as folder:
        cluster, workers = started(way.count, Path(folder))
        try:
            take(command, way, [*words, "--cluster", cluster.address], [os.getpid(), *workers])
        finally:
            cluster.end()


def take(command: Command, way: Way, words: Sequence[str], readers: Sequence[int]) -> None:
    """Runs and enters it. readers: whose reading counts."""
    before, begun = bytes_read(readers), time.monotonic()
    done = command.run(*words, timeout=None)
    way.seconds.append(time.monotonic() - begun)
    way.read.append(bytes_read(readers) - before)
    if done.returncode != 0:
        raise SystemExit(f"{way}: status {done.returncode}: {done.stderr}")
    way.outputs.add(hashlib.blake2b(done.stdout.encode(), digest_size=16).hexdigest())


def lines(ways: Sequence[Way], trace: Path) -> Iterator[str]:
    size = trace.stat().st_size
    yield "| | seconds, median [least, greatest] | bytes read | of the trace's | output |"
    yield "|---|---|--:|--:|---|"
    for way in ways:
        least, most, read = min(way.seconds), max(way.seconds), round(median(way.read))
        same = "the same" if way.outputs == ways[0].outputs else "ANOTHER"
        times = f"{median(way.seconds):.2f} [{least:.2f}, {most:.2f}]"
        yield f"| {way} | {times} | {read:,} | {read / size:.3f} | {same} |"


def document(ways: Sequence[Way], word: str, references: int) -> str:
    """For cluster_overhead.py: a case for each cluster, with what one thread takes."""
    one = next(way for way in ways if not way.is_cluster)
    cases = [
        {
            "name": f"simulate {word}, {references:,} references, {way}",
            "kind": "simulate",
            "workers": way.count,
            "tasks": way.count,
            "at_once": min(way.count, os.cpu_count() or 1),
            "one_machine": median(one.seconds),
            "seconds": median(way.seconds),
        }
        for way in ways
        if way.is_cluster
    ]
    return json.dumps({"cases": cases}, indent=1) + "\n"


def numbers(text: str) -> list[int]:
    return [int(one) for one in text.split(",")]


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--references", type=int, default=10_000_000)
    parser.add_argument("--word", choices=OPTIONS, default="pages")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--workers", type=numbers, default=[1, 2, 4])
    parser.add_argument("--jobs", type=numbers, default=[1, 2])
    parser.add_argument("--trace", type=Path)
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    command = Command(BUILD)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # takes all down
    with tempfile.TemporaryDirectory() as folder:
        trace = (asked.trace or Path(folder, "run.alt")).absolute()
        if not trace.exists():
            record(command, trace, asked.references)
        with trace.open("rb") as file:
            while file.read(1 << 24):
                pass
        references = references_of(trace)
        print(f"{references:,} references in {trace.stat().st_size:,} bytes", flush=True)
        ways = [Way(count, False) for count in asked.jobs]
        ways += [Way(count, True) for count in asked.workers]
        words = ["simulate", asked.word, "--json", "-", *OPTIONS[asked.word], str(trace)]
        for _ in range(asked.rounds):
            for way in ways:
                run(command, way, words)
        print("\n".join(lines(ways, trace)))
    if asked.json:
        asked.json.write_text(document(ways, asked.word, references))
    return 0 if all(way.outputs == ways[0].outputs for way in ways) else 1


if __name__ == "__main__":
    sys.exit(main())
