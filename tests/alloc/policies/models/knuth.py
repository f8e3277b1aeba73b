# SPDX-License-Identifier: MIT
"""Boundary-tag first fit, without boundary tags: all blocks in one sorted list, the free list as a
plain list of addresses that begins at the rover."""

from __future__ import annotations

from bisect import bisect_left, insort

from models.model import BIN_STARTS, SEARCH_LIMIT, Model, bin_of, round_up

LEAST = 32
GROWTH = 8192


class Knuth(Model):
    tags = 16  # bytes that a block has beyond what the program asked for

    def __init__(self, cut: str = "start", align: int = 16) -> None:
        super().__init__()
        self.align = align
        self.cut_from_end = cut == "end"
        self.starts: list[int] = []  # of all blocks, ascending; a block is 8 below its payload
        self.sizes: dict[int, int] = {}
        self.free_list: list[int] = []  # free blocks in the order of the search; [0] is the rover

    def is_wilderness(self, start: int) -> bool:
        return start + self.sizes[start] == self.end - 8

    def rove_to(self, start: int) -> None:
        at = self.free_list.index(start)
        self.free_list = self.free_list[at:] + self.free_list[:at]

    def add(self, start: int, size: int) -> None:
        insort(self.starts, start)
        self.sizes[start] = size

    def remove(self, start: int) -> int:
        del self.starts[bisect_left(self.starts, start)]
        return self.sizes.pop(start)

    def release(self, start: int) -> None:
        """The block at `start`, in use so far, becomes free and merges."""
        at = bisect_left(self.starts, start)
        below = self.starts[at - 1] if at > 0 else None
        above = self.starts[at + 1] if at + 1 < len(self.starts) else None
        if below is not None and (
            below not in self.free_list or below + self.sizes[below] != start
        ):
            below = None
        if above is not None and (
            above not in self.free_list or start + self.sizes[start] != above
        ):
            above = None  # in use, or behind fenceposts
        if above is not None:
            if below is not None:
                self.free_list.remove(below)
            self.sizes[start] += self.remove(above)
            self.free_list[self.free_list.index(above)] = start if below is None else below
        if below is not None:
            self.sizes[below] += self.remove(start)
            start = below
        elif above is None:
            self.free_list.append(start)  # before the rover is at the end of the search
        self.rove_to(start)

    def grow(self, size: int) -> None:
        count = (size + 24) // GROWTH * GROWTH + GROWTH
        start = self.extend(count)
        if self.free_list:
            self.add(start - 8, count)  # over the old fencepost
            self.release(start - 8)
        else:
            self.add(start + 8, count - 16)
            self.release(start + 8)

    def take(self, start: int, size: int) -> int:
        """Takes at least `size` out of the free block at `start`."""
        at = self.free_list.index(start)
        rover_size = self.sizes[self.free_list[0]]
        rest = self.sizes[start] - size
        if rest < LEAST:
            following = self.free_list[(at + 1) % len(self.free_list)]
            self.free_list.pop(at)  # the next is the rover if this one was
            if self.free_list and at > 0 and self.sizes[following] > rover_size:
                self.rove_to(following)
            return start
        if self.cut_from_end:
            remainder, taken = start, start + rest
            self.sizes[start] = rest
            self.add(taken, size)
        else:
            remainder, taken = start + size, start
            self.sizes[start] = size
            self.add(remainder, rest)
            self.free_list[at] = remainder
        if rest > rover_size:
            self.rove_to(remainder)
        return taken

    def alloc(self, size: int) -> int:
        size = max(round_up(size + self.tags, self.align), LEAST)
        # The heap grows without a search where all free blocks together are smaller. None of them
        # serves then, so a search leads to the same address.
        order = self.free_list
        if order and self.is_wilderness(order[0]):
            order = order[1:] + order[:1]
        for start in order:
            if self.sizes[start] >= size:
                return self.take(start, size) + 8
        self.grow(size)
        return self.take(self.free_list[0], size) + 8

    def split_off(self, start: int, kept: int) -> int:
        """Cuts a block in use in two; returns the second."""
        rest = self.sizes[start] - kept
        self.sizes[start] = kept
        self.add(start + kept, rest)
        return start + kept

    def shed(self, start: int, needed: int) -> None:
        if self.sizes[start] - needed >= LEAST:
            self.release(self.split_off(start, needed))

    def alloc_aligned(self, alignment: int, size: int) -> int:
        needed = max(round_up(size + self.tags, self.align), LEAST)
        payload = self.alloc(needed - self.tags + alignment + LEAST)
        start = payload - 8
        if payload % alignment:
            aligned = round_up(payload + LEAST, alignment)
            start = self.split_off(start, aligned - payload)
            self.release(payload - 8)
        self.shed(start, needed)
        return start + 8

    def free(self, block: int) -> None:
        self.release(block - 8)

    def resize(self, block: int, size: int) -> bool:
        start = block - 8
        needed = max(round_up(size + self.tags, self.align), LEAST)
        missing = needed - self.sizes[start]
        if missing <= 0:
            self.shed(start, needed)
            return True
        above = start + self.sizes[start]
        if above not in self.free_list or self.sizes[above] < missing:
            return False
        at = self.free_list.index(above)
        rest = self.remove(above) - missing
        if rest >= LEAST:
            self.free_list[at] = above + missing
            self.add(above + missing, rest)
        else:
            missing += rest
            self.free_list = self.free_list[at + 1 :] + self.free_list[:at]
        self.sizes[start] += missing
        return True


