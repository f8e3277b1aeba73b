#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""The figures of docs/measurements/drop-in.md. Run from the top of the build tree:

    tests/measure/drop_in.py TOPIC [ROUNDS]

TOPIC: pages, freed, limit, routing, distant, live-set, programs, or all.
ALLOTROPE_TEST_ALLOCATORS="bsd bsd:classic" chooses among ours. Rounds are interleaved and the order
rotates, so that drift of the machine hits all alike; figures are medians, ratios the medians of the
ratios round by round.
"""

import json
import math
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Callable

SOURCE = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(SOURCE / "tests"))
os.environ.setdefault("ALLOTROPE_BUILD_DIR", str(Path.cwd()))

from under import BUILD, GLIBC, Under, allocators_under_test  # noqa: E402

DEBIAN = Path("/usr/lib/x86_64-linux-gnu")
PEERS = [
    Under(name, DEBIAN / library)
    for name, library in (
        ("jemalloc", "libjemalloc.so.2"),
        ("mimalloc", "libmimalloc.so.2"),
        ("mimalloc", "libmimalloc.so.3"),
        ("tcmalloc", "libtcmalloc_minimal.so.4"),
    )
    if (DEBIAN / library).exists()
]
OURS = allocators_under_test()
DEFAULTS = [under for under in OURS if under.preset == "default"]
LIVE_SET = str(BUILD / "bench_programs" / "live_set")


def checked(under: Under, command: list[str]) -> str:
    result = under.run(command)
    if result.returncode != 0:
        sys.exit(f"drop_in: {' '.join(command)} under {under}: {result.stderr}")
    return str(result.stdout)


def compiled(name: str, directory: str) -> str:
    program = str(Path(directory) / name)
    source = SOURCE / "tests" / "measure" / f"{name}.c"
    flags = ["-O2", "-fno-builtin", "-D_GNU_SOURCE"]
    subprocess.run(["gcc", *flags, "-o", program, str(source)], check=True)
    return program


def interleaved(
    unders: list[Under], rounds: int, measure: Callable[[Under], float]
) -> dict[Under, list[float]]:
    found: dict[Under, list[float]] = {under: [] for under in unders}
    for number in range(rounds):
        shift = number % len(unders)
        for under in unders[shift:] + unders[:shift]:
            found[under].append(measure(under))
    return found


def ratio(values: list[float], baseline: list[float]) -> float:
    return statistics.median(value / base for value, base in zip(values, baseline))


# Private dirty pages of /bin/true as it is about to exit. The debugger's own marks are the same
# for all.
def private_dirty_pages(under: Under) -> float:
    settings = [f"set environment {key}={value}" for key, value in under.environment().items()]
    show = "python print(open('/proc/%d/smaps_rollup' % gdb.selected_inferior().pid).read())"
    steps = ["set startup-with-shell off", *settings, "catch syscall exit_group", "run", show]
    command = ["gdb", "-nx", "-q", "-batch"]
    for step in steps:
        command += ["-ex", step]
    text = checked(GLIBC, [*command, "/bin/true"])
    kilobytes = re.search(r"Private_Dirty: *(\d+) kB", text)
    assert kilobytes, text
    return int(kilobytes[1]) / 4


def pages(_: int) -> None:
    base = private_dirty_pages(GLIBC)
    print("| allocator | private dirty pages of true | more than glibc |\n|---|--:|--:|")
    for under in [GLIBC, *OURS, *PEERS]:
        found = private_dirty_pages(under)
        print(f"| {under} | {found:.0f} | {found - base:+.0f} |")


def freed(_: int) -> None:
    print("| allocator | full | freed | 5 s later |\n|---|--:|--:|--:|")
    with tempfile.TemporaryDirectory() as directory:
        program = compiled("free_most", directory)
        for under in [GLIBC, *OURS, *PEERS]:
            full, at_once, later = checked(under, [program, "1024"]).split()
            print(f"| {under} | {full} MB | {at_once} MB | {later} MB |")


def limit(_: int) -> None:
    sizes = [24, 100, 500, 1000, 2000, 4000, 10000, 100000, 1000000]
    print("| allocator |", " | ".join(f"{size}" for size in sizes), "| mean share |")
    print("|---|" + "--:|" * (len(sizes) + 1))
    with tempfile.TemporaryDirectory() as directory:
        program = compiled("usable_memory", directory)

        def megabytes(under: Under, size: int) -> float:
            return float(checked(under, [program, "256", str(size)]))

        base = {size: megabytes(GLIBC, size) for size in sizes}
        print("| glibc, MB |", " | ".join(f"{base[size]:.0f}" for size in sizes), "| |")
        for under in [*OURS, *PEERS]:
            shares = [megabytes(under, size) / base[size] for size in sizes]
            cells = " | ".join(f"{share:.2f}" for share in shares)
            print(f"| {under} | {cells} | {statistics.mean(shares):.2f} |")


def instructions(under: Under, pairs: int, distant: int = 0) -> int:
    command = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null"]
    command += [LIVE_SET, f"pairs={pairs}", "blocks=1000", f"distant={distant}"]
    result = under.run(command)
    collected = re.search(r"Collected : (\d+)", result.stderr)
    assert collected, result.stderr
    return int(collected[1])


def routing(_: int) -> None:
    pairs = 1000000
    print("| library | instructions per pair of free and malloc |\n|---|--:|")
    for library in ("liballotrope-bsd.so", "liballotrope.so"):
        under = Under(library, BUILD / ".libs" / library, "bsd")
        more = instructions(under, 2 * pairs) - instructions(under, pairs)
        print(f"| {library} | {more / pairs:.2f} |")


def distant(_: int) -> None:
    """A live set at the front of a heap, and behind 5,000 MiB of blocks that nobody touches."""
    pairs = 200000
    print("| allocator | instructions per pair, at the front | behind 5,000 MiB |\n|---|--:|--:|")
    for under in OURS:
        cells = []
        for megabytes in (0, 5000):
            once = instructions(under, pairs, megabytes)
            cells.append(f"{(instructions(under, 2 * pairs, megabytes) - once) / pairs:.2f}")
        print(f"| {under} |", " | ".join(cells), "|", flush=True)


def nanoseconds(under: Under, threads: int, blocks: int) -> float:
    """CPU time of a pair: wall time would count whoever else uses the machine."""
    arguments = [f"threads={threads}", f"blocks={blocks}", "pairs=2000000", "timed=1"]
    text = checked(under, [LIVE_SET, *arguments])
    time = re.match(r"([\d.]+) ns CPU", text)
    assert time, text
    return float(time[1])


def live_set(rounds: int) -> None:
    unders = [GLIBC, *OURS, *PEERS]
    mimalloc = next((peer for peer in PEERS if peer.name == "mimalloc"), GLIBC)
    for blocks in (1000, 10000, 100000):
        print(
            f"\n{blocks} blocks\n\n| allocator | 1 thread | to {mimalloc} | 2 threads | scaling |"
        )
        print("|---|--:|--:|--:|--:|")
        one = interleaved(unders, rounds, lambda under: nanoseconds(under, 1, blocks))
        two = interleaved(unders, rounds, lambda under: nanoseconds(under, 2, blocks))
        for under in unders:
            single, double = statistics.median(one[under]), statistics.median(two[under])
            scaling = 2 * single / double
            against = ratio(one[under], one[mimalloc])
            print(
                f"| {under} | {single:.2f} ns | {against:.2f} | {double:.2f} ns | {scaling:.2f} |"
            )


WORDS = "/usr/share/dict/words"
PERL = (
    'chomp; push @{$g{join "", sort split //, lc}}, $_; s/([aeiou]+)/<$1>/g; $s{$_}++; '
    "END { print scalar(keys %g), scalar(keys %s) }"
)
SQL = """
CREATE TABLE item (id INTEGER PRIMARY KEY, name TEXT, kind INTEGER);
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 150000)
INSERT INTO item SELECT i, printf('item %d', i * 7919 % 60000), i % 17 FROM n;
CREATE INDEX by_name ON item (name);
SELECT kind, count(*), max(name) FROM item GROUP BY kind ORDER BY kind;
SELECT count(*) FROM item a JOIN item b ON a.name = 'item ' || b.id WHERE b.kind < 3;
"""
PROGRAMS = {
    "gawk": [
        *["env", "LC_ALL=C", "gawk", "-v", "passes=3"],
        *["-f", str(SOURCE / "bench_programs/gawk_fill/fill.awk"), WORDS],
    ],
    "perl": ["perl", "-ne", PERL, WORDS],
    "gs": [
        *["gs", "-q", "-dSAFER", "-dBATCH", "-dNOPAUSE", "-sDEVICE=png16m", "-r200"],
        *["-sOutputFile=/dev/null", str(SOURCE / "tests/matrix/spiral.ps")],
    ],
    "python3": [
        *["env", "PYTHONMALLOC=malloc", "PYTHONHASHSEED=0", "/usr/bin/python3"],
        str(SOURCE / "tests/matrix/objects.py"),
    ],
    "sqlite3": ["sqlite3", ":memory:", SQL],
    "gcc": [
        *["gcc", "-O2", "-D_GNU_SOURCE", f"-I{SOURCE}", "-c", "-o", "/dev/null"],
        str(SOURCE / "alloc/layers/layered.c"),
    ],
}


def programs(rounds: int) -> None:
    names = [under.name for under in [*DEFAULTS, *PEERS]]
    ratios: dict[str, list[float]] = {name: [] for name in names}
    memory: dict[str, list[float]] = {name: [] for name in names}
    print("CPU time to glibc, and peak resident memory to glibc\n")
    print("| program |", " | ".join(names), "|\n|---|" + "--:|" * len(names))
    lock = ["flock", "/tmp/measure.lock"] if shutil.which("flock") else []
    for program, command in PROGRAMS.items():
        line = [*lock, str(BUILD / "allotrope"), "compare", "--json", "-", "--rounds", str(rounds)]
        for name in ["glibc", *names]:
            line += ["-a", name]
        result = subprocess.run(
            [*line, "--", *command], capture_output=True, text=True, check=False
        )
        if result.returncode != 0:
            sys.exit(f"drop_in: {program}: {result.stderr}")
        report = json.loads(result.stdout[result.stdout.index("{") :])
        cells = []
        rows = {row["allocator"]: row for row in report["results"]}
        for name in names:
            cpu = rows[name]["cpu_seconds"]["ratio"]
            peak = rows[name]["peak_rss_bytes"]["ratio"]
            ratios[name].append(cpu)
            memory[name].append(peak)
            cells.append(f"{cpu:.3f}, {peak:.2f}")
        print(f"| {program} |", " | ".join(cells), "|", flush=True)

    def mean(values: list[float]) -> float:
        return math.exp(statistics.mean(math.log(value) for value in values))

    means = (f"**{mean(ratios[name]):.3f}, {mean(memory[name]):.2f}**" for name in names)
    print("| geometric mean |", " | ".join(means), "|")


TOPICS: dict[str, Callable[[int], None]] = {
    "pages": pages,
    "freed": freed,
    "limit": limit,
    "routing": routing,
    "distant": distant,
    "live-set": live_set,
    "programs": programs,
}


def main(arguments: list[str]) -> int:
    topics = list(TOPICS) if arguments[:1] == ["all"] else arguments[:1]
    rounds = arguments[1] if len(arguments) > 1 else "11"
    if not topics or topics[0] not in TOPICS or not rounds.isdigit() or int(rounds) == 0:
        print(f"drop_in: give a topic ({', '.join(TOPICS)} or all), then a number of rounds")
        return 2
    for topic in topics:
        print(f"\n## {topic}\n", flush=True)
        TOPICS[topic](int(rounds))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
