# SPDX-License-Identifier: MIT
"""What lies at an address of a process that runs under `leaks=report`, and who points to it.

All is read from outside, through /proc/PID/mem, while the process runs: a pointer that moves
meanwhile may be missed or seen twice. What counts as a pointer is what a collection takes for one
(docs/gc.md), as far as it can be seen; docs/leaks.md says what cannot.
"""

from dataclasses import dataclass
from typing import Any, Iterator

from ...output.units import format_bytes
from ...system.symbols import Place
from ..sites.measure import Site, with_names
from ..sites.output import callers
from ..sites.snapshot import SiteTable
from .heap import Block, Heap
from .scan import WORD, Hits, Words, areas_of, unused_stacks

MOST_STEPS, MOST_TARGETS = 8, 4096


@dataclass(frozen=True)
class Holder:
    """A word that points to a block."""

    at: int
    word: int
    target: Block
    block: Block | None  # that the word lies in; None: a root
    where: str  # of a root


@dataclass(frozen=True)
class Found:
    """What is known of an address."""

    address: int
    block: Block | None  # None: none of ours
    is_heaps: bool  # the address is the heap's
    holders: list[Holder]  # of that block
    path: list[Holder]  # from a root, or from a pinned block, to it; empty: none was found
    is_complete: bool  # all words that lead to it, at any distance, were followed


class Memory:
    """The blocks of a process, and what points to them."""

    def __init__(self, table: SiteTable) -> None:
        import numpy

        self.np = numpy
        self.table = table
        self.heap = Heap(table)
        live = table.live_blocks()
        order = numpy.argsort(~live["hidden"])
        self.starts = (~live["hidden"])[order]
        self.bytes = live["bytes"][order]
        self.sites = live["site"][order]

    def known(self, block: Block) -> int | None:
        """The index of a live block in the table of sites; None: it is not there."""
        index = int(self.np.searchsorted(self.starts, self.np.uint64(block.start)))
        is_there = index < len(self.starts) and int(self.starts[index]) == block.start
        return index if block.state == "live" and is_there else None

    def holders_of(self, targets: list[Block]) -> Iterator[Holder]:
        """Of blocks in order of address: the words that keep them, in that order too."""
        areas = areas_of(self.table.pid)
        unused = unused_stacks(self.table.pid, areas)
        for hits in Words(self.table, areas, targets[0].start, targets[-1].end):
            for at, word, index in self.aimed(hits, targets):
                holder = self.heap.block_at(at)
                if holder is None:
                    is_root = not self.heap.owns(at) and not any(at in part for part in unused)
                    if is_root:
                        yield Holder(at, word, targets[index], None, hits.area.name or "a mapping")
                elif self.is_followed(holder, at, word, targets[index]):
                    yield Holder(at, word, targets[index], holder, "")

    def aimed(self, hits: Hits, targets: list[Block]) -> list[tuple[int, int, int]]:
        """Where a word is, the word, and which target it points to: to its start, inside it, or one
        past its end. Of two neighbours a word may do both."""
        np = self.np
        starts = np.array([target.start for target in targets], "<u8")
        ends = np.array([target.end for target in targets], "<u8")
        within = np.searchsorted(starts, hits.words, "right") - 1
        ended = np.minimum(np.searchsorted(ends, hits.words, "left"), len(ends) - 1)
        inside = (within >= 0) & (hits.words < ends[np.maximum(within, 0)])
        found: list[tuple[int, int, int]] = []
        for which, index in ((inside, within), (ends[ended] == hits.words, ended)):
            columns = (column[which].tolist() for column in (hits.at, hits.words, index))
            found += zip(*columns)
        return sorted(found)

    def is_followed(self, holder: Block, at: int, word: int, target: Block) -> bool:
        """Whether a word inside a block keeps the target. One past the end counts only where no
        other block begins."""
        if holder.state != "live" or at + WORD > holder.end:
            return False
        return word < target.end or not self.heap.is_taken_from(word)


