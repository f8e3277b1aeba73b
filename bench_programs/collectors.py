# SPDX-License-Identifier: MIT
"""Compares collectors and allocators on the programs of collected.h and on real ones.

    /usr/bin/python3 bench_programs/collectors.py trees|limits|programs|larger|pauses|foreign [ROUNDS]

Rounds are interleaved in rotated order. What is printed are medians: processor time (user and
system), time by the clock, peak resident memory, and the ratios to the first contender's in the
same round, that of processor time with its interval (from six rounds on; else the range). Each run
is started by allotrope-launch, so that no parent's memory shows. Run in the build directory.
"""

import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Callable, Iterable, Sequence

BUILD = Path(os.environ.get("ALLOTROPE_BUILD_DIR", ".")).resolve()
SOURCE = Path(__file__).resolve().parent.parent
LIBRARY = str(BUILD / ".libs" / "liballotrope.so")
sys.path.insert(0, str(SOURCE / "analysis"))
from allotrope.statistics.intervals import estimate  # noqa: E402
from allotrope.system.allocators import PEERS  # noqa: E402


@dataclass(frozen=True)
class Contender:
    name: str
    variant: str = ""  # of a program of collected.h
    environment: dict[str, str] = field(default_factory=dict)


def mimalloc() -> list[Contender]:
    """None where it is not installed."""
    files = [peer.path() for peer in PEERS if peer.name == "mimalloc"]
    return [Contender("mimalloc", "", {"LD_PRELOAD": str(file)}) for file in files if file]


def ours(name: str, spec: str, variant: str = "") -> Contender:
    return Contender(name, variant, {"LD_PRELOAD": LIBRARY, "ALLOTROPE": spec})


CYCLES = "gc:free=ignore,generations=2,concurrent=on"
TREES = {
    "gcbench depth=16": ["gcbench", "depth=16"],
    "binary_trees depth=18": ["binary_trees", "depth=18"],
    "destroy depth=18": ["destroy", "depth=18", "replace=30000"],
    "destroy depth=21": ["destroy", "depth=21", "replace=30000"],
    "rewriter": ["rewriter"],
    "session_cache": ["session_cache", "requests=20000"],
    "thread_churn": ["thread_churn", "tasks=128"],
}
TREE_CONTENDERS = [
    Contender("glibc"),
    *mimalloc(),
    ours("blocks", "blocks"),
    ours("gc honour", "gc:free=honour,leaks=collect"),
    ours("gc ignore", "gc:free=ignore", "_forgets"),
    ours("gc ignore, frees called", "gc:free=ignore"),
    ours("gc cycles", CYCLES, "_forgets"),
    ours("gc cycles, frees called", CYCLES),
    Contender("libgc", "_libgc"),
    Contender("libgc incremental", "_libgc", {"GC_ENABLE_INCREMENTAL": "1"}),
]

