# SPDX-License-Identifier: MIT
"""The paper's own figures as evidence, so that its claims can be judged by the same rules.

A printed figure counts as itself. What the paper shows in pictures only is not here."""

from . import paper
from .evidence import Series
from .plan import KERNEL


class Printed:
    """Of one of its benchmarks."""

    sampled = False

    def __init__(self, benchmark: str) -> None:
        self.benchmark = benchmark

    def times(self, scheme: str, phase: str) -> Series | None:
        if phase not in paper.TABLES[self.benchmark]:
            return None
        # What a system call would give is in the paper an estimate: dirty.
        if scheme in (paper.DIRTY, KERNEL):
            return [1.0]
        if scheme not in paper.SCHEMES:
            return None
        return [paper.TABLES[self.benchmark][phase][paper.SCHEMES.index(scheme)] / 100]

    def trap(self) -> Series | None:
        return [float(paper.MICROSECONDS_PER_TRAP[self.benchmark])]

    def trap_undecided(self) -> str:
        return ""

    def tight_trap(self) -> Series | None:
        return [float(paper.TIGHT_LOOP_MICROSECONDS)]

    def break_even(self) -> Series | None:
        row = paper.TABLE_1[paper.CYCLES_PER_CHECK]
        return [float(row[paper.BENCHMARKS.index(self.benchmark)])]

    def trap_rate(self) -> Series | None:
        """Running times are not printed, but follow: t traps of y are what running of pages has
        more than dirty's. So t by dirty's running is this surplus as a share, by y."""
        pages = self.times("pages", "running") or [1.0]
        micros = paper.MICROSECONDS_PER_TRAP[self.benchmark]
        return [((one or 1.0) - 1) / micros * 1e6 for one in pages]


PRINTED = {benchmark: Printed(benchmark) for benchmark in paper.BENCHMARKS}
