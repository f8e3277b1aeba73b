# SPDX-License-Identifier: MIT
"""How long the kernel takes for each step in which `blocks` gives memory back.

    sudo /usr/bin/python3 tests/measure/decay_steps.py [--library FILE] [-- CMD...]...

Run from the top of the build tree, on a quiet machine. A step is one madvise(MADV_DONTNEED): of
free runs by surplus.c, 512 KiB at most, or of pages in slabs by idle.c. (Longer calls are libc's,
of the stacks of threads that have ended.) perf times each by the kernel's own tracepoints, which
add about a microsecond; strace would add tens. A call in which the scheduler took the processor
away is counted apart: its time is another program's too.

Without CMD: programs of bench_programs that give back much. Each CMD stands behind a `--`.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Iterable

PROGRAMS = (
    "latency timed=1 operations=5000000",
    "large_blocks operations=3000",
    "large_set operations=300",
    "large_set operations=20000 written=64",
    "waves scale=500 waves=10",
)
EVENTS = "syscalls:sys_enter_madvise,syscalls:sys_exit_madvise,sched:sched_switch"
LINE = re.compile(r"\s(?P<tid>\d+)\s+(?P<seconds>\d+\.\d+):\s+(?P<event>\w+:\w+):\s*(?P<rest>.*)")
CALL = re.compile(r"len_in: (0x[0-9a-f]+), behavior: (0x[0-9a-f]+)")
DONTNEED, MOST_BYTES, LIMIT_US = 4, 1 << 20, 100.0


@dataclass
class Steps:
    """Microseconds of each. interrupted: those in which another program ran."""

    whole: list[float] = field(default_factory=list)
    interrupted: list[float] = field(default_factory=list)
    bytes: int = 0


def steps_of(lines: Iterable[str]) -> Steps:
    """lines: perf's, in order of time."""
    steps = Steps()
    began: dict[str, float] = {}
    switched: set[str] = set()
    for line in lines:
        found = LINE.search(line)
        if not found:
            continue
        tid, now, event = found["tid"], float(found["seconds"]), found["event"]
        call = CALL.search(found["rest"])
        if call and int(call[2], 16) == DONTNEED and int(call[1], 16) <= MOST_BYTES:
            began[tid] = now
            steps.bytes += int(call[1], 16)
        elif event == "sched:sched_switch" and tid in began:
            switched.add(tid)
        elif event == "syscalls:sys_exit_madvise" and tid in began:
            list_of = steps.interrupted if tid in switched else steps.whole
            list_of.append((now - began.pop(tid)) * 1e6)
            switched.discard(tid)
    return steps


def record(command: list[str], library: str) -> Steps:
    with tempfile.TemporaryDirectory() as folder:
        data = str(Path(folder) / "perf.data")
        under = ["env", f"LD_PRELOAD={library}", "ALLOTROPE=blocks", *command]
        subprocess.run(
            ["perf", "record", "-q", "-o", data, "-e", EVENTS, "--", *under],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            check=True,
        )
        script = ["perf", "script", "--ns", "-i", data, "-F", "comm,tid,time,event,trace"]
        with subprocess.Popen(
            script, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        ) as reader:
            assert reader.stdout
            return steps_of(reader.stdout)


def part(ordered: list[float], share: float) -> float:
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


def row(name: str, steps: Steps) -> str:
    whole = sorted(steps.whole)
    if not whole:
        return f"| {name} | 0 | | | | | | {len(steps.interrupted)} |"
    above = sum(each > LIMIT_US for each in whole)
    times = " | ".join(f"{each:.1f}" for each in (part(whole, 0.5), part(whole, 0.99), whole[-1]))
    count = len(whole) + len(steps.interrupted)
    cut = f"{len(steps.interrupted)}"
    if steps.interrupted:
        cut += f", {max(steps.interrupted) / 1000:.1f} ms"
    return f"| {name} | {count} | {steps.bytes / count / 1024:.0f} | {times} | {above} | {cut} |"


def commands_in(words: list[str]) -> list[list[str]]:
    """Each behind a `--`."""
    commands: list[list[str]] = []
    for word in words:
        if word == "--":
            commands.append([])
        elif commands:
            commands[-1].append(word)
    return commands


def main() -> int:
    words = sys.argv[1:]
    split = words.index("--") if "--" in words else len(words)
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--library", default=".libs/liballotrope.so", metavar="FILE")
    asked = parser.parse_args(words[:split])
    library = os.path.abspath(asked.library)
    of_ours = [["bench_programs/" + each.split()[0], *each.split()[1:]] for each in PROGRAMS]
    print("| program | steps | KiB, mean | us: 50% | 99% | longest | above 100 | interrupted |")
    print("|---|--:|--:|--:|--:|--:|--:|--:|")
    for command in commands_in(words[split:]) or of_ours:
        print(row(" ".join(command), record(command, library)), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
