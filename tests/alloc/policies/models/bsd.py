# SPDX-License-Identifier: MIT
"""Kingsley's powers of two: a stack of free blocks for each class."""

from __future__ import annotations

from collections import defaultdict

from models.model import Model, round_up

HEADER = 8
REFILL = 2048


class Bsd(Model):
    def __init__(self) -> None:
        super().__init__()
        self.stacks: dict[int, list[int]] = defaultdict(list)  # by block size; addresses of blocks
        self.sizes: dict[int, int] = {}  # of blocks in use
        self.shifted: dict[int, int] = {}  # over-aligned payload -> its block's own payload

    def alloc(self, size: int) -> int:
        block_size = 16
        while block_size < size + HEADER:
            block_size *= 2
        stack = self.stacks[block_size]
        if not stack:
            if self.end == 0:
                self.extend(8)
            count = max(block_size, REFILL)
            start = self.extend(count)
            stack.extend(reversed(range(start, start + count, block_size)))
        block = stack.pop()
        self.sizes[block] = block_size
        return block + HEADER

    def alloc_aligned(self, alignment: int, size: int) -> int:
        payload = self.alloc(size + alignment - 16)
        aligned = round_up(payload, alignment)
        self.shifted[aligned] = payload
        return aligned

    def free(self, block: int) -> None:
        own = self.shifted.pop(block, block) - HEADER
        self.stacks[self.sizes.pop(own)].append(own)

    def resize(self, block: int, size: int) -> bool:
        own = self.shifted.get(block, block)
        usable = self.sizes[own - HEADER] - HEADER - (block - own)
        # Unsigned: of the smallest class the bound is huge, and no size exceeds it.
        return (usable // 2 - HEADER) % 2**64 < size <= usable
