# SPDX-License-Identifier: MIT
"""The blocks of a process that runs under `leaks=report`, read from outside by the heap's records.

The granule map (vm/granule_map.h) leads from an address to a slab, a slab's record
(alloc/blocks/slab.h) to the block's bits. The bits tell what a heap walk tells (allotrope/gc.h):
whether the block is live, retired or free. The process runs meanwhile: each record is read once, so
a look at many blocks is a look at one moment of each slab.
"""

import struct
from dataclasses import dataclass
from typing import Literal

from ...system.counters import heap_range
from ...system.errors import UserError
from ..sites.snapshot import SiteTable, Unreadable

OWNERS, BESIDE_HEAPS, OWN_STATE = "owners/1", "beside_heaps/1", "own_state/1"
WORD = struct.Struct("<Q")
# vm/granule_map.h, vm/owner.h
GRANULE_BITS, LEAF_BITS, ADDRESS_BITS = 16, 16, 47
OWNER_SLAB = 3
# struct slab, as far as it is read, and struct slab_word
SLAB = struct.Struct("<IIQQQQIBB???")  # to has_pins
WORDS_AT, MANY_WORDS, FEW_WORDS = 128, 64, 16
SLAB_WORD = struct.Struct("<QQQQ")
# alloc/blocks/fast_table.h: where the window's live bits are, a bit for each 16 bytes
LIVE_BITS_BELOW_WINDOW, UNIT_BITS = 1 << 36, 4

State = Literal["live", "retired", "free"]


@dataclass(frozen=True)
class Block:
    """bytes: what the heap keeps for it, which is what was asked for or more. is_pinned: kept by
    every collection, for the kernel or a known hider."""

    start: int
    bytes: int
    state: State
    is_pinned: bool

    @property
    def end(self) -> int:
        return self.start + self.bytes


@dataclass(frozen=True)
class Slab:
    """A slab's record, of one moment. rows: the pinned and the suspect bits."""

    base: int
    reciprocal: int
    block_bytes: int
    capacity: int
    words: list[tuple[int, ...]]  # free, mark, remote, retired
    rows: tuple[int, ...]
    row_words: int

    def index_of(self, address: int) -> int | None:
        """None: in the remainder behind the slab's blocks."""
        index = (address - self.base) * self.reciprocal >> 64
        is_inside = address - self.base < (index + 1) * self.block_bytes
        return index if index < self.capacity and is_inside else None

    def has(self, row: int, index: int) -> bool:
        return bool(self.rows[row * self.row_words + index // 64] >> index % 64 & 1)


PINNED, SUSPECT = 0, 1


class Heap:
    """Raises UserError for a process whose library is another version than this command."""

    def __init__(self, table: SiteTable) -> None:
        counters = table.published.counters
        if not {OWNERS, BESIDE_HEAPS, OWN_STATE} <= set(counters):
            raise UserError(
                f"process {table.pid} runs under another version of the library, whose heap this "
                "command cannot read"
            )
        self.table = table
        self.maps = (counters[OWNERS], counters[BESIDE_HEAPS])
        self.window = heap_range(table.published.read(table.pid))
        state = self.word(counters[OWN_STATE])
        self.own_state = range(state, state + self.word(counters[OWN_STATE] + WORD.size))
        self.leaves: dict[tuple[int, int], int] = {}
        self.entries: dict[tuple[int, int], int] = {}
        self.slabs: dict[int, Slab | None] = {}
        self.live_bits: dict[int, int] = {}

    def word(self, address: int) -> int:
        return int(WORD.unpack(self.table.read(address, WORD.size))[0])

    def entry(self, which: int, address: int) -> int:
        """What a granule map has for an address; 0: nothing."""
        granule = address >> GRANULE_BITS
        if address >> ADDRESS_BITS:
            return 0
        if (which, granule) not in self.entries:
            root, index = divmod(granule, 1 << LEAF_BITS)
            if (which, root) not in self.leaves:
                self.leaves[which, root] = self.word(self.maps[which] + WORD.size * root)
            leaf = self.leaves[which, root]
            entry = self.word(leaf + WORD.size * index) if leaf else 0
            self.entries[which, granule] = entry
        return self.entries[which, granule]

    def owns(self, address: int) -> bool:
        """Whether it is the heap's memory, or the statistics', which is no root of a collection."""
        return bool(self.entry(0, address) or self.entry(1, address)) or address in self.own_state

    def slab_at(self, address: int) -> Slab | None:
        owner = self.entry(0, address)
        if not owner:
            return None
        if owner not in self.slabs:
            try:
                self.slabs[owner] = self._read_slab(owner)
            except Unreadable:
                self.slabs[owner] = None  # it is gone, and its blocks are
        return self.slabs[owner]

    def _read_slab(self, owner: int) -> Slab | None:
        fields = SLAB.unpack(self.table.read(owner, SLAB.size))
        kind, _, base, reciprocal, block_bytes, _, capacity, _, _, _, few_words, has_pins = fields
        row_words = FEW_WORDS if few_words else MANY_WORDS
        if kind != OWNER_SLAB or not 0 < capacity <= 64 * row_words:
            return None
        bytes_of_words = SLAB_WORD.size * row_words
        data = self.table.read(owner + WORDS_AT, bytes_of_words + 2 * WORD.size * row_words)
        words = list(SLAB_WORD.iter_unpack(data[:bytes_of_words]))
        rows = struct.unpack_from(f"<{2 * row_words}Q", data, bytes_of_words)
        if not has_pins:  # the pinned bits may be those of the record's last use
            rows = (0,) * row_words + rows[row_words:]
        return Slab(base, reciprocal, block_bytes, capacity, words, rows, row_words)

    def block_at(self, address: int) -> Block | None:
        """The block that the address is the start of, or lies in."""
        slab = self.slab_at(address)
        index = slab.index_of(address) if slab is not None else None
        if slab is None or index is None:
            return None
        free, _, remote, retired = slab.words[index // 64]
        start = slab.base + index * slab.block_bytes
        state: State = "free"
        if not (free | remote) >> index % 64 & 1 and self._is_handed_out(slab, index, start):
            state = "retired" if retired >> index % 64 & 1 else "live"
        is_pinned = state == "live" and slab.has(PINNED, index)
        return Block(start, slab.block_bytes, state, is_pinned)

    def _is_handed_out(self, slab: Slab, index: int, start: int) -> bool:
        """Not in a thread's local free list: as block_is_live() and block_is_suspect()."""
        if slab.capacity == 1 or slab.has(SUSPECT, index):
            return True
        unit = (start - self.window.start) >> UNIT_BITS
        at = self.window.start - LIVE_BITS_BELOW_WINDOW + unit // 64 * WORD.size
        if at not in self.live_bits:
            self.live_bits[at] = self.word(at)
        return bool(self.live_bits[at] >> unit % 64 & 1)

    def is_taken_from(self, address: int) -> bool:
        """Whether a block that is not free begins at the address."""
        block = self.block_at(address)
        return block is not None and block.start == address and block.state != "free"