CC1PLUS = ["/usr/lib/gcc/x86_64-linux-gnu/12/cc1plus", "-quiet", "-imultiarch"]
CC1PLUS += ["x86_64-linux-gnu", "-D_GNU_SOURCE", "-O2"]
# Half a second of work or more each, one process, its input there already: {numbers} are those
# from 1 to 600,000, a line each.
PROGRAMS = {
    "gawk": [
        "gawk",
        '{c[$1%5003]=c[$1%5003] " " $1; n++} END {for (k in c) m+=length(c[k]); print n, m}',
        "{numbers}",
    ],
    "perl": [
        "perl",
        "-ne",
        "$c{$_%5003}.=$_; $d{$_}=[$_,$_*2]; END {print scalar keys %d}",
        "{numbers}",
    ],
    "python3": [
        "/usr/bin/python3",
        "-c",
        "import json; d=[{'a': i, 'b': str(i)} for i in range(200000)];"
        " print(len(json.dumps(json.loads(json.dumps(d)))))",
    ],
    "sqlite3": [
        "sqlite3",
        ":memory:",
        "create table t(a,b); with recursive c(x) as (select 1 union all"
        " select x+1 from c where x<400000) insert into t select x,x*x%1000 from c;"
        " create index i on t(b); select count(*) from t group by b limit 1",
    ],
    "jq": [
        "jq",
        "-n",
        "[inputs] | map({a:., b:tostring}) | group_by(.a%100) | length",
        "{numbers}",
    ],
    "git log": ["git", "-C", "{source}", "log", "--stat", "-p", "-C"],
    "gcc": [
        *CC1PLUS,
        "-o",
        "/dev/null",
        "{cxx}",
    ],
}
PROGRAM_CONTENDERS = [
    Contender("glibc"),
    ours("blocks", "blocks"),
    ours("gc honour", "gc:free=honour,leaks=collect"),
    ours("gc ignore", "gc:free=ignore"),
    ours("gc cycles", CYCLES),
]
# A server whose work is a script; the client's part is some milliseconds.
REDIS = """socket=$(mktemp -u)
redis-server --port 0 --unixsocket "$socket" --save "" --appendonly no > /dev/null &
until [ -S "$socket" ]; do sleep 0.01; done
redis-cli -s "$socket" eval "
for i = 1, 300000 do redis.call('set', 'k' .. i % 150000, string.rep('v', i % 190)) end
for i = 1, 60000 do redis.call('del', 'k' .. i * 2); redis.call('rpush', 'l' .. i % 900, i) end
" 0
redis-cli -s "$socket" shutdown nosave
wait
"""
# Programs of PROGRAMS with larger inputs, and two others: 30 to 70 MB each.
LARGER = {
    "gawk": [
        "gawk",
        '{c[$1%5003]=c[$1%5003] " " $1; d[$1]=$1 "x"; n++} END {for (k in c) m+=length(c[k]); print m}',
        "{numbers}",
    ],
    "perl": [
        "perl",
        "-ne",
        "chomp; $c{$_%5003}.=$_; $d{$_}=[$_,$_*2] if $_%2; delete $d{$_-9} if $_%3==0;"
        " END {print scalar keys %d}",
        "{numbers}",
    ],
    "python3": [
        "/usr/bin/python3",
        "-c",
        "kept=[]\nfor i in range(300000):\n    o={'a': i, 'b': str(i)*(i%9), 'c': [i]*(i%20)}\n"
        "    if i%3==0: kept.append(o)\nprint(len(kept))",
    ],
    "lua": [
        "lua5.4",
        "-e",
        "local t={} for i=1,400000 do local s={i, tostring(i)} if i%2==0 then t[#t+1]=s end end"
        " print(#t)",
    ],
    "sqlite3": [
        "sqlite3",
        ":memory:",
        "create table t(a,b); with recursive c(x) as (select 1 union all"
        " select x+1 from c where x<900000) insert into t select x,x*x%1000 from c;"
        " create index i on t(b); delete from t where a%3=0; select count(*) from t",
    ],
    "gcc": [
        *CC1PLUS,
        "-include",
        "regex",
        "-include",
        "functional",
        "-o",
        "/dev/null",
        "{cxx}",
    ],
    "redis": ["sh", "-c", REDIS],
}


@dataclass(frozen=True)
class Run:
    cpu_s: float
    wall_s: float
    peak_mb: float


def run(
    command: Sequence[str], environment: dict[str, str], errors: str = os.devnull
) -> Run | None:
    """None when it failed."""
    with tempfile.NamedTemporaryFile(suffix=".json") as report:
        launch = [str(BUILD / "allotrope-launch"), "--report", report.name, "--stdout", os.devnull]
        launch += ["--stderr", errors]
        for name, value in environment.items():
            launch += ["--env", f"{name}={value}"]
        subprocess.run([*launch, "--", *command], stdin=subprocess.DEVNULL, check=False)
        figures = json.loads(report.read())
    if figures["exit_status"] != 0:
        return None
    return Run(
        (figures["user_us"] + figures["system_us"]) / 1e6,
        figures["wall_ns"] / 1e9,
        figures["peak_rss_bytes"] / 1e6,
    )


