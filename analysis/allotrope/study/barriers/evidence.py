# SPDX-License-Identifier: MIT
"""What the rules of the claims ask for, of one workload: a study's results (results.py), or a
benchmark of the paper itself (printed.py). What was not measured, or not printed, is None.

Times are given round by round, in any unit that is the same for all of them, so that a ratio of the
same round can be taken, whatever else it is made of."""

from typing import Protocol, Sequence


class Evidence(Protocol):
    def times(self, scheme: str, phase: str) -> Sequence[float] | None:
        """Of "total" as well, and of "dirty", composed as the paper does."""

    def trap(self) -> Sequence[float] | None:
        """Microseconds of a trap in the midst of the program: what running takes more than the
        oracle's, divided by the number of traps."""

    def tight_trap(self) -> Sequence[float] | None:
        """Microseconds of one in a loop of nothing else."""

    def break_even(self) -> Sequence[float] | None:
        """Microseconds of a trap at which it costs what the stores' checks cost."""

    def trap_count(self) -> int | None:
        """Of a run."""
