# SPDX-License-Identifier: MIT
"""The paper's own figures as evidence, so that its claims can be judged by the same rules.

A printed figure counts as itself; that it was rounded is allowed for in the ranges (ranges.py).
What the paper shows in pictures only is not here.
"""

from typing import Any, Mapping, Sequence

from ...statistics.intervals import CONFIDENCE, Estimate
from ...statistics.spread import mean_logarithms
from . import paper
from .evidence import Pair


def _exact(value: float | None) -> Estimate | None:
    return None if value is None else Estimate(value, value, value)


class Printed:
    """Tables 2 to 6, and what the text says of Figures 6 and 8."""

    sampled = False

    def claimed(self) -> Sequence[str]:
        return paper.PROGRAMS

    def uninformative(self) -> Sequence[str]:
        return ()

    def tunable(self) -> Sequence[str]:
        return paper.OWN_ALLOCATOR

    def share_in_allocator(
        self, name: str, form: str, spec: str, confidence: float = CONFIDENCE
    ) -> Estimate | None:
        if spec != paper.SUNOS or form != "unoptimised":
            return None
        row = paper.TABLE_2[name]
        # Percents are sums of tenths; binary fractions are not.
        return _exact(round(row.malloc_percent + row.free_percent, 1) / 100)

    def free_to_malloc(self, name: str) -> float | None:
        return paper.TABLE_2[name].free_percent / paper.TABLE_2[name].malloc_percent

    def _relative(self, table: Any, name: str, form: str, spec: str) -> float | None:
        """Table 5 or 6: to optimised SunOS."""
        row = table.get((form, spec))
        return None if row is None else row.get(name)

    def _relative_time(self, name: str, pair: Pair) -> float | None:
        """To optimised SunOS: the collector's is in Table 3."""
        if pair == ("collected", paper.COLLECTOR):
            return paper.TABLE_3[name][paper.COLLECTOR].ratio
        return self._relative(paper.TABLE_5, name, *pair)

    def _absolute(
        self, absolute: paper.Table, relative: Any, name: str, form: str, spec: str
    ) -> float | None:
        """Of Table 3 or 4; what is unoptimised by Table 5 or 6. A program without an allocator of
        its own is the same in both forms."""
        cell = absolute.get(name, {}).get(spec)  # of other programs it prints nothing
        if cell is None or (spec == paper.COLLECTOR) != (form == "collected"):
            return None
        if form != "unoptimised" or name not in paper.OWN_ALLOCATOR:
            return cell.absolute
        ratio = self._relative(relative, name, form, spec)
        return ratio and ratio * absolute[name][paper.SUNOS].absolute

    def _seconds(self, name: str, form: str, spec: str) -> float | None:
        return self._absolute(paper.TABLE_3, paper.TABLE_5, name, form, spec)

    def apart(self) -> str:
        return ""

    def logarithms(self, name: str, pairs: Sequence[Pair]) -> tuple[list[float], Any] | None:
        found = [self._seconds(name, *pair) for pair in pairs]
        seconds = [one for one in found if one is not None]
        return mean_logarithms([seconds] if len(seconds) == len(pairs) else [])

    def pairs(self, name: str, one: Pair, base: Pair) -> Sequence[tuple[float, float]]:
        if "unoptimised" in (one[0], base[0]) and name in paper.OWN_ALLOCATOR:
            # Of Table 5 both must be of it: a printed ratio to a printed time adds its rounding.
            above, below = self._relative_time(name, one), self._relative_time(name, base)
        else:
            above, below = self._seconds(name, *one), self._seconds(name, *base)
        return [] if above is None or below is None else [(above, below)]

    def ratio(self, name: str, one: Pair, base: Pair) -> Estimate | None:
        found = [above / below for above, below in self.pairs(name, one, base) if below]
        return _exact(found[0] if found else None)

    def heap_peak(self, name: str, form: str, spec: str) -> float | None:
        return self._absolute(paper.TABLE_4, paper.TABLE_6, name, form, spec)

    def heap_ratio(self, name: str, one: Pair, base: Pair) -> float | None:
        if "unoptimised" in (one[0], base[0]) and name in paper.OWN_ALLOCATOR:
            above = self._relative(paper.TABLE_6, name, *one)
            below = self._relative(paper.TABLE_6, name, *base)
        else:
            above, below = self.heap_peak(name, *one), self.heap_peak(name, *base)
        return above / below if above is not None and below else None

    def replacement_faults(
        self, name: str, form: str, spec: str, memory: int, page_size: int = 4096
    ) -> int | None:
        return None

    def fixed_memory(self) -> int | None:
        return paper.MEMORY_1992

    def references(self, name: str, form: str, spec: str) -> int | None:
        return None

    def marked(self, name: str, form: str, spec: str) -> int | None:
        return None

    def miss_rate(
        self, name: str, form: str, spec: str, size: int, block: int = 32, ways: int = 1
    ) -> float | None:
        told = (name, form, spec) == ("ghostscript", "optimised", paper.BSD)
        return paper.GHOSTSCRIPT_MISS_RATE if told and size == paper.CACHE_1992 else None

    def cache(
        self, name: str, form: str, spec: str, size: int, block: int = 32, ways: int = 1
    ) -> Mapping[str, Any] | None:
        return None

    def shape(self, name: str, form: str, spec: str) -> Mapping[str, Any] | None:
        return None

    def survivors(self, name: str, age: int) -> float | None:
        if (name, age) == ("perl", 10_000):
            return paper.PERL_SURVIVORS_AT_10_000
        return None


PRINTED = Printed()
