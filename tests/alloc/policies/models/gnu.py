# SPDX-License-Identifier: MIT
"""Haertel's hybrid, with a flag for each page and lists of fragments without links.

Free clusters are not kept: they are found by looking at all pages.
"""

from __future__ import annotations

from math import lcm

from models.model import BIN_STARTS, PAGE, SEARCH_LIMIT, Model, bin_of, round_up

FIRST_TABLE_ENTRIES = 1024
ENTRY_BYTES = 24
FINAL_FREE_PAGES = 8
PARTS = [quarters << shift for shift in (9, 10, 11) for quarters in (5, 6, 7, 8)]  # 2560 ... 16384


class Gnu(Model):
    def __init__(self, least: int = 16, parts: bool = False) -> None:
        super().__init__()
        self.least = least  # bytes of the smallest fragment
        self.parts = parts  # whether there are fragments of 2,560 to 14,336 bytes
        self.used = bytearray()  # a flag for each page
        self.search_page: int | None = None  # first page of the cluster to look at first
        self.runs: dict[int, int] = {}  # first page -> pages
        self.chunks: dict[int, int] = {}  # first page -> bytes of a fragment
        self.chunk_of: dict[int, int] = {}  # any page of a chunk -> its first
        self.lists: dict[int, list[int]] = {}  # bytes -> free fragments
        self.table_page = 0
        self.table_entries = 0

    def clusters(self) -> list[tuple[int, int]]:
        """(first page, pages) of all free clusters, ascending."""
        found = []
        start = self.used.find(0)
        while start >= 0:
            end = self.used.find(1, start)
            end = len(self.used) if end < 0 else end
            found.append((start, end - start))
            start = self.used.find(0, end)
        return found

    def mark(self, page: int, pages: int, used: int) -> None:
        self.used[page : page + pages] = bytes([used]) * pages

    def extend_pages(self, pages: int) -> int:
        page = self.extend(pages * PAGE) // PAGE
        self.used.extend(b"\1" * pages)
        return page

    def table_pages(self) -> int:
        return round_up(self.table_entries * ENTRY_BYTES, PAGE) // PAGE

    def more_core(self, pages: int) -> int:
        page = self.extend_pages(pages)
        # Pages are numbered from 1 in the table, whose entry 0 is the list's head.
        if page + 1 + pages > self.table_entries:
            outgrown, outgrown_pages = self.table_page, self.table_pages()
            while page + 1 + pages > self.table_entries:
                self.table_entries *= 2
            self.table_page = self.extend_pages(self.table_pages())
            self.free_pages(outgrown, outgrown_pages, True)
        return page

    def take(self, page: int, cluster_pages: int, pages: int) -> int:
        """The low end of a cluster; the search goes on behind."""
        self.mark(page, pages, 1)
        if cluster_pages > pages:
            self.search_page = page + pages
        else:
            later = [start for start, _ in self.clusters() if start > page]
            self.search_page = later[0] if later else None
        return page

    def alloc_pages(self, pages: int) -> int:
        if self.table_entries == 0:
            self.table_entries = FIRST_TABLE_ENTRIES
            self.extend_pages(self.table_pages())
        clusters = self.clusters()
        # None is the head of the list, before the first cluster.
        ahead = [c for c in clusters if self.search_page is not None and c[0] >= self.search_page]
        for start, size in ahead + [c for c in clusters if c not in ahead]:
            if size >= pages:
                return self.take(start, size, pages)
        if clusters and sum(clusters[-1]) == len(self.used):
            start, size = clusters[-1]
            added = self.more_core(pages - size)
            self.mark(added, pages - size, 0)
            # An outgrown table may have merged with the last cluster.
            start, size = next((s, n) for s, n in self.clusters() if s <= added < s + n)
            return self.take(start, size, pages)
        return self.more_core(pages)

    def free_pages(self, page: int, pages: int, may_return: bool) -> None:
        self.mark(page, pages, 0)
        clusters = self.clusters()
        start, size = next((s, n) for s, n in clusters if s <= page < s + n)
        self.search_page = start
        if may_return and size >= FINAL_FREE_PAGES and start + size == len(self.used):
            del self.used[start:]
            self.end -= size * PAGE
            before = [s for s, _ in clusters if s < start]
            self.search_page = before[-1] if before else None

    def alloc_run(self, pages: int) -> int:
        page = self.alloc_pages(pages)
        self.runs[page] = pages
        return page * PAGE

    def fragment_size(self, size: int) -> int | None:
        """None: whole pages."""
        if size <= PAGE // 2:
            sizes = [self.least]
            while sizes[-1] < PAGE // 2:
                sizes.append(2 * sizes[-1])
        else:
            sizes = PARTS if self.parts else []
        fitting = [fragment for fragment in sizes if fragment >= size]
        return fitting[0] if fitting and fitting[0] % PAGE else None

    def alloc(self, size: int) -> int:
        fragment_size = self.fragment_size(size)
        if fragment_size is None:
            return self.alloc_run(round_up(size, PAGE) // PAGE)
        fragments = self.lists.setdefault(fragment_size, [])
        if fragments:
            return fragments.pop(0)
        chunk_bytes = lcm(fragment_size, PAGE)
        page = self.alloc_pages(chunk_bytes // PAGE)
        self.chunks[page] = fragment_size
        for each in range(page, page + chunk_bytes // PAGE):
            self.chunk_of[each] = page
        start = page * PAGE
        fragments.extend(reversed(range(start + fragment_size, start + chunk_bytes, fragment_size)))
        return start

    def alloc_aligned(self, alignment: int, size: int) -> int:
        if alignment <= PAGE and max(size, alignment) <= PAGE // 2:
            return self.alloc(max(size, alignment))
        pages = round_up(max(size, 1), PAGE) // PAGE
        run = self.alloc_run(pages + max(alignment // PAGE, 1) - 1)
        aligned = round_up(run, alignment)
        page, front = run // PAGE, (aligned - run) // PAGE
        self.runs[page + front] = self.runs.pop(page) - front
        if front:
            self.free_pages(page, front, True)
        self.shed(page + front, pages)
        return aligned

    def shed(self, page: int, pages: int) -> None:
        rest = self.runs[page] - pages
        self.runs[page] = pages
        if rest:
            self.free_pages(page + pages, rest, True)

    def free(self, block: int) -> None:
        page = block // PAGE
        if page not in self.chunk_of:
            self.free_pages(page, self.runs.pop(page), True)
            return
        page = self.chunk_of[page]
        size = self.chunks[page]
        chunk_bytes = lcm(size, PAGE)
        fragments = self.lists[size]
        siblings = [f for f in fragments if page * PAGE <= f < page * PAGE + chunk_bytes]
        if len(siblings) == chunk_bytes // size - 1:
            self.lists[size] = [fragment for fragment in fragments if fragment not in siblings]
            del self.chunks[page]
            for each in range(page, page + chunk_bytes // PAGE):
                del self.chunk_of[each]
            self.free_pages(page, chunk_bytes // PAGE, True)
        elif siblings:
            fragments.insert(fragments.index(siblings[0]) + 1, block)
        else:
            fragments.insert(0, block)

    def resize(self, block: int, size: int) -> bool:
        page = block // PAGE
        if page in self.chunk_of:
            fragment_size = self.chunks[self.chunk_of[page]]
            return fragment_size // 2 < size <= fragment_size
        pages = round_up(size, PAGE) // PAGE
        if self.fragment_size(size) or pages > self.runs[page]:
            return False
        self.shed(page, pages)
        return True

    def move(self, block: int, size: int) -> int:
        page = block // PAGE
        if page in self.chunk_of or self.fragment_size(size):
            return super().move(block, size)
        self.free_pages(page, self.runs.pop(page), False)
        return self.alloc_run(round_up(size, PAGE) // PAGE)


class BinnedGnu(Gnu):
    """clusters=binned: a list of clusters for each bin of sizes, the newest first; the last cluster
    of memory is in none."""

    def __init__(self, least: int = 16, parts: bool = False) -> None:
        super().__init__(least, parts)
        self.bins: list[list[int]] = [[] for _ in BIN_STARTS]

    def enlist(self, page: int, pages: int) -> None:
        if page + pages < len(self.used):
            self.bins[bin_of(pages)].insert(0, page)

    def delist(self, page: int, pages: int) -> None:
        if page + pages < len(self.used):
            self.bins[bin_of(pages)].remove(page)

    def take(self, page: int, cluster_pages: int, pages: int) -> int:
        self.delist(page, cluster_pages)
        self.mark(page, pages, 1)
        if cluster_pages > pages:
            self.enlist(page + pages, cluster_pages - pages)
        return page

    def alloc_pages(self, pages: int) -> int:
        if self.table_entries == 0:
            self.table_entries = FIRST_TABLE_ENTRIES
            self.extend_pages(self.table_pages())
        size_of = dict(self.clusters())
        for number in range(bin_of(pages), len(BIN_STARTS)):
            for start in self.bins[number][:SEARCH_LIMIT]:
                if size_of[start] >= pages:
                    return self.take(start, size_of[start], pages)
        last = [(start, size) for start, size in size_of.items() if start + size == len(self.used)]
        if last and last[0][1] >= pages:
            return self.take(*last[0], pages)
        if not last:
            return self.more_core(pages)
        start, size = last[0]
        self.mark(start, size, 1)
        self.more_core(pages - size)
        return start

    def free_pages(self, page: int, pages: int, may_return: bool) -> None:
        for start, size in self.clusters():
            if start + size == page or start == page + pages:
                self.delist(start, size)
        self.mark(page, pages, 0)
        start, size = next((s, n) for s, n in self.clusters() if s <= page < s + n)
        if may_return and size >= FINAL_FREE_PAGES and start + size == len(self.used):
            del self.used[start:]
            self.end -= size * PAGE
        else:
            self.enlist(start, size)

    def move(self, block: int, size: int) -> int:
        return Model.move(self, block, size)
