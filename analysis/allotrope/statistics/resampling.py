# SPDX-License-Identifier: MIT
"""Geometric means over the programs of a suite, with intervals from resampled rounds.

A program's figure is the median over rounds of the logarithm of a ratio; the suite's is the mean
of these over programs. The programs are the ones asked about, not a sample of others, so only
rounds are drawn anew: whole rounds of the suite, with replacement, the same rounds for every
program, because what disturbs a round disturbs its neighbours too.

Percentiles of a bootstrap with few rounds are too narrow. They are taken further out, by what a
t interval is wider than a normal one with a variance that is divided by n: the expanded percentile
interval of Hesterberg, "What Teachers Should Know About the Bootstrap", The American Statistician
69(4), 2015. The seed is fixed: the same rounds give the same interval.
"""

import math
import statistics
from dataclasses import dataclass
from typing import Sequence

from .intervals import JUDGED_CONFIDENCE

REPLICATES = 10000
SEED = 1992


@dataclass(frozen=True)
class Mean:
    """A geometric mean of ratios over programs."""

    ratio: float
    low: float
    high: float
    programs: int
    rounds: int
    machines: int = 1  # more: their pooled ratios (replicates.py)


def geometric_middle(ratios: Sequence[Sequence[float]]) -> float:
    """The mean without its interval, also of one round."""
    middles = [statistics.median(map(math.log, of_program)) for of_program in ratios]
    return math.exp(statistics.fmean(middles))


def geometric_mean(ratios: Sequence[Sequence[float]]) -> Mean | None:
    """Of ratios[program][round], all positive and of the same number of rounds. Below two rounds
    there is nothing to draw from: None."""
    import numpy  # here, for it takes longer to start than all else

    logarithms = numpy.log(numpy.asarray(ratios, dtype=float))
    if logarithms.ndim != 2 or logarithms.shape[1] < 2:
        return None
    programs, rounds = logarithms.shape
    drawn = numpy.random.default_rng(SEED).integers(rounds, size=(REPLICATES, rounds))
    means = numpy.zeros(REPLICATES)
    for program in logarithms:
        means += numpy.median(program[drawn], axis=1)
    low, high = numpy.quantile(means / programs, _expanded_tails(rounds))
    middle = float(numpy.median(logarithms, axis=1).mean())
    # Percentiles of a skewed sample may leave the estimate itself out by a hair.
    bounds = min(float(low), middle), max(float(high), middle)
    return Mean(math.exp(middle), math.exp(bounds[0]), math.exp(bounds[1]), programs, rounds)


def _expanded_tails(rounds: int) -> tuple[float, float]:
    from scipy import special  # not stats, which takes three times as long to start

    wider = math.sqrt(rounds / (rounds - 1))
    quantile = special.stdtrit(rounds - 1, (1 - JUDGED_CONFIDENCE) / 2) * wider  # of Student's t
    tail = float(special.ndtr(quantile))
    return tail, 1 - tail
