# SPDX-License-Identifier: MIT
"""Compares collectors and allocators on the programs of collected.h and on real ones.

    /usr/bin/python3 bench_programs/collectors.py trees|limits|programs|pauses [ROUNDS]

Rounds are interleaved; what is printed are medians of processor time (user and system, which a
busy machine disturbs less than the clock) and of peak resident memory. Run in the build directory.
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

BUILD = Path(os.environ.get("ALLOTROPE_BUILD_DIR", ".")).resolve()
LIBRARY = str(BUILD / ".libs" / "liballotrope.so")
MIMALLOC = "/usr/lib/x86_64-linux-gnu/libmimalloc.so.2"


@dataclass(frozen=True)
class Contender:
    name: str
    variant: str = ""  # of a program of collected.h
    environment: dict[str, str] = field(default_factory=dict)


def ours(name: str, spec: str, variant: str = "") -> Contender:
    return Contender(name, variant, {"LD_PRELOAD": LIBRARY, "ALLOTROPE": spec})


TREES = {
    "gcbench depth=16": ["gcbench", "depth=16"],
    "binary_trees depth=18": ["binary_trees", "depth=18"],
    "destroy depth=18": ["destroy", "depth=18", "replace=30000"],
    "destroy depth=21": ["destroy", "depth=21", "replace=30000"],
    "rewriter": ["rewriter"],
    "session_cache": ["session_cache", "requests=20000"],
    "thread_churn": ["thread_churn"],
}
TREE_CONTENDERS = [
    Contender("glibc"),
    Contender("mimalloc", "", {"LD_PRELOAD": MIMALLOC}),
    ours("blocks", "blocks"),
    ours("gc honour", "gc:free=honour,leaks=collect"),
    ours("gc ignore", "gc:free=ignore", "_forgets"),
    ours("gc ignore, 1 marker", "gc:free=ignore,markers=1", "_forgets"),
    Contender("libgc", "_libgc"),
]
PROGRAMS = {
    "gawk": "seq 1 300000 | gawk '{c[$1%5003]=c[$1%5003] \" \" $1; n++}"
    " END {for (k in c) m+=length(c[k]); print n, m}'",
    "perl": "seq 1 300000 | perl -ne '$c{$_%5003}.=$_; END {print scalar keys %c}'",
    "python3": "/usr/bin/python3 -c 'import json; d=[{\"a\": i, \"b\": str(i)} for i in"
    " range(100000)]; print(len(json.dumps(json.loads(json.dumps(d)))))'",
    "sqlite3": "sqlite3 :memory: 'create table t(a,b); with recursive c(x) as (select 1 union all"
    " select x+1 from c where x<200000) insert into t select x,x*x%1000 from c;"
    " create index i on t(b); select count(*) from t group by b limit 1'",
    "jq": "seq 1 120000 | jq -s 'map({a:., b:tostring}) | group_by(.a%100) | length'",
    "git log": "git -C {source} log --stat",
    "gcc": "gcc -O2 -S -o /dev/null -std=gnu11 -D_GNU_SOURCE -I{source} {source}/shim/statistics.c",
}
PROGRAM_CONTENDERS = [
    Contender("glibc"),
    ours("blocks", "blocks"),
    ours("gc honour", "gc:free=honour,leaks=collect"),
    ours("gc ignore", "gc:free=ignore"),
]


def run(
    command: list[str], environment: dict[str, str], errors: str = os.devnull
) -> tuple[float, float] | None:
    """Processor seconds and peak megabytes; None when it failed."""
    with open(os.devnull, "wb") as null, open(errors, "wb") as standard_error:
        process = subprocess.Popen(
            command, env=os.environ | environment, stdout=null, stderr=standard_error
        )
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = status
    if status != 0:
        return None
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def compare(
    commands: dict[str, dict[str, list[str]]], contenders: list[Contender], rounds: int
) -> None:
    """commands: by row, then by contender. The first contender is what the others' ratios are to."""
    for row, by_contender in commands.items():
        samples: dict[str, list[tuple[float, float]]] = {one.name: [] for one in contenders}
        for turn in range(rounds):
            for place in range(len(contenders)):
                one = contenders[(turn + place) % len(contenders)]
                measured = run(by_contender[one.name], one.environment)
                if measured:
                    samples[one.name].append(measured)
        base = samples[contenders[0].name]
        base_time = statistics.median(time for time, _ in base)
        base_memory = statistics.median(memory for _, memory in base)
        print(row)
        for one in contenders:
            if len(samples[one.name]) < rounds:
                print(f"    {one.name:22} failed")
                continue
            time = statistics.median(time for time, _ in samples[one.name])
            memory = statistics.median(memory for _, memory in samples[one.name])
            print(
                f"    {one.name:22} {time:8.3f} s {memory:8.1f} MB"
                f"   x{time / base_time:.2f} x{memory / base_memory:.2f}",
                flush=True,
            )


