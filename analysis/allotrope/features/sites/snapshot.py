# SPDX-License-Identifier: MIT
"""The sites of a process that runs under `sites`, read from outside while it runs.

The table lies in the library's data (shim/observers/site_table.h), and where it lies is published
with the counters that `allotrope stats` reads. It is read through /proc/PID/mem: the process is not
stopped, gets no signal, and does nothing for it, so an idle one answers too. A table that grows
meanwhile is read again. Numbers are machine words; two of them may be of different moments.
"""

import os
import struct
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Iterator

from ...system.counters import Published, find_published, why_unreadable
from ...system.errors import UserError
from ...system.process_tree import age_seconds, descendants, proc_text

PUBLISHED = "site_table/1"
HEAD = struct.Struct("<QQQQQQQddQQ")
SITE = struct.Struct("<QQIIQdddddddd")
BLOCK = struct.Struct("<QIIQdQ")
MOST_FRAMES, ATTEMPTS = 64, 5
# Of the live blocks, the least share that a look must find: a few may move while it reads.
WHOLE = 0.99
SIZE_CLASSES = 48  # by powers of two
STARTS_WITHIN = 10.0  # seconds from a process's making until it keeps its sites, on a busy machine


class Unreadable(Exception):
    """The process is gone, or its table was in motion at every attempt."""


@dataclass(frozen=True)
class Head:
    """As struct site_table begins."""

    sites: int
    site_room: int
    site_count: int
    slots: int
    blocks: int
    block_room: int
    block_count: int
    live_bytes: float
    peak_bytes: float
    epoch: int
    lost: int


@dataclass(frozen=True)
class SiteRow:
    """What one site has: blocks and bytes of each."""

    frames: int  # where its addresses are
    depth: int
    total: tuple[float, float]
    live: tuple[float, float]
    peak: tuple[float, float]
    temporary: tuple[float, float]


class SiteTable:
    """The table of one process."""

    def __init__(self, pid: int, published: Published) -> None:
        self.pid = pid
        self.published = published
        self.address = published.counters[PUBLISHED]
        self.memory = os.open(f"/proc/{pid}/mem", os.O_RDONLY | os.O_CLOEXEC)
        self.frames: dict[int, tuple[int, ...]] = {}  # they are never moved

    def close(self) -> None:
        os.close(self.memory)

    def read(self, address: int, size: int) -> bytes:
        if size == 0:
            return b""
        try:
            data = os.pread(self.memory, size, address)
        except OSError as error:
            raise Unreadable(error.strerror) from None
        if len(data) != size:
            raise Unreadable("it has ended")
        return data

    def is_there(self) -> bool:
        """False when the process has ended or has become another program: the memory that was
        opened is that of the old one."""
        try:
            self._head()
        except Unreadable:
            return False
        return True

    def _head(self) -> Head:
        return Head(*HEAD.unpack(self.read(self.address, HEAD.size)))

    def _consistent(self, what: str) -> tuple[Head, bytes]:
        """The table's head, and its sites or its blocks, which did not move meanwhile."""
        for attempt in range(ATTEMPTS):
            before = self._head()
            room = SITE.size * before.site_count
            if what == "blocks":
                room = BLOCK.size * before.block_room
            try:
                data = self.read(getattr(before, what), room)
            except Unreadable:
                if attempt == ATTEMPTS - 1:
                    raise
                continue
            after = self._head()
            if (before.sites, before.blocks) == (after.sites, after.blocks):
                return before, data
        raise Unreadable("its table keeps growing")

    def rows(self) -> tuple[Head, list[SiteRow]]:
        head, data = self._consistent("sites")
        rows = []
        for _, frames, depth, _, epoch, *tallies in SITE.iter_unpack(data):
            pairs = [(tallies[place], tallies[place + 1]) for place in (0, 2, 4, 6)]
            total, live, peak, temporary = pairs
            at_peak = peak if epoch == head.epoch else live
            rows.append(SiteRow(frames, depth, total, live, at_peak, temporary))
        return head, rows

    def live_blocks(self) -> Any:
        """An array of rows as struct sampled_block; `hidden` is the address inverted.

        A look that finds too few blocks, since the table was in motion, is made again.
        """
        import numpy

        layout = [("hidden", "<u8"), ("site", "<u4"), ("_", "<u4"), ("bytes", "<u8")]
        for _ in range(ATTEMPTS):
            before, data = self._consistent("blocks")
            blocks = numpy.frombuffer(data, dtype=[*layout, ("weight", "<f8"), ("born", "<u8")])
            used = blocks[blocks["hidden"] != 0]
            if len(used) >= WHOLE * min(before.block_count, self._head().block_count):
                return used
        raise Unreadable("its table keeps growing")

    def live_bytes(self) -> tuple[list[float], list[float]]:
        """Of each site, in their order, which is for ever; and of blocks of at most 2^n bytes and
        more than 2^(n-1). Both are of the same blocks, so they have the same sum."""
        import numpy

        used = self.live_blocks()
        sizes = numpy.maximum(used["bytes"], 1).astype(float)
        classes = numpy.clip(numpy.ceil(numpy.log2(sizes)).astype(int), 0, SIZE_CLASSES - 1)
        weights = used["weight"] * used["bytes"]
        by_site = numpy.bincount(used["site"], weights)
        by_size = numpy.bincount(classes, weights, SIZE_CLASSES)
        return by_site.tolist(), by_size.tolist()

    def addresses(self, row: SiteRow) -> tuple[int, ...]:
        """Return addresses, innermost first."""
        if row.frames not in self.frames:
            if row.depth > MOST_FRAMES:
                raise Unreadable("its table is damaged")
            data = self.read(row.frames, 8 * row.depth)
            self.frames[row.frames] = struct.unpack(f"<{row.depth}Q", data)
        return self.frames[row.frames]

    def report(self) -> dict[str, Any]:
        """As the library writes it at exit (allotrope.sites/1), of this moment."""
        head, rows = self.rows()
        # As the library writes names there: each byte as the character of the same number.
        maps = Path(f"/proc/{self.pid}/maps").read_text(encoding="latin-1").splitlines()
        return {
            "schema": "allotrope.sites/1",
            "running": True,
            "pid": self.pid,
            "command": proc_text(self.pid, "comm").strip(),
            "rate_bytes": None,
            "frames": max((row.depth for row in rows), default=0),
            "samples": None,
            "lost_samples": head.lost,
            "peak_bytes": round(max(head.peak_bytes, 0)),
            "peak_seconds": None,
            "exit_bytes": round(max(head.live_bytes, 0)),
            "maps": [line for line in maps if "r-xp" in line],
            "sites": [
                {
                    **{
                        key: {"blocks": round(max(pair[0], 0)), "bytes": round(max(pair[1], 0))}
                        for key, pair in (
                            ("peak", row.peak),
                            ("exit", row.live),
                            ("total", row.total),
                            ("temporary", row.temporary),
                        )
                    },
                    "frames": list(self.addresses(row)),
                }
                for row in rows
            ],
        }


