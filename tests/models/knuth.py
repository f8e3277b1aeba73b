# SPDX-License-Identifier: MIT
"""Boundary-tag first fit, without boundary tags: all blocks in one sorted list, the ring as a
plain list of addresses that begins at the rover."""

from __future__ import annotations

from bisect import bisect_left, insort

from models.model import Model, round_up

TAGS = 16
LEAST = 32
GROWTH = 8192


class Knuth(Model):
    def __init__(self, cut: str = "start") -> None:
        super().__init__()
        self.cut_from_end = cut == "end"
        self.starts: list[int] = []  # of all blocks, ascending; a block is 8 below its payload
        self.sizes: dict[int, int] = {}
        self.ring: list[int] = []  # free blocks in the order of the search; [0] is the rover

    def is_wilderness(self, start: int) -> bool:
        return start + self.sizes[start] == self.end - 8

    def rove_to(self, start: int) -> None:
        at = self.ring.index(start)
        self.ring = self.ring[at:] + self.ring[:at]

    def avoid_wilderness(self) -> None:
        if self.ring and self.is_wilderness(self.ring[0]):
            self.ring.append(self.ring.pop(0))

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
        if below is not None and (below not in self.ring or below + self.sizes[below] != start):
            below = None
        if above is not None and above not in self.ring:
            above = None
        if above is not None:
            self.sizes[start] += self.remove(above)
            if below is None:
                self.ring[self.ring.index(above)] = start
            else:
                self.ring.remove(above)
        if below is not None:
            self.sizes[below] += self.remove(start)
            start = below
        elif above is None:
            self.ring.append(start)  # before the rover is at the end of the search
        self.rove_to(start)
        self.avoid_wilderness()

    def grow(self, size: int) -> None:
        last = self.starts[-1] if self.starts else None
        wilderness = self.sizes[last] if last is not None and last in self.ring else 0
        if self.end == 0:
            count = round_up(size + 16, GROWTH)
            start = self.extend(count) + 8
            self.add(start, count - 16)
        else:
            count = round_up(size - wilderness, GROWTH)
            start = self.extend(count) - 8
            self.add(start, count)
        self.release(start)

    def take(self, start: int, size: int) -> int:
        """Takes at least `size` out of the free block at `start`."""
        rest = self.sizes[start] - size
        self.rove_to(start)
        if rest < LEAST:
            self.ring.pop(0)
            self.avoid_wilderness()
            return start
        if self.cut_from_end:
            remainder, taken = start, start + rest
            self.sizes[start] = rest
            self.add(taken, size)
        else:
            remainder, taken = start + size, start
            self.sizes[start] = size
            self.add(remainder, rest)
            self.ring[0] = remainder
        if len(self.ring) > 1:
            following = self.ring[1]
            if self.sizes[following] > rest and not self.is_wilderness(following):
                self.rove_to(following)
            else:
                self.avoid_wilderness()
        return taken

    def alloc(self, size: int) -> int:
        size = max(round_up(size + TAGS, 16), LEAST)
        for start in self.ring:
            if self.sizes[start] >= size:
                return self.take(start, size) + 8
        self.grow(size)
        return self.take(self.starts[-1], size) + 8

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
        needed = max(round_up(size + TAGS, 16), LEAST)
        payload = self.alloc(needed - TAGS + alignment + LEAST)
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
        needed = max(round_up(size + TAGS, 16), LEAST)
        if needed > self.sizes[start]:
            above = start + self.sizes[start]
            if above not in self.ring or self.sizes[start] + self.sizes[above] < needed:
                return False
            self.take(above, self.sizes[above])
            self.sizes[start] += self.remove(above)
        self.shed(start, needed)
        return True
