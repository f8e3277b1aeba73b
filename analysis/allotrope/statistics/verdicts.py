# SPDX-License-Identifier: MIT
"""What an interval decides. The outcomes alone: how they are said is up to whoever shows them.
Every verdict of the project is decided here.

    judge(ratio, threshold)    is one better than the other, worse, the same, or is it not decided?
    is_little(one, other)      do two amounts of memory differ by too little to count in a choice?
    that_count(amounts)        which programs count in a mean of memory over several?
    may_be(outcome, ratio)     does the interval leave room for better, or for worse?
    leaves_out(interval, 1)    does the interval exclude a value?
    overlap(one, other)        may two measurements be of the same?
    standing(interval, range)  does a figure lie in a range that somebody claims?
    verdict(standings, all)    does a claim of all, most, some of several such ranges hold?
    tells_chance(rounds)       are there rounds enough for any of these?

`judge` looks where the whole interval of a ratio lies, with t the threshold. Ratios are symmetric
as logarithms: who is 2% better makes the other 2% worse.

        better        |       same        |       worse
    ------------- 1/(1+t) ---- 1 ------- 1+t --------------->  ratio, less is better

An interval that reaches over one of the two bounds decides nothing. So "worse" is wrong only where
the interval is, and the share of wrong intervals is known, whatever the noise. "Worse" means worse
by more than t: an interval [1.01, 1.03] is not decided for t = 2%, though it leaves out 1.

Memory must differ by NOTICEABLE_BYTES as well to count in a choice. A mean over programs is of
ratios, so one small program's 30% weighs as much as a large one's. Therefore a program that differs
by more than t and yet by less than NOTICEABLE_BYTES is left out of the mean that counts; where no
program differs by NOTICEABLE_BYTES, nothing counts:

                        by less than 1 MiB      by 1 MiB or more
    ratio within t      in: it is the same      in
    ratio beyond t      out                     in
"""

from enum import StrEnum
from typing import Mapping, Sequence

from .intervals import LEAST_ROUNDS, Estimate

# Differences below this are no reason to change anything.
THRESHOLD = 0.02
# Nor is less memory than this, whatever share of a program's it is.
NOTICEABLE_BYTES = 1 << 20
Interval = tuple[float, float]


class Outcome(StrEnum):
    """Of one against another in one quantity."""

    BETTER = "better"
    WORSE = "worse"
    SAME = "same"
    NOT_DECIDED = "not decided"


def judge(ratio: Estimate, threshold: float = THRESHOLD, more_is_better: bool = False) -> Outcome:
    """The inverse ratio has the inverse outcome."""
    least, most = 1 / (1 + threshold), 1 + threshold
    if ratio.high < least:
        return Outcome.WORSE if more_is_better else Outcome.BETTER
    if ratio.low > most:
        return Outcome.BETTER if more_is_better else Outcome.WORSE
    if least <= ratio.low and ratio.high <= most:
        return Outcome.SAME
    return Outcome.NOT_DECIDED


def is_told(outcome: str | None) -> bool:
    """Whether it says that one is better than the other."""
    return outcome in (Outcome.BETTER, Outcome.WORSE)


def is_little(one: float, other: float) -> bool:
    """Whether two amounts of memory, medians, differ by too little to count in a choice."""
    return abs(one - other) < NOTICEABLE_BYTES


def that_count(
    amounts: Mapping[str, tuple[float, float]], threshold: float = THRESHOLD
) -> list[str]:
    """The programs that count in a mean of memory; none where no difference is large enough.
    amounts: the medians under the one and under the other allocator, by program."""
    if all(is_little(*both) for both in amounts.values()):
        return []
    return [
        name
        for name, both in amounts.items()
        if not is_little(*both) or max(both) <= (1 + threshold) * min(both)
    ]


def may_be(outcome: Outcome, ratio: Estimate, threshold: float = THRESHOLD) -> bool:
    """Whether the interval reaches where `outcome` (better or worse, less being better) lies. An
    interval [0.92, 0.99] does not decide better, but rules out worse."""
    if outcome is Outcome.BETTER:
        return ratio.low < 1 / (1 + threshold)
    return ratio.high > 1 + threshold


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


def tells_chance(rounds: int, least: int = LEAST_ROUNDS) -> bool:
    """Whether so many rounds tell chance from difference: they have an interval, not a range."""
    return rounds >= least


class Standing(StrEnum):
    """Of a figure to a claimed range."""

    IN = "in"
    OUT = "out"
    SHORT = "short"  # of the range, but past the point from which on there is an effect
    OPEN = "open"  # the interval reaches over an end of the range
    UNDEFINED = "undefined"  # a ratio to nothing
    MISSING = "missing"


def standing(interval: Interval, wanted: Interval, effect: float | None = None) -> Standing:
    """`wanted` is the range, its ends included. `effect`: from here to the range a figure is short
    of it, and beyond there is nothing of what is claimed."""
    if wanted[0] <= interval[0] and interval[1] <= wanted[1]:
        return Standing.IN
    if overlap(interval, wanted):
        return Standing.OPEN
    if effect is None or overlap(interval, (effect, effect)):
        return Standing.OUT if effect is None else Standing.OPEN
    below_range, above_effect = interval[1] < wanted[0], interval[0] > effect
    return Standing.SHORT if below_range == above_effect else Standing.OUT


class Quantifier(StrEnum):
    """Of how many of its parts a claim speaks."""

    ALL = "all"
    MOST = "most"
    SOME = "some"
    UP_TO = "up to"  # the largest of them: who says "up to 42%" says that one reaches it
    AVERAGE = "average"  # the part is their mean
    COUNT = "count"  # the part is the number of those in which something is so


class Verdict(StrEnum):
    """Of a claim that is made of parts."""

    HOLDS = "holds"
    CONSISTENT = "consistent"  # holds of what stands for the claim's own subject
    IN_PART = "in part"
    FAILS = "does not hold"
    NOT_DECIDED = "not decided"
    NOT_MEASURED = "not measured"


def verdict(standings: Sequence[Standing], quantifier: Quantifier = Quantifier.ALL) -> Verdict:
    """What the parts say of the whole. One part that is clearly out refutes a claim of all; one
    that is clearly in proves a claim of some."""
    found = set(standings)
    if found <= {Standing.MISSING}:
        return Verdict.NOT_MEASURED
    if quantifier in (Quantifier.SOME, Quantifier.UP_TO):
        return _of_some(found)
    if quantifier is Quantifier.MOST:
        return _of_most(standings)
    if Standing.OUT in found:
        return Verdict.FAILS
    return Verdict.HOLDS if found == {Standing.IN} else Verdict.NOT_DECIDED


def _of_some(found: set[Standing]) -> Verdict:
    if Standing.IN in found:
        return Verdict.HOLDS
    if found == {Standing.OUT}:
        return Verdict.FAILS
    return Verdict.IN_PART if found <= {Standing.OUT, Standing.SHORT} else Verdict.NOT_DECIDED


def _of_most(standings: Sequence[Standing]) -> Verdict:
    """More than half must be in; from half on that are out it cannot be."""
    if 2 * standings.count(Standing.IN) > len(standings):
        return Verdict.HOLDS
    if 2 * standings.count(Standing.OUT) >= len(standings):
        return Verdict.FAILS
    return Verdict.NOT_DECIDED