def median(runs: Iterable[Run], value: Callable[[Run], float]) -> float:
    return statistics.median(value(one) for one in runs)


def row(name: str, runs: list[Run], base: list[Run]) -> dict[str, float]:
    """Prints a contender's line and returns its ratios to the first."""
    values: dict[str, Callable[[Run], float]] = {
        "cpu": lambda one: one.cpu_s,
        "wall": lambda one: one.wall_s,
        "peak": lambda one: one.peak_mb,
    }
    own = {key: median(runs, value) for key, value in values.items()}
    ratios = {
        key: estimate([value(one) / value(first) for one, first in zip(runs, base)])
        for key, value in values.items()
        if base
    }
    text = "".join(f"  x{ratio.median:.2f}" for ratio in ratios.values())
    if ratios and runs is not base:
        text += f"  CPU [{ratios['cpu'].low:.2f}, {ratios['cpu'].high:.2f}]"
    print(
        f"    {name:24} {own['cpu']:7.3f} s CPU {own['wall']:7.3f} s {own['peak']:7.1f} MB{text}",
        flush=True,
    )
    return {key: ratio.median for key, ratio in ratios.items()}


def compare(
    title: str, commands: dict[str, list[str]], contenders: list[Contender], rounds: int
) -> dict[str, dict[str, float]]:
    """commands: by contender. Ratios are to the first one's, where that could run."""
    samples: dict[str, list[Run]] = {one.name: [] for one in contenders}
    for turn in range(rounds):
        for place in range(len(contenders)):
            one = contenders[(turn + place) % len(contenders)]
            measured = run(commands[one.name], one.environment)
            if measured:
                samples[one.name].append(measured)
    print(title)
    ratios = {}
    for one in contenders:
        if len(samples[one.name]) < rounds:
            print(f"    {one.name:24} failed (out of memory?)")
        else:
            first = samples[contenders[0].name]
            base = first if len(first) == rounds else []
            ratios[one.name] = row(one.name, samples[one.name], base)
    return ratios


def program(name: str, variant: str) -> str:
    return str(BUILD / "bench_programs" / (name + variant))


def trees(rounds: int) -> None:
    for title, words in TREES.items():
        commands = {
            one.name: [program(words[0], one.variant), *words[1:]] for one in TREE_CONTENDERS
        }
        compare(title, commands, TREE_CONTENDERS, rounds)


# Live bytes at most, as the program asks for them.
LIMITED = {
    "destroy depth=18": (["destroy", "depth=18", "replace=30000"], (2**19 - 1) * 32),
    "binary_trees depth=18": (["binary_trees", "depth=18"], (2**19 - 1 + 2**17 - 1) * 16),
}


def limits(rounds: int) -> None:
    """One marker each; GC_MARKERS is libgc's."""
    for title, (words, live) in LIMITED.items():
        for factor in (1.25, 1.5, 2, 3, 5):
            limit = int(live * factor)
            contenders = [
                Contender(
                    "libgc", "_libgc", {"GC_MAXIMUM_HEAP_SIZE": str(limit), "GC_MARKERS": "1"}
                ),
                ours("gc ignore", f"gc:free=ignore,limit={limit},markers=1", "_forgets"),
            ]
            commands = {
                one.name: [program(words[0], one.variant), *words[1:]] for one in contenders
            }
            compare(
                f"{title}, {factor} times {live / 1e6:.1f} MB live", commands, contenders, rounds
            )


CXX = """#include <algorithm>
#include <iostream>
#include <map>
#include <string>
int main() {
    std::map<std::string, int> words;
    for (std::string word; std::cin >> word;) words[word]++;
    std::for_each(words.begin(), words.end(), [](auto &w) { std::cout << w.first << w.second; });
}
"""


