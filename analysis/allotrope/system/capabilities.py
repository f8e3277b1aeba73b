# SPDX-License-Identifier: MIT
"""What this machine offers, and what is used instead of what is missing.

Each row is one fact with its consequence. Nothing is changed, and what cannot be found out says
so: absent is absent.
"""

import ctypes
import errno
import json
import os
import platform
import re
import shutil
import struct
import subprocess
from dataclasses import dataclass
from pathlib import Path

from . import allocators
from .errors import UserError
from .launch import Launch, launch
from .machine import (
    bracketed,
    distribution,
    integer,
    machine_facts,
    proc_is_mounted,
    read_line,
)
from .native import ask
from .places import PLACES

# perf_event_open and its struct perf_event_attr in the first version: type, size, config, three
# words of sampling, flags, three words of wake-ups and breakpoints.
SYS_PERF_EVENT_OPEN = 298
COUNTER = struct.Struct("IIQ24xQ16x")
PERF_TYPE_HARDWARE, PERF_COUNT_HW_INSTRUCTIONS = 0, 1
EXCLUDE_KERNEL = 1 << 5
PMU_DEVICES = Path("/sys/bus/event_source/devices")


@dataclass(frozen=True)
class Row:
    name: str
    state: str
    available: bool | None  # None: a mere fact
    consequence: str


def examine() -> list[Row]:
    return [
        _kernel(),
        *_proc(),
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


def _proc() -> list[Row]:
    """A row where it is missing, from which much of what is unknown here follows."""
    if proc_is_mounted():
        return []
    what = "most commands need it, and the machine's facts are unknown; mount -t proc proc /proc"
    return [Row("/proc", "not mounted", False, what)]


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
        "madvise": "only allocators that ask get them; ours ask where `huge` is set",
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
        method = launch(Launch(["true"])).tree_peak_method
    except UserError as error:
        return Row(name, "unknown", None, error.format_message())
    if method == "memory.peak":
        return Row(name, "available", True, "a tree's peak memory is the kernel's own account")
    return Row(name, "absent", False, sampled)


def counter_error() -> int:
    """Tries to count the instructions of this process: 0, or the errno of what refuses it."""
    counter = COUNTER.pack(
        PERF_TYPE_HARDWARE, COUNTER.size, PERF_COUNT_HW_INSTRUCTIONS, EXCLUDE_KERNEL
    )
    file = ctypes.CDLL(None, use_errno=True).syscall(SYS_PERF_EVENT_OPEN, counter, 0, -1, -1, 0)
    if file < 0:
        return ctypes.get_errno()
    os.close(file)
    return 0


def _counters() -> Row:
    """A processor with cores of two kinds has a device for each."""
    name = "hardware counters"
    error = counter_error()
    if error == 0:
        return Row(name, "available", True, "perf can count instructions and misses")
    has_any = any((PMU_DEVICES / kind).exists() for kind in ("cpu", "cpu_core", "cpu_atom"))
    if error not in (errno.EACCES, errno.EPERM, errno.ENOSYS) or not has_any:
        return Row(name, "absent", False, "no counts of cache misses; they are simulated")
    level = integer(read_line("/proc/sys/kernel/perf_event_paranoid"))
    if level is not None and level > 2 and os.geteuid() != 0:
        return Row(name, "forbidden", False, f"kernel.perf_event_paranoid is {level}, need 2")
    return Row(name, "forbidden", False, f"perf_event_open fails: {os.strerror(error)}")


def _tool(program: str, package: str, found: str, missing: str) -> Row:
    if shutil.which(program) is None:
        return Row(program, "missing", False, f"{missing}; Debian package {package}")
    answer = subprocess.run([program, "--version"], capture_output=True, text=True, check=False)
    version = re.search(r"\d+(\.\d+)+", answer.stdout)
    return Row(program, version.group(0) if version else "installed", True, found)


def _dirty_bits() -> Row:
    """Asks allotrope-vm, which knows by trying."""
    name = "dirty bits without signals"
    try:
        answer = ask(PLACES.vm, "dirty")
    except UserError as error:
        return Row(name, "unknown", None, error.format_message())
    if answer.status != 0:
        return Row(name, "unknown", None, answer.message or f"{PLACES.vm} failed")
    (figure,) = json.loads(answer.output)["figures"]
    if figure["ns"] is not None:
        return Row(name, "available", True, "userfaultfd WP_ASYNC with PAGEMAP_SCAN")
    return Row(
        name, "refused", False, f"{figure['why']}; generations=2 and concurrent=on do nothing"
    )


def lacking() -> list[dict[str, str]]:
    """What this machine does not have, with what follows, for a comparison to carry along."""
    return [
        {"name": row.name, "state": row.state, "consequence": row.consequence}
        for row in examine()
        if row.available is False
    ]
