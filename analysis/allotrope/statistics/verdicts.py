# SPDX-License-Identifier: MIT
"""What an interval decides. The outcomes alone: how they are said is up to whoever shows them.

    change(ratio)              is one noticeably less or more than the other, or is it not told?
    leaves_out(interval, 1)    does the interval exclude a value?
    overlap(one, other)        may two measurements be of the same?
    standing(interval, range)  does a figure lie in a range that somebody claims?
    verdict(standings)         does a claim of several such ranges hold?
    tells_chance(rounds)       are there rounds enough for any of these?
"""

from enum import Enum, StrEnum
from typing import Sequence

from .intervals import LEAST_ROUNDS, Estimate

# Differences below this are no reason to change anything.
NOTICEABLE = 0.02
Interval = tuple[float, float]


class Change(Enum):
    LESS = "less"
    MORE = "more"
    UNTOLD = "untold"


def change(ratio: Estimate) -> Change:
    """Told when the interval leaves out 1 and the median is noticeably away from it. MORE is where
    the other is noticeably less: the inverse ratio has the inverse outcome."""
    if ratio.high < 1 and ratio.median <= 1 - NOTICEABLE:
        return Change.LESS
    if ratio.low > 1 and ratio.median >= 1 / (1 - NOTICEABLE):
        return Change.MORE
    return Change.UNTOLD


def leaves_out(interval: Interval, value: float) -> bool:
    low, high = interval
    return high < value or low > value


def overlap(one: Interval, other: Interval) -> bool:
    return one[0] <= other[1] and other[0] <= one[1]


def lies_below(interval: Interval, value: float) -> bool:
    return interval[1] < value


def reaches_below(interval: Interval, value: float) -> bool:
    """Its lower end does, or touches it."""
    return interval[0] <= value


def tells_chance(rounds: int) -> bool:
    """Whether so many rounds tell chance from difference: they have an interval, not a range."""
    return rounds >= LEAST_ROUNDS


class Standing(StrEnum):
    """Of a figure to a claimed range."""

    IN = "in"
    OUT = "out"
    OPEN = "open"  # the interval reaches over an end of the range
    UNDEFINED = "undefined"  # a ratio to nothing
    MISSING = "missing"


def standing(interval: Interval, wanted: Interval) -> Standing:
    """`wanted` is the range, its ends included."""
    if wanted[0] <= interval[0] and interval[1] <= wanted[1]:
        return Standing.IN
    return Standing.OPEN if overlap(interval, wanted) else Standing.OUT


class Verdict(StrEnum):
    """Of a claim that is made of parts."""

    HOLDS = "holds"
    IN_PART = "in part"
    FAILS = "does not hold"
    NOT_DECIDED = "not decided"
    NOT_MEASURED = "not measured"


def verdict(standings: Sequence[Standing]) -> Verdict:
    """It holds when all are in and fails when all are out; some in and some out are a part."""
    found = set(standings)
    if found <= {Standing.MISSING}:
        return Verdict.NOT_MEASURED
    if found == {Standing.IN}:
        return Verdict.HOLDS
    if found == {Standing.OUT}:
        return Verdict.FAILS
    return Verdict.IN_PART if {Standing.IN, Standing.OUT} <= found else Verdict.NOT_DECIDED