class BinnedKnuth(Knuth):
    """search=binned: the free list is one list for each bin, the newest block first; the
    wilderness is in none. A live block has one tag."""

    tags = 8

    def __init__(self) -> None:
        super().__init__()
        self.bins: dict[int, list[int]] = {bin: [] for bin in range(len(BIN_STARTS))}
        self.is_free: set[int] = set()

    def enlist(self, start: int) -> None:
        self.is_free.add(start)
        if not self.is_wilderness(start):
            self.bins[bin_of(self.sizes[start] // 16)].insert(0, start)

    def delist(self, start: int) -> None:
        self.is_free.remove(start)
        if not self.is_wilderness(start):
            self.bins[bin_of(self.sizes[start] // 16)].remove(start)

    def release(self, start: int) -> None:
        at = bisect_left(self.starts, start)
        if at + 1 < len(self.starts) and self.starts[at + 1] in self.is_free:
            above = self.starts[at + 1]
            self.delist(above)
            self.sizes[start] += self.remove(above)
        if at > 0 and self.starts[at - 1] in self.is_free:
            below = self.starts[at - 1]
            self.delist(below)
            self.sizes[below] += self.remove(start)
            start = below
        self.enlist(start)

    def grow(self, size: int) -> None:
        count = (size + 24) // GROWTH * GROWTH + GROWTH
        start = self.extend(count)
        last = self.starts[-1] if self.starts else None
        if last is None:
            self.add(start + 8, count - 16)
            self.enlist(start + 8)
        elif last in self.is_free:
            self.sizes[last] += count  # the wilderness goes on
        else:
            self.add(start - 8, count)  # over the old fencepost
            self.enlist(start - 8)

    def take(self, start: int, size: int) -> int:
        self.delist(start)
        rest = self.sizes[start] - size
        if rest >= LEAST:
            self.sizes[start] = size
            self.add(start + size, rest)
            self.enlist(start + size)
        return start

    def alloc(self, size: int) -> int:
        size = max(round_up(size + self.tags, self.align), LEAST)
        for number in range(bin_of(size // 16), len(BIN_STARTS)):
            for start in self.bins[number][:SEARCH_LIMIT]:
                if self.sizes[start] >= size:
                    return self.take(start, size) + 8
        last = self.starts[-1] if self.starts and self.starts[-1] in self.is_free else None
        have = self.sizes[last] if last is not None else 0
        if have < size:
            self.grow(size - have)
        return self.take(self.starts[-1], size) + 8

    def resize(self, block: int, size: int) -> bool:
        start = block - 8
        needed = max(round_up(size + self.tags, self.align), LEAST)
        missing = needed - self.sizes[start]
        if missing <= 0:
            self.shed(start, needed)
            return True
        above = start + self.sizes[start]
        if above not in self.is_free or self.sizes[above] < missing:
            return False
        self.take(above, missing)
        self.sizes[start] += self.remove(above)
        return True