def find_table(pid: int) -> SiteTable | None:
    """None when the process does not run under `sites` (yet). Raises OSError where it may not be
    read or is gone."""
    try:
        maps = proc_text(pid, "maps").splitlines()
        published = find_published(pid, maps)
    except struct.error:
        return None
    if published is None or PUBLISHED not in published.counters:
        return None
    return SiteTable(pid, published)


def need_table(pid: int, what: str = "--pid", start: str = "allotrope sites -- CMD") -> SiteTable:
    """Of the process, or of the one that it has started: a shell's $! is the command's process, not
    the program's. Raises UserError for what speaks against it. what: was told the process; start:
    how one is started whose table can be read. A young process may have none yet: waits for it."""
    if not Path(f"/proc/{pid}").is_dir():
        raise UserError(f"{what}: there is no process {pid}")
    try:
        while (table := find_table(pid) or _table_below(pid, what)) is None:
            if age_seconds(pid) > STARTS_WITHIN:
                break
            time.sleep(0.05)
    except PermissionError:
        raise UserError(f"{what}: {why_unreadable(pid)}") from None
    except OSError:
        raise UserError(f"{what}: process {pid} has ended", 1) from None
    if table is None:
        raise UserError(f"{what}: process {pid} does not keep its sites; start it with `{start}`")
    return table


def _table_below(pid: int, what: str) -> SiteTable | None:
    """Of the only descendant that keeps one."""
    tables: dict[int, SiteTable] = {}
    for child in descendants(pid):
        try:
            table = find_table(child)
        except OSError:
            continue  # it has ended, or is another user's
        if table is not None:
            tables[child] = table
    if len(tables) > 1:
        for table in tables.values():
            table.close()
        raise UserError(
            f"{what}: process {pid} does not keep its sites, but its descendants "
            f"{', '.join(map(str, tables))} do; choose one"
        )
    return next(iter(tables.values()), None)


def every(seconds: float) -> Iterator[float]:
    """Now, and then every so many seconds; how long ago the first was."""
    began = time.monotonic()
    number = 0
    while True:
        yield time.monotonic() - began
        number += 1
        time.sleep(max(0.0, began + number * seconds - time.monotonic()))
