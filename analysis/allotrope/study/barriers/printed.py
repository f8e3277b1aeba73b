# SPDX-License-Identifier: MIT
"""The paper's own figures as evidence, so that its claims can be judged by the same rules.

A printed figure counts as itself; that it was rounded is allowed for in the ranges (paper.py). What
the paper shows in pictures only is not here."""

from typing import Sequence

from . import paper
from .plan import KERNEL


class Printed:
    """Of one of its benchmarks."""

    def __init__(self, benchmark: str) -> None:
        self.benchmark = benchmark

    def times(self, scheme: str, phase: str) -> Sequence[float] | None:
        # What a system call would give is in the paper an estimate: dirty.
        if scheme in (paper.DIRTY, KERNEL):
            return [1.0]
        if scheme not in paper.SCHEMES:
            return None
        return [paper.TABLES[self.benchmark][phase][paper.SCHEMES.index(scheme)] / 100]

    def trap(self) -> Sequence[float] | None:
        return [float(paper.MICROSECONDS_PER_TRAP[self.benchmark])]

    def tight_trap(self) -> Sequence[float] | None:
        return [float(paper.TIGHT_LOOP_MICROSECONDS)]

    def break_even(self) -> Sequence[float] | None:
        row = paper.TABLE_1[paper.CYCLES_PER_CHECK]
        return [float(row[paper.BENCHMARKS.index(self.benchmark)])]

    def trap_count(self) -> int | None:
        return paper.TRAPS[self.benchmark]


PRINTED = {benchmark: Printed(benchmark) for benchmark in paper.BENCHMARKS}
