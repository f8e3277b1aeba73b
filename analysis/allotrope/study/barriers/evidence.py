# SPDX-License-Identifier: MIT
"""What the rules of the claims ask for, of one workload: a study's results (results.py), or a
benchmark of the paper itself (printed.py). What was not measured, or not printed, is None.

Times are given round by round, in any unit that is the same for all of them, so that a ratio of the
same round can be taken, whatever else it is made of. A round in which the run failed has None."""

from typing import Any, Callable, Protocol, Sequence

from ...statistics.intervals import CONFIDENCE, Estimate, estimate

Series = Sequence[float | None]


class Evidence(Protocol):
    @property
    def sampled(self) -> bool:
        """Whether the figures are of rounds, which chance moves. Printed ones count as they are."""

    def times(self, scheme: str, phase: str) -> Series | None:
        """Of "total" and "roots and other" as well, and of "dirty", composed as the paper does."""

    def trap(self) -> Series | None:
        """Microseconds of a trap in the midst of the program: what running takes more than the
        oracle's, divided by the number of traps."""

    def trap_undecided(self) -> str:
        """Why that decides nothing, where it does not."""

    def tight_trap(self) -> Series | None:
        """Microseconds of one in a loop of nothing else."""

    def break_even(self) -> Series | None:
        """Microseconds of a trap at which it costs what the stores' checks cost."""

    def trap_rate(self) -> Series | None:
        """Traps by second of the running time without them."""


def by_round(function: Callable[..., Any], *series: Series | None) -> Series | None:
    """`function` of the figures of each round. A round that lacks one of them has None; without any
    round there is None alone."""
    known = [one for one in series if one is not None]
    if len(known) < len(series):
        return None
    found = [None if None in each else function(*each) for each in zip(*known)]
    return found if any(one is not None for one in found) else None


def ratios(above: Series | None, below: Series | None) -> Series | None:
    """A ratio to nothing is none."""
    return by_round(lambda one, base: one / base if base else None, above, below)


def there(values: Series | None) -> list[float]:
    """Of the rounds that have one."""
    return [one for one in values or () if one is not None]


def estimate_of(values: Series | None, confidence: float = CONFIDENCE) -> Estimate | None:
    found = there(values)
    return estimate(found, confidence) if found else None
