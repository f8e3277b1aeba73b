# SPDX-License-Identifier: MIT
"""What this machine offers, and what is used instead of what is missing.

Each row is one fact with its consequence. Nothing is changed, and what cannot be found out says
so: absent is absent.
"""

import dataclasses
import json
import os
import platform
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Sequence

import click

from ..output.terminal import print_line, terminal
from ..output.text import wrap
from ..system import allocators
from ..system.errors import UserError
from ..system.launch import launch
from ..system.machine import bracketed, distribution, integer, machine_facts, read_line
from ..system.places import PLACES
from .words import Word

SCHEMA = "allotrope.doctor/1"

# PAGEMAP_SCAN and userfaultfd's asynchronous write protection came together.
ASYNCHRONOUS_DIRTY_BITS = (6, 7)

LEAST_LAST_COLUMN = 40


@dataclass(frozen=True)
class Row:
    name: str
    state: str
    available: bool | None  # None: a mere fact
    consequence: str


def examine() -> list[Row]:
    return [
        _kernel(),
        _cpus(),
        _memory(),
        _huge_pages(),
        _overcommit(),
        _launcher(),
        _library(),
        *(_peer(peer) for peer in allocators.PEERS),
        _tree_memory(),
        _counters(),
        _tool("perf", "linux-perf", "samples of where time goes", "no cross-check by samples"),
        _tool("valgrind", "valgrind", "references can be recorded", "no recording of references"),
        _tool("hyperfine", "hyperfine", "times can be cross-checked", "no cross-check of times"),
        _tool("eu-addr2line", "elfutils", "allocation sites have names", "sites have addresses"),
        _dirty_bits(),
    ]


def _kernel() -> Row:
    return Row("kernel", platform.release(), None, distribution() or "distribution unknown")


def _cpus() -> Row:
    facts = machine_facts()
    usable, load = facts["usable_cpus"], facts["load_average"]
    busy = (
        f"load {load}: others are at work, so expect wide intervals"
        if load > 0.5 * usable
        else f"load {load}: quiet enough to measure"
    )
    return Row("CPUs", f"{usable} × {facts['cpu'] or 'unknown model'}", None, busy)


def _memory() -> Row:
    size = machine_facts()["memory_bytes"]
    state = "unknown" if size is None else f"{size / 2**30:.1f} GiB"
    return Row("memory", state, None, "what a run needs beyond it is swapped and not comparable")


def _huge_pages() -> Row:
    state = bracketed(read_line("/sys/kernel/mm/transparent_hugepage/enabled"))
    meaning = {
        "always": "resident size of every allocator is rounded up to 2 MiB pages",
        "madvise": "only allocators that ask get them; ours do not",
        "never": "no allocator gets them",
    }
    return Row(
        "transparent huge pages",
        state or "absent",
        None,
        meaning.get(state or "", "no allocator gets them"),
    )


def _overcommit() -> Row:
    state = integer(read_line("/proc/sys/vm/overcommit_memory"))
    meaning = {
        0: "large reservations of address space are granted within reason",
        1: "every reservation of address space is granted",
        2: "reservations count: our heaps start small and grow by less at a time",
    }
    if state is None:
        return Row("overcommit", "unknown", None, "cannot be read")
    return Row("overcommit", str(state), None, meaning.get(state, "unknown to this program"))


def _launcher() -> Row:
    built = PLACES.launcher.exists()
    return Row(
        "launcher",
        "built" if built else "missing",
        built,
        "runs are accounted one by one" if built else f"run make; looked for {PLACES.launcher}",
    )


def _library() -> Row:
    missing = allocators.own_missing()
    if missing is not None:
        return Row("allotrope's library", "missing", False, missing)
    catalogue = allocators.own_catalogue() or {"allocators": [], "version": "unknown"}
    names = ", ".join(own["name"] for own in catalogue["allocators"])
    return Row("allotrope's library", f"built, {catalogue['version']}", True, f"offers {names}")


def _peer(peer: allocators.Peer) -> Row:
    path = peer.path()
    if path is None:
        return Row(peer.name, "missing", False, f"left out; Debian package {peer.package}")
    return Row(peer.name, peer.version() or "installed", True, f"{path}")


def _tree_memory() -> Row:
    """Asks the launcher, which knows by trying."""
    name = "cgroup memory.peak"
    sampled = "a tree's peak memory is sampled from outside (PSS), short peaks may be missed"
    try:
        method = launch(["true"]).tree_peak_method
    except UserError as error:
        return Row(name, "unknown", None, error.format_message())
    if method == "memory.peak":
        return Row(name, "available", True, "a tree's peak memory is the kernel's own account")
    return Row(name, "absent", False, sampled)


def _counters() -> Row:
    hardware = Path("/sys/bus/event_source/devices/cpu").exists()
    level = integer(read_line("/proc/sys/kernel/perf_event_paranoid"))
    if not hardware:
        return Row(
            "hardware counters", "absent", False, "no counts of cache misses; they are simulated"
        )
    if level is not None and level > 2 and os.geteuid() != 0:
        return Row(
            "hardware counters",
            "forbidden",
            False,
            f"kernel.perf_event_paranoid is {level}, need 2",
        )
    return Row("hardware counters", "available", True, "perf can count instructions and misses")


def _tool(program: str, package: str, found: str, missing: str) -> Row:
    if shutil.which(program) is None:
        return Row(program, "missing", False, f"{missing}; Debian package {package}")
    answer = subprocess.run([program, "--version"], capture_output=True, text=True, check=False)
    version = re.search(r"\d+(\.\d+)+", answer.stdout)
    return Row(program, version.group(0) if version else "installed", True, found)


def _dirty_bits() -> Row:
    release = re.match(r"(\d+)\.(\d+)", platform.release())
    known = release is not None and (int(release[1]), int(release[2])) >= ASYNCHRONOUS_DIRTY_BITS
    return Row(
        "dirty bits without signals",
        "kernel is recent enough" if known else "absent",
        known,
        "userfaultfd WP_ASYNC with PAGEMAP_SCAN"
        if known
        else "needs Linux 6.7; written pages are found by mprotect",
    )


def lacking() -> list[dict[str, str]]:
    """What this machine does not have, with what follows, for a comparison to carry along."""
    return [
        {"name": row.name, "state": row.state, "consequence": row.consequence}
        for row in examine()
        if row.available is False
    ]


def as_json(rows: list[Row]) -> str:
    document = {"schema": SCHEMA, "rows": [dataclasses.asdict(row) for row in rows]}
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def as_lines(row: Row, widths: Sequence[int], width: int) -> list[str]:
    """A row as lines of at most `width`: in three columns, or in two where three are too many."""
    start = f"{row.name:<{widths[0]}}  "
    text = f"{row.state}; {row.consequence}"
    if width - widths[0] - widths[1] >= LEAST_LAST_COLUMN:
        start += f"{row.state:<{widths[1]}}  "
        text = row.consequence
    return wrap(start + text, width, " " * len(start))


@click.command("doctor", cls=Word)
@click.option("--json", "wants_json", is_flag=True, help="write JSON (allotrope.doctor/1)")
def doctor(wants_json: bool) -> None:
    """Show what this machine offers, and what is used instead of what is missing."""
    rows = examine()
    if wants_json:
        click.echo(as_json(rows), nl=False)
        return
    console = terminal()
    widths = [max(len(row.name) for row in rows), max(len(row.state) for row in rows)]
    for row in rows:
        for line in as_lines(row, widths, console.width):
            print_line(console, line, "yellow" if row.available is False else "")