def look(table: SiteTable, address: int) -> tuple[Memory, Found]:
    memory = Memory(table)
    block = memory.heap.block_at(address)
    if block is None or block.state == "free":
        return memory, Found(address, block, memory.heap.owns(address), [], [], True)
    leads: dict[int, Holder] = {}  # by a block's start: the word by which it leads to the block
    targets: list[Block] = [block]
    first: list[Holder] = []
    is_complete = True
    for step in range(MOST_STEPS):
        holders = list(memory.holders_of(sorted(targets, key=lambda target: target.start)))
        first = first if step else holders
        for holder in holders:
            if holder.block is None or holder.block.is_pinned:
                path = path_from(holder, leads, block)
                return memory, Found(address, block, True, first, path, True)
        targets = []
        for holder in holders:
            assert holder.block is not None
            if holder.block.start not in leads and holder.block != block:
                leads[holder.block.start] = holder
                targets.append(holder.block)
        is_complete = is_complete and len(targets) <= MOST_TARGETS
        targets = targets[:MOST_TARGETS]
        if not targets:
            break
    return memory, Found(address, block, True, first, [], is_complete and not targets)


def path_from(root: Holder, leads: dict[int, Holder], block: Block) -> list[Holder]:
    path = [root]
    while path[-1].target != block:
        path.append(leads[path[-1].target.start])
    return path


def in_lines(memory: Memory, found: Found) -> list[str]:
    block = found.block
    if block is None:
        what = "no block, but the heap's memory" if found.is_heaps else "no block of ours"
        return [f"{found.address:#x}: {what}."]
    shown = [block, *(one.block for one in found.holders if one.block is not None)]
    shown += [one.target for one in found.path]
    shown += [one.block for one in found.path if one.block is not None]
    sites = sites_of(memory, shown)
    offset = found.address - block.start
    inside = f"{offset} bytes into a " if offset else ""
    lines = [f"{found.address:#x}: {inside}{about(memory, block, sites)}"]
    if block.state == "free":
        return lines
    lines += [f"  pointed to at {in_words(memory, holder, sites)}" for holder in found.holders]
    return lines + path_in_lines(memory, found, block, sites)


def path_in_lines(memory: Memory, found: Found, block: Block, sites: dict[int, Site]) -> list[str]:
    if block.is_pinned:
        return ["  it is pinned: the kernel, or code that hides its pointers, may have its address"]
    if not found.path and not found.is_complete:
        return [
            f"  no path from a root of up to {MOST_STEPS} steps was found; longer ones were not "
            "looked for"
        ]
    if not found.path and block.state == "retired":
        return ["  no path from a root was found: the next collection may release it"]
    if not found.path:
        return ["  no path from a root was found: it is lost, or only a register leads to it"]
    if len(found.path) == 1 and found.path[0].block is None:
        return []
    lines = [f"  a path from a root: {in_words(memory, found.path[0], sites)}"]
    return lines + [f"    to a {about(memory, one.target, sites)}" for one in found.path]


def sites_of(memory: Memory, blocks: list[Block]) -> dict[int, Site]:
    """By a block's start, of those whose site is known."""
    known = {block.start: memory.known(block) for block in blocks}
    report: dict[str, Any] = memory.table.report()
    indices = {start: index for start, index in known.items() if index is not None}
    raw = [report["sites"][int(memory.sites[index])] for index in indices.values()]
    return dict(zip(indices, with_names(report | {"sites": raw}, 1).sites))


def about(memory: Memory, block: Block, sites: dict[int, Site]) -> str:
    pinned = "pinned " if block.is_pinned else ""
    index = memory.known(block)
    if index is None:
        text = f"{pinned}{block.state} block with room for {format_bytes(block.bytes)} at"
        where = ", allocated at a place that is not known" if block.state == "live" else ""
        return f"{text} {block.start:#x}{where}"
    place: Place = sites[block.start].allocates_at()
    by = callers(sites[block.start])
    return (
        f"{pinned}live block of {format_bytes(int(memory.bytes[index]))} at {block.start:#x}, "
        f"allocated at {place}{f', called by {by}' if by else ''}"
    )


def in_words(memory: Memory, holder: Holder, sites: dict[int, Site]) -> str:
    where = f"{holder.at:#x}{' (one past its end)' if holder.word == holder.target.end else ''}"
    if holder.block is None:
        return f"{where}, in {holder.where}"
    offset = holder.at - holder.block.start
    return f"{where}, {offset} bytes into a {about(memory, holder.block, sites)}"
