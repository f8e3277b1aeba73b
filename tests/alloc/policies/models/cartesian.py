# SPDX-License-Identifier: MIT
"""Stephenson's better fit, with a tree of immutable tuples and recursive functions that return
the changed tree."""

from __future__ import annotations

import sys
from typing import NamedTuple, Optional

from models.model import PAGE, Model, round_up

HEADER = 8
ARRAY_NODES = 512
ARRAY_BYTES = ARRAY_NODES * 32

sys.setrecursionlimit(100_000)


class Node(NamedTuple):
    left: Optional["Node"]
    start: int
    size: int
    right: Optional["Node"]


Tree = Optional[Node]


def weight(tree: Tree) -> int:
    return tree.size if tree else 0


def join(left: Tree, right: Tree) -> Tree:
    """One tree of two, all of the first below all of the second."""
    if left is None or right is None:
        return left or right
    if left.size >= right.size:
        return left._replace(right=join(left.right, right))
    return right._replace(left=join(left, right.left))


def split(tree: Tree, start: int) -> tuple[Tree, Tree]:
    """What lies below an address, and what above."""
    if tree is None:
        return None, None
    if tree.start < start:
        below, above = split(tree.right, start)
        return tree._replace(right=below), above
    below, above = split(tree.left, start)
    return below, tree._replace(left=above)


def insert(tree: Tree, start: int, size: int) -> Node:
    if tree is not None and tree.size >= size:
        if start < tree.start:
            return tree._replace(left=insert(tree.left, start, size))
        return tree._replace(right=insert(tree.right, start, size))
    below, above = split(tree, start)
    return Node(below, start, size, above)


def sink(left: Tree, start: int, size: int, right: Tree) -> Node:
    """A node over two subtrees, put below those of them that are larger."""
    if weight(left) <= size and weight(right) <= size:
        return Node(left, start, size, right)
    if weight(left) >= weight(right):
        assert left
        return left._replace(right=sink(left.right, start, size, right))
    assert right
    return right._replace(left=sink(left, start, size, right.left))


def delete(tree: Tree, start: int) -> Tree:
    assert tree
    if tree.start == start:
        return join(tree.left, tree.right)
    if start < tree.start:
        return tree._replace(left=delete(tree.left, start))
    return tree._replace(right=delete(tree.right, start))


def take_low_end(tree: Tree, start: int, size: int) -> Tree:
    """The block at `start` loses its first bytes."""
    assert tree
    if tree.start == start:
        return sink(tree.left, start + size, tree.size - size, tree.right)
    if start < tree.start:
        return tree._replace(left=take_low_end(tree.left, start, size))
    return tree._replace(right=take_low_end(tree.right, start, size))


def better_fit(tree: Tree, size: int) -> Node:
    """Below a tree that is large enough."""
    assert tree and tree.size >= size
    fitting = [child for child in (tree.left, tree.right) if weight(child) >= size]
    if not fitting:
        return tree
    return better_fit(min(fitting, key=weight), size)


class Cartesian(Model):
    def __init__(self, least: int = 16, align: int = 16) -> None:
        super().__init__()
        self.align = align
        self.least = least  # bytes of the smallest block
        self.tree: Tree = None
        self.free_sizes: dict[int, int] = {}  # what the tree holds, by start
        self.free_ends: dict[int, int] = {}  # start, by end
        self.sizes: dict[int, int] = {}  # of blocks in use
        self.nodes = 0  # that exist; one is needed for each free block

    def remember(self, start: int, size: int) -> None:
        self.free_sizes[start] = size
        self.free_ends[start + size] = start

    def forget(self, start: int) -> int:
        size = self.free_sizes.pop(start)
        del self.free_ends[start + size]
        return size

    def add_array(self) -> None:
        if self.end == 0:
            self.extend(8)
        self.extend(ARRAY_BYTES)
        self.nodes += ARRAY_NODES

    def release(self, start: int, size: int) -> None:
        above = start + size
        if above in self.free_sizes:
            self.tree = delete(self.tree, above)
            size += self.forget(above)
        if start in self.free_ends:
            below = self.free_ends[start]
            self.tree = delete(self.tree, below)
            size += self.forget(below)
            start = below
        if len(self.free_sizes) == self.nodes:
            self.add_array()
        self.tree = insert(self.tree, start, size)
        self.remember(start, size)

    def take(self, start: int, size: int) -> int:
        """At least `size` from the free block at `start`; returns how much."""
        whole = self.forget(start)
        if whole - size <= self.least:
            self.tree = delete(self.tree, start)
            return whole
        self.tree = take_low_end(self.tree, start, size)
        self.remember(start + size, whole - size)
        return size

    def alloc(self, size: int) -> int:
        size = max(round_up(size + HEADER, self.align), self.least)
        if weight(self.tree) < size:
            if self.nodes == 0:
                self.add_array()
            count = round_up(size, PAGE)
            self.release(self.extend(count), count)
        start = better_fit(self.tree, size).start
        self.sizes[start] = self.take(start, size)
        return start + HEADER

    def shed(self, start: int, needed: int) -> None:
        rest = self.sizes[start] - needed
        if rest >= self.least:
            self.sizes[start] = needed
            self.release(start + needed, rest)

    def alloc_aligned(self, alignment: int, size: int) -> int:
        needed = max(round_up(size + HEADER, self.align), self.least)
        payload = self.alloc(needed - HEADER + alignment + 16 - self.align)
        aligned = round_up(payload, alignment)
        if aligned - payload == 8:  # no block is so small
            aligned += alignment
        whole = self.sizes.pop(payload - HEADER)
        if aligned > payload:
            self.release(payload - HEADER, aligned - payload)
        self.sizes[aligned - HEADER] = whole - (aligned - payload)
        self.shed(aligned - HEADER, needed)
        return aligned

    def free(self, block: int) -> None:
        self.release(block - HEADER, self.sizes.pop(block - HEADER))

    def resize(self, block: int, size: int) -> bool:
        start = block - HEADER
        needed = max(round_up(size + HEADER, self.align), self.least)
        size = self.sizes[start]
        if needed <= size:
            self.shed(start, needed)
            return True
        above, missing = start + size, needed - size
        if self.free_sizes.get(above, 0) < missing:
            return False
        self.tree = delete(self.tree, above)
        whole = self.forget(above)
        self.sizes[start] += missing if whole - missing >= self.least else whole
        if whole - missing >= self.least:
            self.release(above + missing, whole - missing)
        return True