def program(name: str, variant: str) -> str:
    return str(BUILD / "bench_programs" / (name + variant))


def trees(rounds: int) -> None:
    commands = {
        row: {one.name: [program(words[0], one.variant), *words[1:]] for one in TREE_CONTENDERS}
        for row, words in TREES.items()
    }
    compare(commands, TREE_CONTENDERS, rounds)


def limits(rounds: int) -> None:
    live = (2**19 - 1) * 32
    for words in (["destroy", "depth=18", "replace=10000"], ["binary_trees", "depth=16"]):
        if words[0] == "binary_trees":
            live = (2**17 - 1) * 16
        for factor in (1.25, 1.5, 2, 3, 5):
            limit = int(live * factor) + 2**20
            contenders = [
                Contender("libgc", "_libgc", {"GC_MAXIMUM_HEAP_SIZE": str(limit)}),
                ours("gc ignore", f"gc:free=ignore,limit={limit},markers=1", "_forgets"),
            ]
            row = f"{words[0]}, {factor} times the live size and 1 MB"
            commands = {one.name: [program(words[0], one.variant), *words[1:]] for one in contenders}
            try:
                compare({row: commands}, contenders, rounds)
            except statistics.StatisticsError:
                print(f"{row}: libgc runs out of memory")


def programs(rounds: int) -> None:
    source = Path(__file__).resolve().parent.parent
    commands = {
        row: {one.name: ["sh", "-c", line.replace("{source}", str(source))]
              for one in PROGRAM_CONTENDERS}
        for row, line in PROGRAMS.items()
    }
    compare(commands, PROGRAM_CONTENDERS, rounds)


def longest_of_libgc(command: list[str]) -> float:
    """Milliseconds, from what libgc writes of its pauses."""
    with tempfile.NamedTemporaryFile() as log:
        run(command, {"GC_PRINT_STATS": "1"}, log.name)
        text = Path(log.name).read_text(errors="replace")
    found = re.findall(r"marking took (\d+) ms (\d+) ns", text)
    return max((int(ms) + int(ns) / 1e6 for ms, ns in found), default=float("nan"))


def figures_of_ours(command: list[str], spec: str) -> dict[str, int]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "figures.json"
        added = {"LD_PRELOAD": LIBRARY, "ALLOTROPE": spec, "ALLOTROPE_STATS": str(path)}
        run(command, added)
        return json.loads(path.read_text())["gc"]


def pauses(rounds: int) -> None:
    for row, words in TREES.items():
        theirs = statistics.median(
            longest_of_libgc([program(words[0], "_libgc"), *words[1:]]) for _ in range(rounds)
        )
        for markers in (1, 2):
            command = [program(words[0], "_forgets"), *words[1:]]
            spec = f"gc:free=ignore,markers={markers}"
            samples = [figures_of_ours(command, spec) for _ in range(rounds)]
            longest = statistics.median(one["longest_pause_ns"] / 1e6 for one in samples)
            rate = statistics.median(one["marked_bytes"] / one["mark_ns"] for one in samples)
            blocks = statistics.median(one["marked_blocks"] / one["mark_ns"] * 1e3 for one in samples)
            roots = statistics.median(one["root_bytes"] / one["root_ns"] for one in samples)
            sweeps = statistics.median(one["sweep_ns"] / one["pause_ns"] for one in samples)
            print(
                f"{row:24} {markers} marker(s): longest {longest:6.1f} ms (libgc {theirs:6.1f}),"
                f" mark {rate:.2f} GB/s {blocks:.0f} M blocks/s, roots {roots:.2f} GB/s,"
                f" sweep {sweeps:.1%} of the pause",
                flush=True,
            )


def main() -> None:
    parts = {"trees": trees, "limits": limits, "programs": programs, "pauses": pauses}
    words = sys.argv[1:]
    if not words or words[0] not in parts or (len(words) > 1 and not words[1].isdigit()):
        sys.exit(f"collectors.py: '{' '.join(words)}': give {'|'.join(parts)} and a number of rounds")
    parts[words[0]](int(words[1]) if len(words) > 1 else 5)


if __name__ == "__main__":
    main()
