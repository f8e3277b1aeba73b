# SPDX-License-Identifier: MIT
"""Medians of paired ratios and intervals that assume no distribution.

Run times are skewed and drift, so nothing here is a mean. Each round gives one ratio to the
baseline of the same round, and drift that lasts longer than a round cancels in it. Of n such
ratios, sorted, the k-th smallest and the k-th largest enclose the median of their population with
probability

    1 - 2 P(B < k),    B binomial with n trials of probability 1/2,

whatever that population is (the sign test turned round; David and Nagaraja, Order Statistics,
7.1). For 16 rounds and 99.5% that is the 3rd and the 14th, 99.58%. Below 9 rounds even the
extremes cover less than that, and are called a range. Logarithms do not change an order, so this is
the interval of the log ratios too; they matter where two middle values are averaged.

A comparison has many quantities and many contenders, and a figure that is wrong once in twenty is
then wrong somewhere in most comparisons: what is judged (verdicts.py) has JUDGED_CONFIDENCE.

Who looks again and again until an interval is narrow, and then stops, has more chances to be wrong
than who looks once. When there will be another look is settled beforehand (`look_rounds`), and
`confidence_of_each` shares the permitted error a out evenly: of n looks each may be wrong with
a/n, so that the intervals of all looks together are wrong no more often than that of one (the union
bound; no assumption is made about how the looks depend on each other).

Why the median, and not the mean of all pairs' middles (Hodges and Lehmann), whose interval by the
signed-rank test is narrower for normal noise: the noise of shared machines is far from normal. Most
pairs of neighbouring runs agree to a few percent, and some fall on either side of a change of the
processor's speed. There the two are as wide (docs/measurements/comparison.md), and the median needs
no symmetry. What does help is more pairs that are close in time: rounds_within().
"""

import functools
import itertools
import math
from dataclasses import dataclass
from typing import Sequence

CONFIDENCE = 0.95
LEAST_ROUNDS = 6  # from which on the extremes enclose the median with that confidence
JUDGED_CONFIDENCE = 0.995
LEAST_JUDGED_ROUNDS = 9  # likewise
JUDGED_ROUNDS = 16  # as many as an interval needs that two rounds at either end may miss
# Of looks that follow each other, the next has so many times the rounds.
LOOK_GROWTH = 1.5
# How long the rounds of a short command may take when nobody says how many there are to be, and how
# many that may be: enough to find a slow-down of 5% where one run's time differs from the next by
# 15% (docs/measurements/comparison.md).
ROUNDS_SECONDS = 20.0
MOST_CHOSEN_ROUNDS = 256


ORDER_STATISTIC, RANGE = "order-statistic", "range"


@dataclass(frozen=True)
class Rank:
    """Which order statistics bound the interval, counted from 1 at either end."""

    rank: int
    kind: str  # ORDER_STATISTIC or RANGE
    coverage: float


