# SPDX-License-Identifier: MIT
"""CPU time, peak memory and page faults under each setting of the kernel's huge pages.

    sudo /usr/bin/python3 tests/measure/huge_pages.py [-a SPEC]... [--rounds N] [--only NAME]...
                                                      [--kb SIZE]... [--settings NAME]...

Run from the top of the build tree, on a quiet machine, as root: it writes to
/sys/kernel/mm/transparent_hugepage and puts back what was there, also after Ctrl-C or SIGTERM.

The settings are `always`, `madvise` and `never` of `enabled`, each with the smaller sizes (mTHP)
off; then, for each --kb (64 and 512 unless others are named), `enabled` and all sizes at `never`
but this one, which is `always`. A size that the kernel does not have is left out. A program runs
under one setting with all allocators in turn before the next; an allocator that reads the setting
does so as it starts.

Printed for each program: median CPU seconds, peak resident MB and thousands of page faults, each
with the range of the rounds; after an interruption, of the settings that were done.
"""

import argparse
import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Iterator

SOURCE = Path(__file__).resolve().parents[2]
HUGE = Path("/sys/kernel/mm/transparent_hugepage")
SUITES = ("real.toml", "micro.toml")
PROGRAMS = (
    "gawk",
    "perl",
    "gcc",
    "sqlite",
    "python3",
    "a set of large blocks",
    "a set of large blocks, first bytes written",
    "phases",
)
QUANTITIES = (
    ("cpu_seconds", "CPU s", 1.0, 3),
    ("peak_rss_bytes", "peak MB", 1e6, 1),
    ("minor_faults", "faults, thousands", 1e3, 2),
)


@dataclass(frozen=True)
class Setting:
    """What to write, by file below HUGE. A size that follows `enabled` is at `inherit`."""

    name: str
    written: dict[str, str]


def sizes_kb() -> list[int]:
    """What sizes the kernel has a setting for; older kernels have none."""
    found = (path.name.split("-")[1][:-2] for path in HUGE.glob("hugepages-*kB"))
    return sorted(int(size) for size in found if (HUGE / file_of(int(size))).exists())


def file_of(size_kb: int) -> str:
    return f"hugepages-{size_kb}kB/enabled"


def settings(asked_kb: list[int]) -> list[Setting]:
    """In the order in which they are measured."""
    sizes = sizes_kb()
    largest = max(sizes, default=0)
    whole = {file_of(size): "inherit" if size == largest else "never" for size in sizes}
    off = {file_of(size): "never" for size in sizes}
    listed = [Setting(word, {"enabled": word, **whole}) for word in ("always", "madvise", "never")]
    for size in asked_kb:
        if size in sizes:
            one = {"enabled": "never", **off, file_of(size): "always"}
            listed.append(Setting(f"{size} kB always", one))
        else:
            print(f"huge_pages: the kernel has no {file_of(size)}", file=sys.stderr)
    return listed


def chosen(text: str) -> str:
    """Of `always [madvise] never`: madvise."""
    return text.partition("[")[2].partition("]")[0]


def write(written: dict[str, str]) -> None:
    for name, word in written.items():
        (HUGE / name).write_text(word)
        now = chosen((HUGE / name).read_text())
        if now != word:
            sys.exit(f"huge_pages: {HUGE / name} is {now} after {word} was written")


@contextlib.contextmanager
def restored() -> Iterator[None]:
    """What the settings were comes back, however the block is left."""

    def end(number: int, _: object) -> None:
        sys.exit(128 + number)

    files = ("enabled", *(file_of(size) for size in sizes_kb()))
    before = {name: chosen((HUGE / name).read_text()) for name in files}
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, end)
    try:
        yield
    finally:
        write(before)


def measure(suite: str, programs: list[str], specs: list[str], rounds: int) -> list[dict[str, Any]]:
    """The programs of the suite, as compare's JSON has them."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "found.json"
        command = [sys.executable, "-I", str(SOURCE / "analysis"), "compare"]
        command += ["--suite", str(SOURCE / "bench_programs" / suite), "--rounds", str(rounds)]
        command += [word for name in programs for word in ("--only", name)]
        command += [word for spec in specs for word in ("-a", spec)]
        environment = dict(os.environ, ALLOTROPE_BUILD_DIR=os.getcwd())
        done = subprocess.run(
            [*command, "--json", str(path)],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
        )
        if not path.exists():
            sys.exit(f"huge_pages: compare ended with status {done.returncode}")
        found: list[dict[str, Any]] = json.loads(path.read_text())["programs"]
        return found


def in_words(quantity: dict[str, Any] | None, unit: float, digits: int) -> str:
    if quantity is None:
        return "-"
    low, high = min(quantity["rounds"]), max(quantity["rounds"])
    middle, low, high = (f"{each / unit:.{digits}f}" for each in (quantity["median"], low, high))
    return middle if low == high else f"{middle} [{low}, {high}]"


def rows(setting: str, program: dict[str, Any]) -> Iterator[str]:
    if not program["comparison"]:
        yield f"| {program['name']} | {setting} | {program['status']} | | | |"
        return
    for one in program["comparison"]["results"]:
        cells = [in_words(one[key], unit, digits) for key, _, unit, digits in QUANTITIES]
        spec = Path(one["spec"]).name if "/" in one["spec"] else one["spec"]
        fault = "" if one["status"] == "ok" else f" ({one['status']})"
        yield f"| {program['name']} | {setting} | {spec}{fault} | " + " | ".join(cells) + " |"


def names_of(suite: str) -> set[str]:
    read = tomllib.loads((SOURCE / "bench_programs" / suite).read_text())
    return {program["name"] for program in read["program"]}


def take(asked: argparse.Namespace, listed: list[Setting], table: dict[str, list[str]]) -> None:
    """The table's rows by program."""
    for setting in listed:
        write(setting.written)
        for suite in SUITES:
            programs = [name for name in asked.only if name in names_of(suite)]
            for program in (
                measure(suite, programs, asked.allocator, asked.rounds) if programs else []
            ):
                table[program["name"]] += rows(setting.name, program)
                print(f"{setting.name}: {program['name']}", file=sys.stderr, flush=True)


def show(table: dict[str, list[str]]) -> None:
    print("| program | setting | allocator | " + " | ".join(q[1] for q in QUANTITIES) + " |")
    print("|---|---|---|" + "--:|" * len(QUANTITIES))
    for lines in table.values():
        for line in lines:
            print(line)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("-a", "--allocator", action="append", metavar="SPEC")
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--only", action="append", metavar="NAME", help="of the suites' programs")
    parser.add_argument("--kb", action="append", type=int, metavar="SIZE")
    parser.add_argument("--settings", action="append", metavar="NAME", help="only these")
    asked = parser.parse_args()
    asked.allocator = asked.allocator or ["glibc", "blocks", "blocks:huge=16777216"]
    asked.only = asked.only or list(PROGRAMS)
    unknown = set(asked.only).difference(*(names_of(suite) for suite in SUITES))
    if unknown:
        parser.error(f"no such program: {', '.join(sorted(unknown))}")
    if not os.access(HUGE / "enabled", os.W_OK):
        sys.exit(f"huge_pages: {HUGE} cannot be written to; run it as root")
    listed = settings(asked.kb or [64, 512])
    listed = [one for one in listed if not asked.settings or one.name in asked.settings]
    table: dict[str, list[str]] = {name: [] for name in asked.only}
    try:
        with restored():
            take(asked, listed, table)
    finally:
        show(table)
    return 0


if __name__ == "__main__":
    sys.exit(main())
