#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""The recorder's figures: make && make tests/trace/churning && tests/measure/recorder.py [ROUNDS]

Each program under --tool=none, recorded to nothing, and recorded to a file, in turn; medians of
CPU seconds (the encoder's own are in the last) and of elapsed time."""

import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

TREE = Path(__file__).resolve().parents[2]
TOOLS, TRACER = TREE / "trace" / "recorder", TREE / "trace" / "allotrope-trace"
CHURN = TREE / "tests" / "trace" / "churning"
WORDS = "/usr/share/dict/words"
FILL = str(TREE / "bench_programs" / "gawk_fill" / "fill.awk")
PERL = (
    'my %n; open F, "' + WORDS + '"; while (<F>) { chomp; $n{lc $_}++; '
    '$n{$_}++ for split /(?<=[aeiou])/ } my $s = 0; $s += $n{$_} for sort keys %n; print "$s\\n"'
)
PROGRAMS = {
    "gawk": ["gawk", "-f", FILL, WORDS],
    "perl": ["perl", "-e", PERL],
    "C, malloc-bound": [str(CHURN)],
}


def run(line: list[str | Path]) -> tuple[float, float]:
    """CPU seconds, children included, and elapsed seconds."""
    start = time.monotonic()
    where = {"VALGRIND_LIB": str(TOOLS), "VALGRIND_LAUNCHER": "/usr/bin/valgrind"}
    process = subprocess.Popen(line, stdout=subprocess.DEVNULL, env=os.environ | where)
    _, status, usage = os.wait4(process.pid, 0)
    assert status == 0, line
    return usage.ru_utime + usage.ru_stime, time.monotonic() - start


def measure(command: list[str], rounds: int) -> dict[str, list[tuple[float, float]]]:
    trace = "/dev/shm/allotrope-measure.alt"
    ways: dict[str, list[str | Path]] = {
        "native": [],
        "none": [TOOLS / "none-amd64-linux", "--tool=none", "-q"],
        "to nothing": [TOOLS / "allotrope-amd64-linux", "--tool=allotrope", "-q"],
        "to a file": [TREE / "trace" / "allotrope-trace-record", "-o", trace, "-t", TOOLS, "--"],
        "decode": [TRACER, "check", trace],
    }
    times: dict[str, list[tuple[float, float]]] = {way: [] for way in ways}
    for _ in range(rounds):
        for way, line in ways.items():
            times[way].append(run(line if way == "decode" else [*line, *command]))
    facts = json.loads(subprocess.run([TRACER, "info", trace], capture_output=True).stdout)
    os.unlink(trace)
    references = facts["totals"]["references"]
    print(f"  {references / 1e6:.0f} M references, {facts['bytes'] / references:.3f} bytes each")
    return times


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    for name, command in PROGRAMS.items():
        print(name)
        times = measure(command, rounds)
        for way, values in times.items():
            cpu = statistics.median(value[0] for value in values)
            ratios = [value[0] / none[0] for value, none in zip(values, times["none"])]
            print(
                f"  {way:<11} {cpu:7.2f} s CPU  {statistics.median(v[1] for v in values):7.2f} s  "
                f"{statistics.median(ratios):5.2f} times none, range "
                f"{min(ratios):.2f}..{max(ratios):.2f}"
            )


if __name__ == "__main__":
    main()