@functools.cache
def interval_rank(count: int, confidence: float = CONFIDENCE) -> Rank:
    """The narrowest symmetric pair of order statistics of `count` values that still covers the
    median with `confidence`; the extremes, as a "range", when none does."""
    outside = 1  # of 2^count outcomes, those with fewer successes than the rank
    best = Rank(1, RANGE, _coverage(count, outside))
    for rank in range(1, count // 2 + 1):
        coverage = _coverage(count, outside)
        if coverage < confidence:
            break
        best = Rank(rank, ORDER_STATISTIC, coverage)
        outside += math.comb(count, rank)
    return best


def _coverage(count: int, outside: int) -> float:
    missed: float = 2 * outside / 2**count  # of integers: 2^1024 is no float
    return max(0.0, 1 - missed)


def least_rounds(confidence: float) -> int:
    """How many values it takes for an interval of that confidence."""
    return next(n for n in itertools.count(1) if interval_rank(n, confidence).kind != RANGE)


@dataclass(frozen=True)
class Estimate:
    median: float
    low: float
    high: float

    @property
    def interval(self) -> tuple[float, float]:
        return self.low, self.high

    @property
    def half_width(self) -> float:
        """The farther end's distance from the median, relative to it."""
        distance = max(self.high - self.median, self.median - self.low)
        if self.median == 0:
            return math.inf if distance else 0.0
        return distance / self.median


def estimate(values: Sequence[float], confidence: float = CONFIDENCE) -> Estimate:
    """Median and interval of at least one value."""
    ordered = sorted(values)
    middle = len(ordered) // 2
    median = ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2
    rank = interval_rank(len(ordered), confidence).rank
    return Estimate(median, ordered[rank - 1], ordered[-rank])


def estimate_ratio(
    values: Sequence[float], baseline: Sequence[float], confidence: float = CONFIDENCE
) -> Estimate | None:
    """Median and interval of the ratios round by round, averaged as logarithms; None when a ratio
    is undefined because the baseline has a zero, or either has something negative."""
    if not values or any(base <= 0 for base in baseline) or any(value < 0 for value in values):
        return None
    ratios = sorted(value / base for value, base in zip(values, baseline, strict=True))
    plain = estimate(ratios, confidence)
    middle = len(ratios) // 2
    median = ratios[middle] if len(ratios) % 2 else math.sqrt(ratios[middle - 1] * ratios[middle])
    return Estimate(median, plain.low, plain.high)


def look_rounds(first: int, most: int) -> Sequence[int]:
    """After how many rounds one looks whether to go on; the last time at `most`."""
    looks = [min(first, most)]
    while looks[-1] < most:
        looks.append(min(most, math.ceil(looks[-1] * LOOK_GROWTH)))
    return looks


def confidence_of_each(count: int, confidence: float) -> float:
    """The confidence of each of so many intervals, so that all together keep `confidence` (the
    union bound). Of none: `confidence` itself."""
    return 1 - (1 - confidence) / max(1, count)


def rounds_within(seconds: float) -> int:
    """How many rounds to take, one of which takes so many seconds. Settled before any figure is
    known, it leaves the interval what it is."""
    fitting = int(min(ROUNDS_SECONDS / max(seconds, 1e-9), MOST_CHOSEN_ROUNDS))
    return max(JUDGED_ROUNDS, fitting)


@dataclass(frozen=True)
class Summary:
    """One quantity of one allocator over all rounds.

    `rounds` has a place for every round, None where the run did not take place (after an
    interruption). The rest is over the rounds in which the baseline was measured too."""

    median: float
    low: float
    high: float
    ratio: float | None
    ratio_low: float | None
    ratio_high: float | None
    interval: str
    coverage: float
    rounds: list[float | None]

    def ratio_interval(self) -> Estimate | None:
        """The ratio to the baseline; None where it is undefined."""
        if self.ratio is None or self.ratio_low is None or self.ratio_high is None:
            return None
        return Estimate(self.ratio, self.ratio_low, self.ratio_high)


def summarize(
    values: Sequence[float | None],
    baseline: Sequence[float | None],
    confidence: float = JUDGED_CONFIDENCE,
) -> Summary | None:
    """Summary of a quantity against the baseline's; None when there is no round to speak of."""
    pairs = [
        (value, base)
        for value, base in zip(values, baseline, strict=True)
        if value is not None and base is not None
    ]
    if not pairs:
        return None
    values_known, bases_known = zip(*pairs)
    own = estimate(values_known, confidence)
    ratio = estimate_ratio(values_known, bases_known, confidence)
    rank = interval_rank(len(pairs), confidence)
    return Summary(
        median=own.median,
        low=own.low,
        high=own.high,
        ratio=ratio.median if ratio else None,
        ratio_low=ratio.low if ratio else None,
        ratio_high=ratio.high if ratio else None,
        interval=rank.kind,
        coverage=rank.coverage,
        rounds=list(values),
    )
