# SPDX-License-Identifier: MIT
"""What lies at an address of a process that runs under `leaks=report`, and who points to it.

All is read from outside, through /proc/PID/mem, while the process runs: a pointer that moves
meanwhile may be missed or seen twice. Which blocks are live the table of sites tells. Registers are
not seen. Of the stack of a thread that waits what lies below its stack pointer does not count.
"""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Iterator

from ...output.units import format_bytes
from ...system.counters import heap_range
from ...system.symbols import Place
from ..sites.measure import Site, with_names
from ..sites.output import callers
from ..sites.snapshot import SiteTable, Unreadable

PAGE, CHUNK_PAGES, WORD = 4096, 4096, 8
PRESENT_OR_SWAPPED = 3 << 62
RED_ZONE = 128
MOST_STEPS, MOST_TARGETS = 8, 4096


@dataclass(frozen=True)
class Holder:
    """A word that points to a block."""

    at: int
    target: int  # index of the block
    block: int | None  # index of the block that the word lies in; None: a root
    where: str  # of a root


@dataclass(frozen=True)
class Found:
    """block: index of the block at the address; None: there is no live one."""

    address: int
    block: int | None
    holders: list[Holder]  # of that block
    path: list[Holder]  # from a root to it; empty: none was found


class Memory:
    """The live blocks of a process, and what points to them."""

    def __init__(self, table: SiteTable) -> None:
        import numpy

        self.np = numpy
        self.table = table
        live = table.live_blocks()
        order = numpy.argsort(~live["hidden"])
        self.starts = (~live["hidden"])[order]
        self.ends = self.starts + numpy.maximum(live["bytes"][order], 1)
        self.sites = live["site"][order]
        self.window = heap_range(table.published.read(table.pid))

    def block_at(self, address: int) -> int | None:
        index = int(self.np.searchsorted(self.starts, address, "right")) - 1
        return index if index >= 0 and address < int(self.ends[index]) else None

    def holders_of(self, targets: list[int]) -> Iterator[Holder]:
        """Of blocks, in order of address: the words that point to their start or inside them."""
        starts, ends = self.starts[targets], self.ends[targets]
        areas = areas_of(self.table.pid)
        stacks = stack_pointers(self.table.pid, areas)
        for start, words, name in self.pages(areas):
            index = self.np.searchsorted(starts, words, "right") - 1
            hits = self.np.flatnonzero((index >= 0) & (words < ends[self.np.maximum(index, 0)]))
            for hit in hits.tolist():
                at = start + hit * WORD
                block = self.block_at(at)
                is_root = block is None and at not in self.window
                if block is not None or (is_root and not is_below_stack(at, stacks)):
                    yield Holder(at, targets[int(index[hit])], block, name)

    def pages(self, areas: "list[Area]") -> Iterator[tuple[int, Any, str]]:
        """Runs of pages that the process has written or read, as words."""
        with open(f"/proc/{self.table.pid}/pagemap", "rb", buffering=0) as pagemap:
            for area in areas:
                if not area.is_writable:
                    continue
                for first in range(area.addresses.start, area.addresses.stop, CHUNK_PAGES * PAGE):
                    count = min(CHUNK_PAGES, (area.addresses.stop - first) // PAGE)
                    pagemap.seek(first // PAGE * WORD)
                    flags = self.np.frombuffer(pagemap.read(count * WORD), "<u8")
                    used = self.np.flatnonzero(flags & self.np.uint64(PRESENT_OR_SWAPPED))
                    yield from self.runs(first, used, area.name or "a mapping")

    def runs(self, first: int, used: Any, name: str) -> Iterator[tuple[int, Any, str]]:
        breaks = self.np.flatnonzero(self.np.diff(used) != 1) + 1
        for run in self.np.split(used, breaks):
            if len(run):
                start = first + int(run[0]) * PAGE
                try:
                    data = self.table.read(start, len(run) * PAGE)
                except Unreadable:
                    continue  # a device's, or gone meanwhile
                yield start, self.np.frombuffer(data, "<u8"), name


@dataclass(frozen=True)
class Area:
    """A line of /proc/PID/maps."""

    addresses: range
    is_writable: bool
    name: str  # empty: none


def areas_of(pid: int) -> list[Area]:
    areas = []
    for line in Path(f"/proc/{pid}/maps").read_text(errors="replace").splitlines():
        words = line.split(None, 5)
        addresses = range(*(int(word, 16) for word in words[0].split("-")))
        name = words[5].strip() if len(words) == 6 else ""
        areas.append(Area(addresses, words[1].startswith("rw"), name))
    return areas


def stack_pointers(pid: int, areas: list[Area]) -> list[tuple[int, int]]:
    """Of threads that wait: where the mapping of the stack begins, and the stack pointer."""
    found = []
    for task in os.listdir(f"/proc/{pid}/task"):
        try:
            words = Path(f"/proc/{pid}/task/{task}/syscall").read_text().split()
        except OSError:
            continue
        pointer = int(words[-2], 16) if len(words) > 2 else 0
        found += [(area.addresses.start, pointer) for area in areas if pointer in area.addresses]
    return found


def is_below_stack(address: int, stacks: list[tuple[int, int]]) -> bool:
    return any(start <= address < pointer - RED_ZONE for start, pointer in stacks)


def look(table: SiteTable, address: int) -> tuple[Memory, Found]:
    memory = Memory(table)
    block = memory.block_at(address)
    if block is None:
        return memory, Found(address, None, [], [])
    leads: dict[int, Holder] = {}  # of blocks that lead to it: the word that does
    targets: list[int] = [block]
    first: list[Holder] = []
    for step in range(MOST_STEPS):
        holders = list(memory.holders_of(sorted(targets)))
        first = first if step else holders
        for holder in holders:
            if holder.block is None:
                return memory, Found(address, block, first, path_from(holder, leads, block))
        targets = []
        for holder in holders:
            assert holder.block is not None
            if holder.block not in leads and holder.block != block:
                leads[holder.block] = holder
                targets.append(holder.block)
        targets = targets[:MOST_TARGETS]
        if not targets:
            break
    return memory, Found(address, block, first, [])


def path_from(root: Holder, leads: dict[int, Holder], block: int) -> list[Holder]:
    path = [root]
    while path[-1].target != block:
        path.append(leads[path[-1].target])
    return path


def in_lines(memory: Memory, found: Found) -> list[str]:
    if found.block is None:
        return [f"{found.address:#x}: no live block: free, freed, or not malloc's."]
    report = memory.table.report()
    shown = [found.block, *(one.block for one in found.holders if one.block is not None)]
    shown += [one.target for one in found.path]
    raw = [report["sites"][int(memory.sites[block])] for block in shown]
    sites = dict(zip(shown, with_names(report | {"sites": raw}, 1).sites))
    start = int(memory.starts[found.block])
    inside = f"{found.address - start} bytes into a " if found.address != start else ""
    lines = [f"{found.address:#x}: {inside}{about(memory, found.block, sites)}"]
    lines += [f"  pointed to at {in_words(memory, holder, sites)}" for holder in found.holders]
    if not found.path:
        lines.append("  no path from a root was found: it is lost, or only a register leads to it")
    elif len(found.path) > 1:
        lines.append(f"  a path from a root: {in_words(memory, found.path[0], sites)}")
        lines += [f"    to a {about(memory, one.target, sites)}" for one in found.path]
    return lines


def about(memory: Memory, block: int, sites: dict[int, Site]) -> str:
    start, end = int(memory.starts[block]), int(memory.ends[block])
    place: Place = sites[block].allocates_at()
    by = callers(sites[block])
    return (
        f"live block of {format_bytes(end - start)} at {start:#x}, allocated at {place}"
        f"{f', called by {by}' if by else ''}"
    )


def in_words(memory: Memory, holder: Holder, sites: dict[int, Site]) -> str:
    if holder.block is None:
        return f"{holder.at:#x}, in {holder.where}"
    offset = holder.at - int(memory.starts[holder.block])
    return f"{holder.at:#x}, {offset} bytes into a {about(memory, holder.block, sites)}"
