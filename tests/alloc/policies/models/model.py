# SPDX-License-Identifier: MIT
"""What the naive models of the policy heaps share.

A model knows addresses only: offsets from the start of one contiguous memory. It is written from
the description of the algorithm, as plainly as possible, and shares no structure with the C heap
that it is held against.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_right

PAGE = 4096

# Where the bins of free blocks begin, in units; a search looks at so many blocks of a bin.
BIN_STARTS = [*range(64)] + [(8 + step) << (log - 3) for log in range(6, 30) for step in range(8)]
SEARCH_LIMIT = 64


def bin_of(units: int) -> int:
    return bisect_right(BIN_STARTS, units) - 1


def round_up(number: int, unit: int) -> int:
    return (number + unit - 1) // unit * unit


class Model(ABC):
    """One heap. Addresses are those of the payloads."""

    def __init__(self) -> None:
        self.end = 0

    def extend(self, count: int) -> int:
        """Moves the end of memory up; returns where it was."""
        self.end += count
        return self.end - count

    @abstractmethod
    def alloc(self, size: int) -> int:
        ...

    @abstractmethod
    def alloc_aligned(self, alignment: int, size: int) -> int:
        ...

    @abstractmethod
    def free(self, block: int) -> None:
        ...

    @abstractmethod
    def resize(self, block: int, size: int) -> bool:
        """Whether the block could stay where it is."""

    def move(self, block: int, size: int) -> int:
        moved = self.alloc(size)
        self.free(block)
        return moved

    def realloc(self, block: int, size: int) -> int:
        return block if self.resize(block, size) else self.move(block, size)
