# SPDX-License-Identifier: MIT
"""The heap of a process that runs under one of our allocators, read from outside. The process is
not stopped and does nothing for it; shim/reports/publish.h says how."""

import struct
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...system.counters import (
    Published,
    find_published,
    heap_range,
    mapped_memory,
    why_unreadable,
)
from ...system.errors import UserError
from ...system.process_tree import age_seconds, image_of, proc_text, start_times

SCHEMA = "allotrope.live/1"
PATIENCE_SECONDS = 10  # how old a process is that is not waited for
OBSERVED = "next"  # our library stands in front of it, for --latency
SYSTEM_CALLS = ("mmap", "munmap", "mremap", "madvise")
GIVEN_UP = {  # why a collection was given up
    "no_thread_list": "the threads cannot be listed",
    "no_signal": "the kernel sends no signal",
    "thread_does_not_stop": "a thread does not stop",
    "too_many_threads": "there are too many threads",
    "roots_unreadable": "the roots cannot be read",
    "not_available": "not possible at that moment",
}
CALLS = ("malloc", "calloc", "realloc", "aligned", "free")


@dataclass
class Process:
    """A process that was found to run under our library, and where its counters are."""

    pid: int
    started: int  # tells it from a later process of the same number
    published: Published

    @property
    def has_collector(self) -> bool:
        return "gc_collections" in self.published.counters

    def read(self) -> dict[str, int]:
        """The counters' values. Raises UserError when the process has ended."""
        try:
            values = self.published.read(self.pid)
        except (OSError, struct.error):
            raise _ended(self.pid) from None
        if _started(self.pid) != self.started:
            raise _ended(self.pid)
        return values

    def snapshot(self) -> dict[str, Any]:
        """allotrope.live/1: what is known of the heap at this moment."""
        values = self.read()
        resident, heap_resident = _resident(self.pid, values)
        document: dict[str, Any] = {
            "schema": SCHEMA,
            "pid": self.pid,
            "command": _command(self.pid),
            "allocator": self.published.allocator,
            "preset": self.published.preset,
            "mapped_bytes": values["mapped_bytes"],
            "mapped_peak_bytes": values["mapped_peak_bytes"],
            "metadata_bytes": values["metadata_bytes"],
            "heap_resident_bytes": heap_resident,
            "process_resident_bytes": resident,
            "system_calls": {name: values[name] for name in SYSTEM_CALLS},
            "live": None,
            "collections": _collections(values),
        }
        if "live_blocks" in values:
            requested = values["live_requested_bytes"]
            document["live"] = {
                "blocks": values["live_blocks"],
                "requested_bytes": requested,
                "most_requested_bytes": values["most_requested_bytes"],
                "total_blocks": values["total_blocks"],
                "total_requested_bytes": values["total_requested_bytes"],
                "heap_over_requested": values["mapped_bytes"] / requested if requested else None,
                "calls": {name: values[f"{name}_calls"] for name in CALLS},
            }
        return document


def _collections(values: dict[str, int]) -> dict[str, Any] | None:
    """None: there is no collector."""
    if "gc_collections" not in values:
        return None
    names = {
        "gc_collections": "count",
        "gc_minor_collections": "minor",
        "gc_pause_ns": "pause_ns",
        "gc_longest_pause_ns": "longest_pause_ns",
        "gc_freed_bytes": "freed_bytes",
        "gc_live_bytes": "live_bytes",
    }
    found: dict[str, Any] = {key: values[name] for name, key in names.items() if name in values}
    return found | {"given_up": {name: values[name] for name in GIVEN_UP}}


class NotOurs(UserError):
    """A process that does not run under our library."""


def _ended(pid: int) -> UserError:
    return UserError(f"process {pid} has ended", 1)


def _started(pid: int) -> int:
    if found := start_times([pid]):
        return found[pid]
    raise _ended(pid)


def _command(pid: int) -> str:
    try:
        return proc_text(pid, "comm").strip()
    except OSError:
        raise _ended(pid) from None


def find(pid: int) -> Process:
    """Raises UserError for what speaks against it: no such process, somebody else's, or one that
    does not run under our library. One that was just started is waited for: before it is the
    program it is `allotrope run`, and a shell before that."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            return _look_for(pid)
        except NotOurs:
            if time.monotonic() >= deadline or _is_old(pid):
                raise
            time.sleep(0.05)


def _is_old(pid: int) -> bool:
    try:
        return age_seconds(pid) >= PATIENCE_SECONDS
    except ProcessLookupError:
        raise _ended(pid) from None


def _look_for(pid: int) -> Process:
    if not Path(f"/proc/{pid}").is_dir():
        raise UserError(f"there is no process {pid}")
    started = _started(pid)
    try:
        maps = proc_text(pid, "maps").splitlines()
        published = find_published(pid, maps)
    except PermissionError:
        raise UserError(why_unreadable(pid)) from None
    except (OSError, struct.error):
        maps, published = [], None
    if published is not None and published.allocator == OBSERVED:
        raise UserError(
            f"process {pid} ({_command(pid)}) has an allocator that is not ours, and its heap is "
            "not known: `stats` tells of `allotrope run -a ALLOCATOR` with one of our own"
        )
    if published is not None:
        return Process(pid, started, published)
    if not maps and image_of(pid) is not None:
        raise NotOurs(f"process {pid} became another program (exec) as it was looked at; ask again")
    if not maps:
        raise UserError(f"process {pid} has no memory: it is a kernel thread or has just ended")
    raise NotOurs(
        f"process {pid} ({_command(pid)}) does not run under an allocator of ours; start it with "
        "`allotrope run -a ALLOCATOR -- CMD`, and one of those that `allotrope list` shows first"
    )


def _resident(pid: int, values: dict[str, int]) -> tuple[int, int]:
    """Resident bytes of the process, and of it the heap's: the mappings in the window."""
    heap_addresses = heap_range(values)
    whole = heap = 0
    try:
        for addresses, _, size in mapped_memory(pid, "Rss"):
            whole += size
            heap += size if addresses.start in heap_addresses else 0
    except OSError:
        raise _ended(pid) from None
    return whole, heap
