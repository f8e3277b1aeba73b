# SPDX-License-Identifier: MIT
"""What a tree of processes has used up to now, read while it runs.

A process's CPU time comes from its clock, to the nanosecond, threads that have ended included. What
it had from children that it waited for is in the kernel's ticks (10 ms). The split into user and
system time is the kernel's own, by ticks. A process that ends between two readings goes over to
its parent's account, so that the difference of two readings misses nothing. One that ends during a
reading, after its parent was read, would be in neither account: then all is read again.
"""

import os
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Mapping, Sequence

MOST_READINGS = 10  # of a tree in which processes end all the time
TICKS = os.sysconf("SC_CLK_TCK")
# Of /proc/PID/stat, counted behind the command's name.
STATE, PARENT, GROUP, SESSION = 0, 1, 2, 3
MINOR, CHILD_MINOR, MAJOR, CHILD_MAJOR = 7, 8, 9, 10
USER, SYSTEM, CHILD_USER, CHILD_SYSTEM = 11, 12, 13, 14
STARTED = 19  # ticks since the machine's start
CODE, STACK = 23, 25  # addresses; 0 in a process that has ended


@dataclass(frozen=True)
class TreeUsage:
    """Of all processes of a tree."""

    user_seconds: float
    system_seconds: float
    minor_faults: int
    major_faults: int
    processes: int
    by_process: Mapping[int, float] = field(default_factory=dict)  # CPU seconds, its own

    def since(self, before: "TreeUsage") -> "TreeUsage":
        return TreeUsage(
            max(0.0, self.user_seconds - before.user_seconds),
            max(0.0, self.system_seconds - before.system_seconds),
            max(0, self.minor_faults - before.minor_faults),
            max(0, self.major_faults - before.major_faults),
            self.processes,
        )


def children_of(pid: int) -> list[int]:
    """Those of all its threads."""
    found: list[int] = []
    folder = f"/proc/{pid}/task"
    try:
        threads = os.listdir(folder)
    except OSError:
        return found
    for thread in threads:
        found += map(int, _read(f"{folder}/{thread}/children").split())
    return found


def descendants(root: int) -> list[int]:
    """The processes that `root` and its descendants have made, root itself left out. One whose
    parent has ended is another's child by now, and not among them (command_tree.py)."""
    found: list[int] = []
    waiting = [root]
    while waiting:
        pids = children_of(waiting.pop())
        found += pids
        waiting += pids
    return found


@dataclass(frozen=True)
class Image:
    """What a process runs. With each exec the addresses change, where the kernel shows them."""

    started: int  # with it a process differs from another that had its number before
    code: int
    stack: int

    @property
    def is_hidden(self) -> bool:
        """Whether the kernel shows the addresses to others alone: it says 1 and 0 then."""
        return self.code <= 1


def image_of(pid: int) -> Image | None:
    """None when the process has ended."""
    fields = stat_fields(pid)
    return Image(fields[STARTED], fields[CODE], fields[STACK]) if fields and fields[CODE] else None


def start_times(pids: Sequence[int]) -> dict[int, int]:
    """Of those that there are, as in Image; one that has ended is there until it is waited for."""
    fields = {pid: stat_fields(pid) for pid in pids}
    return {pid: known[STARTED] for pid, known in fields.items() if known}


def has_stopped(pid: int) -> bool | None:
    """By a signal. None when the process has ended."""
    state = _read(f"/proc/{pid}/stat").rpartition(b") ")[2][:1]
    return None if state in (b"", b"Z", b"X") else state in (b"T", b"t")


def age_seconds(pid: int) -> float:
    """How long ago the process was made. Raises ProcessLookupError when it is gone."""
    fields = stat_fields(pid)
    if not fields:
        raise ProcessLookupError(pid)
    return time.clock_gettime(time.CLOCK_BOOTTIME) - fields[STARTED] / TICKS


def tree_usage(root: int) -> TreeUsage:
    """What the descendants of `root` have used; what it waited for itself counts as theirs."""
    for _ in range(MOST_READINGS):
        before = start_times(descendants(root))
        found = _read_usage(root, list(before))
        if before.items() <= start_times(descendants(root)).items():
            break
    return found


def _read_usage(root: int, pids: Sequence[int]) -> TreeUsage:
    user = system = 0.0
    minor = major = 0
    by_process: dict[int, float] = {}
    for pid in pids:
        fields = stat_fields(pid)
        if not fields:
            continue
        own_user, own_system = fields[USER] / TICKS, fields[SYSTEM] / TICKS
        exact = cpu_clock(pid)
        if exact is not None and own_user + own_system > 0:
            own_user, own_system = (
                exact * part / (own_user + own_system) for part in (own_user, own_system)
            )
        elif exact is not None:
            own_user = exact
        by_process[pid] = own_user + own_system
        user += own_user + fields[CHILD_USER] / TICKS
        system += own_system + fields[CHILD_SYSTEM] / TICKS
        minor += fields[MINOR] + fields[CHILD_MINOR]
        major += fields[MAJOR] + fields[CHILD_MAJOR]
    fields = stat_fields(root)
    if fields:
        user += fields[CHILD_USER] / TICKS
        system += fields[CHILD_SYSTEM] / TICKS
        minor += fields[CHILD_MINOR]
        major += fields[CHILD_MAJOR]
    return TreeUsage(user, system, minor, major, len(pids), by_process)


@dataclass(frozen=True)
class Window:
    """A part of a tree's life, between two readings."""

    began: float  # by CLOCK_MONOTONIC
    ended: float
    before: TreeUsage
    after: TreeUsage

    def cpu_seconds(self, pid: int, at_end: float, ended: float | None) -> float:
        """What a process used within it. at_end: its CPU time when it ended; ended: when that was,
        None where nobody saw it."""
        known = self.after.by_process.get(pid)
        if known is None:
            seen = ended is not None and self.began <= ended <= self.ended
            known = at_end if seen else 0.0
        return max(0.0, known - self.before.by_process.get(pid, 0.0))


def proc_text(pid: int, file: str) -> str:
    """A file of /proc/PID, in which the names of programs and files stand: they are any bytes, and
    the kernel cuts a program's off behind 15 of them. Raises OSError."""
    return os.fsdecode(Path(f"/proc/{pid}/{file}").read_bytes())


def stat_fields(pid: int) -> list[int]:
    """The figures behind the name in /proc/PID/stat, the state's letter as 0; none when it has
    ended."""
    fields = _read(f"/proc/{pid}/stat").rpartition(b")")[2].split()
    return [0, *map(int, fields[1:])] if fields else []


def _read(file: str) -> bytes:
    """Nothing when what it tells of has ended. Without pathlib: a look reads several of these for
    each process."""
    try:
        with open(file, "rb", buffering=0) as opened:
            return opened.read()
    except OSError:
        return b""


def cpu_clock(pid: int) -> float | None:
    """Seconds on a process's CPU clock, as clock_getcpuclockid has it: of all its threads, those
    that have ended too. None when the process has ended."""
    try:
        return time.clock_gettime((~pid << 3) | 2)
    except OSError:
        return None