def of_programs(commands: dict[str, list[str]], rounds: int) -> None:
    ratios = []
    with tempfile.TemporaryDirectory() as folder:
        numbers, cxx = Path(folder) / "numbers", Path(folder) / "words.cc"
        numbers.write_text("".join(f"{number}\n" for number in range(1, 600001)))
        cxx.write_text(CXX)
        places = {"{source}": str(SOURCE), "{numbers}": str(numbers), "{cxx}": str(cxx)}
        for title, words in commands.items():
            command = [places.get(word, word) for word in words]
            same = {one.name: command for one in PROGRAM_CONTENDERS}
            ratios.append(compare(title, same, PROGRAM_CONTENDERS, rounds))
    for one in PROGRAM_CONTENDERS[1:]:
        means = [
            statistics.geometric_mean(ratio[one.name][what] for ratio in ratios)
            for what in ("cpu", "peak")
        ]
        print(f"{one.name}, geometric means: CPU x{means[0]:.3f}, peak x{means[1]:.3f}")


def programs(rounds: int) -> None:
    of_programs(PROGRAMS, rounds)


def larger(rounds: int) -> None:
    """30 to 70 MB under glibc, where most of PROGRAMS have less."""
    of_programs(LARGER, rounds)


@dataclass(frozen=True)
class Marking:
    """What a run's longest pause was, in ms, and how fast it marked where most was live."""

    longest_ms: float
    bytes_per_ns: float


def said_by_libgc(command: list[str], added: dict[str, str]) -> str:
    """What it writes of each collection."""
    with tempfile.NamedTemporaryFile() as log:
        run(command, {"GC_PRINT_STATS": "1", **added}, log.name)
        return Path(log.name).read_text(errors="replace")


def marking_of_libgc(command: list[str], markers: int) -> Marking:
    """From what libgc writes of each collection."""
    text = said_by_libgc(command, {"GC_MARKERS": str(markers)})
    found = re.findall(
        r"marking took (\d+) ms (\d+) ns.*?In-use heap: \d+% \((\d+) KiB pointers"
        r".*?Complete collection took (\d+) ms (\d+) ns",
        text,
        re.S,
    )
    pauses = [int(one[3]) + int(one[4]) / 1e6 for one in found]
    live = sum(int(one[2]) * 1024 for one in found)
    return Marking(
        max(pauses, default=float("nan")),
        live / max(1, sum(int(one[0]) * 1e6 + int(one[1]) for one in found)),
    )


def longest_stop_of_incremental(command: list[str], markers: int) -> float:
    """In ms. libgc's incremental mode stops the world to end each marking."""
    added = {"GC_MARKERS": str(markers), "GC_ENABLE_INCREMENTAL": "1"}
    text = said_by_libgc(command, added)
    found = re.findall(r"World-stopped marking took (\d+) ms (\d+) ns", text)
    return max((int(ms) + int(ns) / 1e6 for ms, ns in found), default=float("nan"))


def figures_of_ours(command: list[str], spec: str) -> dict[str, int]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "figures.json"
        added = {"LD_PRELOAD": LIBRARY, "ALLOTROPE": spec, "ALLOTROPE_STATS": str(path)}
        run(command, added)
        return dict(json.loads(path.read_text())["gc"])


# libgc gives every object at least a byte more than was asked for.
NODE_BYTES_OF_LIBGC = {"gcbench": 32, "binary_trees": 32, "destroy": 48}


