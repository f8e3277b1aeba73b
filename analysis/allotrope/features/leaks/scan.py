# SPDX-License-Identifier: MIT
"""The words of a process that a collection would look at, as far as they can be read from outside.

Which mappings and pages hold roots, and at which addresses words begin, is as gc/world/roots.c and
gc/mark/candidates.h have it.
"""

import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Iterator

from ..sites.snapshot import SiteTable, Unreadable

PAGE, CHUNK_PAGES, WORD, PACKED = 4096, 4096, 8, 4
# of an entry of pagemap
PRESENT_OR_SWAPPED, SWAPPED, OF_FILE = 3 << 62, 1 << 62, 1 << 61
RED_ZONE = 128


@dataclass(frozen=True)
class Area:
    """A line of /proc/PID/maps."""

    addresses: range
    permissions: str  # "rw-p"
    name: str  # empty: none

    @property
    def is_shared(self) -> bool:
        return self.permissions[3] == "s"

    @property
    def is_code(self) -> bool:
        return "x" in self.permissions

    @property
    def is_guard(self) -> bool:
        return self.permissions.startswith("---")

    def is_shared_memory(self) -> bool:
        """Not of a file, or of one that has no name any more."""
        return self.name.startswith(("/dev/shm/", "[anon_shmem:")) or self.name.endswith(
            " (deleted)"
        )

    def is_device(self, pid: int) -> bool:
        if self.name.startswith(("/sys/", "/proc/")):
            return True
        if not self.name.startswith("/dev/") or self.is_shared_memory():
            return False
        try:
            return not stat.S_ISREG(os.stat(f"/proc/{pid}/root{self.name}").st_mode)
        except OSError:
            return True

    def may_hold_roots(self, pid: int) -> bool:
        if self.is_shared:
            can_change = "w" in self.permissions or self.is_shared_memory()
            return can_change and not self.is_device(pid)
        return not self.name.startswith(("[v", "[uprobes"))


def areas_of(pid: int) -> list[Area]:
    areas = []
    for line in Path(f"/proc/{pid}/maps").read_text(errors="replace").splitlines():
        words = line.split(None, 5)
        addresses = range(*(int(word, 16) for word in words[0].split("-")))
        areas.append(Area(addresses, words[1], words[5].strip() if len(words) == 6 else ""))
    return areas


def unused_stacks(pid: int, areas: list[Area]) -> list[range]:
    """Of threads that wait: the part of a stack's mapping below what is in use. None of a mapping
    that the collector reads whole: it has no guard below it, or one within it, or several threads'
    stacks."""
    pointers = stack_pointers(pid)
    found = []
    for below, area in zip([None, *areas], areas):
        inside = [pointer for pointer in pointers if pointer in area.addresses]
        has_guard = below is not None and (
            below.is_guard and below.addresses.stop == area.addresses.start
        )
        if len(inside) != 1 or not (has_guard or area.name == "[stack]"):
            continue
        unused = range(area.addresses.start, inside[0] - RED_ZONE)
        if area.name == "[stack]" or not has_marked_guard(pid, unused):
            found.append(unused)
    return found


def has_marked_guard(pid: int, addresses: range) -> bool:
    """Whether pages may be marked as guards (MADV_GUARD_INSTALL), which pagemap calls swapped."""
    count = len(addresses) // PAGE
    with open(f"/proc/{pid}/pagemap", "rb") as pagemap:
        pagemap.seek(addresses.start // PAGE * WORD)
        entries = memoryview(pagemap.read(count * WORD)).cast("Q")
    return any(entry & SWAPPED for entry in entries)


def stack_pointers(pid: int) -> list[int]:
    found = []
    for task in os.listdir(f"/proc/{pid}/task"):
        try:
            words = Path(f"/proc/{pid}/task/{task}/syscall").read_text().split()
        except OSError:
            continue
        if len(words) > 2:
            found.append(int(words[-2], 16))
    return found


@dataclass(frozen=True)
class Hits:
    """Words of one run of pages, in no order: where they are, and what they are."""

    area: Area
    at: Any
    words: Any


class Words:
    """Finds words between two bounds, both included."""

    def __init__(self, table: SiteTable, areas: list[Area], low: int, high: int) -> None:
        import numpy

        self.np = numpy
        self.table = table
        self.areas = [area for area in areas if area.may_hold_roots(table.pid)]
        self.low, self.high = low, high

    def __iter__(self) -> Iterator[Hits]:
        for area in self.areas:
            width = WORD - 1 if area.is_code else PACKED  # of what a word may have before a page
            behind, tail = -1, b""
            for start, data in self.runs(area):
                if start == behind:  # a word may lie across
                    yield self.hits(area, start - len(tail), tail + data)
                else:
                    yield self.hits(area, start, data)
                behind, tail = start + len(data), data[-width:]

    def hits(self, area: Area, start: int, data: bytes) -> Hits:
        """At every fourth byte, in code at each."""
        parts = [self.at_halves(data, shift) for shift in (range(PACKED) if area.is_code else (0,))]
        at = self.np.concatenate([offsets for offsets, _ in parts]).astype("<u8")
        at += self.np.uint64(start)
        return Hits(area, at, self.np.concatenate([words for _, words in parts]))

    def at_halves(self, data: bytes, shift: int) -> tuple[Any, Any]:
        """Offsets and words. The upper halves are compared first, for they are few."""
        np = self.np
        halves = np.frombuffer(data, "<u4", max(len(data) - shift, 0) // PACKED, shift)
        upper = halves[1:]
        near = np.flatnonzero((upper >= self.low >> 32) & (upper <= self.high >> 32))
        words = upper[near].astype("<u8") << np.uint64(32) | halves[near]
        kept = (words >= np.uint64(self.low)) & (words <= np.uint64(self.high))
        return near[kept] * PACKED + shift, words[kept]

    def runs(self, area: Area) -> Iterator[tuple[int, bytes]]:
        """What can be read of the pages that a collection reads, in order of address: those of a
        private mapping that the process has written; of a shared one those that it has there."""
        unwanted = 0 if area.is_shared else OF_FILE
        with open(f"/proc/{self.table.pid}/pagemap", "rb", buffering=0) as pagemap:
            for first in range(area.addresses.start, area.addresses.stop, CHUNK_PAGES * PAGE):
                count = min(CHUNK_PAGES, (area.addresses.stop - first) // PAGE)
                pagemap.seek(first // PAGE * WORD)
                flags = self.np.frombuffer(pagemap.read(count * WORD), "<u8")
                is_there = (flags & self.np.uint64(PRESENT_OR_SWAPPED)) != 0
                used = self.np.flatnonzero(is_there & ((flags & self.np.uint64(unwanted)) == 0))
                breaks = self.np.flatnonzero(self.np.diff(used) != 1) + 1
                for run in self.np.split(used, breaks):
                    if len(run):
                        yield from self.readable(first + int(run[0]) * PAGE, len(run))

    def readable(self, start: int, pages: int) -> Iterator[tuple[int, bytes]]:
        """A guard page cannot be read, nor can one of a device, or one that is gone meanwhile."""
        try:
            yield start, self.table.read(start, pages * PAGE)
        except Unreadable:
            if pages > 1:
                half = pages // 2
                yield from self.readable(start, half)
                yield from self.readable(start + half * PAGE, pages - half)
