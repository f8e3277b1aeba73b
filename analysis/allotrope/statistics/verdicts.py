# SPDX-License-Identifier: MIT
"""What an interval decides. The outcomes alone: how they are said is up to whoever shows them.
Every verdict of the project is decided here.

    judge(ratio, threshold)    is one better than the other, worse, the same, or is it not decided?
    weigh(ratio, noticeable)   is a difference of memory large enough to count in a choice?
    that_count(differences)    which programs count in a mean of memory over several?
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

Memory must differ by NOTICEABLE_BYTES as well to count in a choice. That, too, is for the whole
interval to say: a rule that goes by medians gives another answer with each run of a noisy program.
The interval of the difference is the ratio's, less 1, times the base's median (`weigh`):

    LITTLE   all of it is below 1 MiB: it does not count, and this is said
    MUCH     all of it is 1 MiB or more: it counts
    OPEN     it reaches over 1 MiB: neither is proven, so it decides nothing

`judge` with `noticeable` has both bounds, that of the threshold and that of 1 MiB: the verdict that
a choice goes by. Without, it is the verdict on the ratio, which stands whatever the amounts are.

A mean over programs is of ratios, so one small program's 30% weighs as much as a large one's.
Therefore a program that differs by more than t and yet by less than 1 MiB is left out of the mean
that counts, and no mean counts where no program differs by 1 MiB:

                        by less than 1 MiB      by 1 MiB or more
    ratio within t      in: it is the same      in
    ratio beyond t      out                     in

Where intervals do not settle which programs those are, the mean must say the same with those in
doubt and without. Which programs count depends on the two allocators. So the means of three may go
round in a circle, each less than the next; then none of the three is leanest.
"""

import math
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


class Weight(StrEnum):
    """Of a difference of memory."""

    LITTLE = "little"
    MUCH = "much"
    OPEN = "open"


def judge(
    ratio: Estimate,
    threshold: float = THRESHOLD,
    more_is_better: bool = False,
    noticeable: float = 0.0,
) -> Outcome:
    """The inverse ratio has the inverse outcome. noticeable: which share of the base a difference
    must have as well."""
    bounds = threshold, noticeable
    if _is_less(ratio.high, *bounds):
        return Outcome.WORSE if more_is_better else Outcome.BETTER
    if _is_more(ratio.low, *bounds):
        return Outcome.BETTER if more_is_better else Outcome.WORSE
    if _is_less(ratio.low, *bounds) or _is_more(ratio.high, *bounds):
        return Outcome.NOT_DECIDED
    return Outcome.SAME


def _is_less(ratio: float, threshold: float, noticeable: float) -> bool:
    return ratio < 1 / (1 + threshold) and ratio <= 1 - noticeable


def _is_more(ratio: float, threshold: float, noticeable: float) -> bool:
    return ratio > 1 + threshold and ratio >= 1 + noticeable


def is_told(outcome: str | None) -> bool:
    """Whether it says that one is better than the other."""
    return outcome in (Outcome.BETTER, Outcome.WORSE)


def noticeable_share(base: float) -> float:
    """NOTICEABLE_BYTES as a share of so many bytes."""
    return NOTICEABLE_BYTES / base if base else math.inf


def weigh(ratio: Estimate, noticeable: float) -> Weight:
    """noticeable: noticeable_share of what the ratio is to."""
    if max(abs(end - 1) for end in ratio.interval) < noticeable:
        return Weight.LITTLE
    if ratio.high <= 1 - noticeable or ratio.low >= 1 + noticeable:
        return Weight.MUCH
    return Weight.OPEN


def that_count(
    differences: Mapping[str, tuple[Estimate, float]], threshold: float = THRESHOLD
) -> list[list[str]]:
    """The programs that count in a mean of memory; several lists where it is not settled which they
    are. An empty list: memory does not count. differences: by program, as `weigh` takes them."""
    weights = {weigh(*one) for one in differences.values()}
    if weights <= {Weight.LITTLE}:
        return [[]]
    certain, possible = [], []
    for name, (ratio, noticeable) in differences.items():
        weight, outcome = weigh(ratio, noticeable), judge(ratio, threshold)
        is_out = weight is Weight.LITTLE and is_told(outcome)
        if weight is Weight.MUCH or outcome is Outcome.SAME:
            certain.append(name)
        if not is_out:
            possible.append(name)
    lists = [possible, certain] if certain != possible else [possible]
    return lists if Weight.MUCH in weights or [] in lists else [*lists, []]


def may_be(
    outcome: Outcome, ratio: Estimate, threshold: float = THRESHOLD, noticeable: float = 0.0
) -> bool:
    """Whether the interval reaches where `outcome` (better or worse, less being better) lies. An
    interval [0.92, 0.99] does not decide better, but rules out worse."""
    if outcome is Outcome.BETTER:
        return _is_less(ratio.low, threshold, noticeable)
    return _is_more(ratio.high, threshold, noticeable)


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
    SHORT_OR_OUT = "short-or-out"  # short of the range, and whether there is an effect is open
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
    if effect is None:
        return Standing.OUT
    if overlap(interval, (effect, effect)):
        return Standing.SHORT_OR_OUT
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
    reached_by_none = found <= {Standing.OUT, Standing.SHORT_OR_OUT, Standing.SHORT}
    return Verdict.IN_PART if reached_by_none and Standing.SHORT in found else Verdict.NOT_DECIDED


def _of_most(standings: Sequence[Standing]) -> Verdict:
    """More than half must be in; from half on that are out it cannot be."""
    if 2 * standings.count(Standing.IN) > len(standings):
        return Verdict.HOLDS
    if 2 * standings.count(Standing.OUT) >= len(standings):
        return Verdict.FAILS
    return Verdict.NOT_DECIDED