def pauses(rounds: int) -> None:
    for title, words in TREES.items():
        print(title)
        for markers in (1, 2):
            command = [program(words[0], "_libgc"), *words[1:]]
            own_command = [program(words[0], "_forgets"), *words[1:]]
            spec = f"gc:free=ignore,markers={markers}"
            theirs, incremental, samples, cycles = [], [], [], []
            for _ in range(rounds):
                theirs.append(marking_of_libgc(command, markers))
                incremental.append(longest_stop_of_incremental(command, markers))
                samples.append(figures_of_ours(own_command, spec))
                cycles.append(figures_of_ours(own_command, f"{CYCLES},markers={markers}"))
            rate = statistics.median(one.bytes_per_ns for one in theirs)
            node = NODE_BYTES_OF_LIBGC.get(words[0])
            print(
                f"    libgc, {markers} marker(s): longest"
                f" {statistics.median(one.longest_ms for one in theirs):6.1f} ms,"
                f" mark {rate:.2f} GB/s" + (f" {rate * 1e3 / node:.0f} M blocks/s" if node else "")
            )
            print(
                f"    libgc incremental, {markers} marker(s): longest stop"
                f" {statistics.median(incremental):6.1f} ms"
            )

            def middle(value: Callable[[dict[str, int]], float]) -> float:
                return statistics.median(value(one) for one in samples)

            print(
                f"    gc, {markers} marker(s): longest"
                f" {middle(lambda one: one['longest_pause_ns'] / 1e6):6.1f} ms, mark"
                f" {middle(lambda one: one['marked_bytes'] / one['mark_ns']):.2f} GB/s"
                f" {middle(lambda one: one['marked_blocks'] / one['mark_ns'] * 1e3):.0f} M"
                f" blocks/s,"
                f" roots {middle(lambda one: one['root_bytes'] / one['root_ns']):.2f} GB/s, sweep"
                f" {middle(lambda one: one['sweep_ns'] / one['pause_ns']):.1%} of"
                f" {middle(lambda one: one['pause_ns'] / 1e6):.1f} ms in"
                f" {middle(lambda one: one['collections']):.0f} collections",
                flush=True,
            )
            longest = statistics.median(one["longest_pause_ns"] / 1e6 for one in cycles)
            print(f"    gc cycles, {markers} marker(s): longest {longest:6.1f} ms", flush=True)


JAVA = """class Foreign {
    public static void main(String[] words) {
        byte[][] held = new byte[1000][];
        for (int i = 0; i < held.length; i++) {
            held[i] = new byte[1 << 20];
            java.util.Arrays.fill(held[i], (byte) i);
        }
        System.gc();
        System.out.println(held.length);
    }
}
"""


def foreign_script(dumps: int) -> str:
    """Python with a gigabyte of mappings of its own, and so many times 12 MB of text made of
    objects."""
    return f"""import mmap, json
held = mmap.mmap(-1, 1 << 30, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
for page in range(0, 1 << 30, 4096):
    held[page] = 1
for _ in range({dumps}):
    json.dumps([{{"a": i, "b": "x" * 600}} for i in range(20000)])
"""


def foreign(rounds: int) -> None:
    """Pauses of programs with a gigabyte that is not ours."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "Foreign.java"
        source.write_text(JAVA)
        commands = {
            "python3": (["/usr/bin/python3", "-c", foreign_script(8)], "gc:free=ignore,initial=64M")
        }
        if Path("/usr/bin/java").exists():
            java = ["java", "-Xmx2500m", "-XX:+UseSerialGC", str(source)]
            commands["java"] = (java, "gc:free=ignore,every=20000")
        for name, (command, spec) in commands.items():
            for _ in range(rounds):
                one = figures_of_ours(command, spec)
                collections = max(1, one["collections"])
                print(
                    f"{name}: {one['collections']} collections, longest pause"
                    f" {one['longest_pause_ns'] / 1e6:.0f} ms, longest stop"
                    f" {one['longest_stop_ns'] / 1e6:.2f} ms, {one['stopped_threads']} threads"
                    f" stopped, {one['root_bytes'] / collections / 1e6:.0f} MB of roots each at"
                    f" {one['root_bytes'] / max(1, one['root_ns']):.2f} GB/s",
                    flush=True,
                )


PARTS: dict[str, Callable[[int], None]] = {
    "trees": trees,
    "limits": limits,
    "programs": programs,
    "larger": larger,
    "pauses": pauses,
    "foreign": foreign,
}


def main() -> None:
    words = sys.argv[1:]
    if not words or words[0] not in PARTS or (len(words) > 1 and not words[1].isdigit()):
        sys.exit(
            f"collectors.py: '{' '.join(words)}': give {'|'.join(PARTS)} and a number of rounds"
        )
    PARTS[words[0]](int(words[1]) if len(words) > 1 else 5)


if __name__ == "__main__":
    main()
