# SPDX-License-Identifier: MIT
"""Medians of paired ratios and their intervals."""

import math
import random

import pytest
from allotrope.statistics.intervals import (
    JUDGED_CONFIDENCE,
    RANGE,
    Estimate,
    confidence_of_each,
    estimate,
    estimate_ratio,
    interval_rank,
    least_rounds,
    look_rounds,
    rounds_within,
    summarize,
)
from scipy import stats


@pytest.mark.parametrize(
    "count, rank, kind, coverage",
    [
        (1, 1, "range", 0.0),
        (2, 1, "range", 0.5),
        (5, 1, "range", 0.9375),
        (6, 1, "order-statistic", 0.96875),
        (8, 1, "order-statistic", 0.9921875),
        (9, 2, "order-statistic", 0.9609375),
        (11, 2, "order-statistic", 0.98828125),
        (12, 3, "order-statistic", 0.96142578125),
    ],
)
def test_ranks_are_those_of_the_tables(count: int, rank: int, kind: str, coverage: float) -> None:
    found = interval_rank(count)
    assert (found.rank, found.kind, found.coverage) == (rank, kind, coverage)


@pytest.mark.parametrize("count", [*range(6, 120), 1024, 3000])  # 2^1024 is no float
def test_rank_is_the_narrowest_that_scipys_binomial_allows(count: int) -> None:
    found = interval_rank(count)
    missed = [2 * stats.binom.cdf(rank - 1, count, 0.5) for rank in (found.rank, found.rank + 1)]
    assert missed[0] <= 0.05 < missed[1]
    assert found.coverage == pytest.approx(1 - missed[0])


def test_interval_covers_the_true_median_as_often_as_it_says() -> None:
    """On a skewed distribution, where a normal interval would not."""
    chance = random.Random(1992)
    trials, hits = 4000, 0
    for _ in range(trials):
        found = estimate([chance.expovariate(1) for _ in range(9)])
        hits += found.low <= math.log(2) <= found.high
    # 96.1% is promised; three standard errors are 0.9%.
    assert 0.951 < hits / trials < 0.971


def test_estimate_of_eleven_takes_second_and_tenth() -> None:
    found = estimate([5, 3, 11, 1, 9, 7, 2, 10, 4, 8, 6])
    assert (found.low, found.median, found.high) == (2, 6, 10)


def test_even_count_averages_the_two_middle_values() -> None:
    assert estimate([4, 1, 2, 3]).median == 2.5


def test_even_count_averages_ratios_as_logarithms() -> None:
    ratio = estimate_ratio([2, 8], [1, 1])
    assert ratio is not None and ratio.median == pytest.approx(4)


def test_ratio_is_taken_round_by_round() -> None:
    """Drift that doubles every figure of a round does not show."""
    baseline = [1, 2, 4, 8, 16, 32]
    ratio = estimate_ratio([3 * value for value in baseline], baseline)
    assert ratio is not None
    assert (ratio.low, ratio.median, ratio.high) == pytest.approx((3, 3, 3))


def test_ratio_and_its_inverse_agree() -> None:
    chance = random.Random(7)
    ours = [chance.lognormvariate(0, 1) for _ in range(10)]
    theirs = [chance.lognormvariate(0, 1) for _ in range(10)]
    there, back = estimate_ratio(ours, theirs), estimate_ratio(theirs, ours)
    assert there is not None and back is not None
    assert there.median == pytest.approx(1 / back.median)
    assert there.low == pytest.approx(1 / back.high)


def test_ratio_to_zero_is_undefined_and_of_zero_is_zero() -> None:
    assert estimate_ratio([1, 1], [1, 0]) is None
    assert estimate_ratio([], []) is None
    zero = estimate_ratio([0, 0], [1, 2])
    assert zero is not None and zero.median == 0


@pytest.mark.parametrize("ours, theirs", [([-1, 2], [1, 1]), ([1, 1], [-1, 2]), ([-1, 0], [-1, 1])])
def test_ratio_of_what_is_negative_is_undefined(ours: list[float], theirs: list[float]) -> None:
    """As a load may print it: there is no logarithm."""
    assert estimate_ratio(ours, theirs) is None


def test_an_interval_round_zero_has_no_relative_width() -> None:
    assert Estimate(0, 0, 0).half_width == 0
    assert Estimate(0, 0, 0.1).half_width == math.inf


def test_summary_pairs_only_rounds_that_have_both() -> None:
    found = summarize([2.0, 100.0, 4.0, None], [1.0, None, 1.0, 1.0])
    assert found is not None
    assert found.ratio == pytest.approx(math.sqrt(8))
    assert (found.median, found.low, found.high) == (3, 2, 4)
    assert found.rounds == [2.0, 100.0, 4.0, None]
    assert found.interval == "range"


def test_summary_of_nothing_is_none() -> None:
    assert summarize([], []) is None
    assert summarize([1.0], [None]) is None


@pytest.mark.parametrize("confidence", [0.5, 0.95, 0.995, 0.9995])
def test_the_least_rounds_have_an_interval_and_one_less_has_none(confidence: float) -> None:
    least = least_rounds(confidence)
    assert interval_rank(least, confidence).kind != RANGE
    assert interval_rank(least - 1, confidence).kind == RANGE


def test_looks_grow_and_end_at_the_most() -> None:
    assert look_rounds(16, 200) == [16, 24, 36, 54, 81, 122, 183, 200]
    assert look_rounds(16, 10) == [10]


def test_all_looks_together_are_wrong_as_often_as_one() -> None:
    for count in (1, 3, 10):
        wrong = 1 - confidence_of_each(count, JUDGED_CONFIDENCE)
        assert count * wrong == pytest.approx(0.005)


def test_rounds_fit_into_a_span_and_are_never_few() -> None:
    found = [rounds_within(seconds) for seconds in (100, 1.25, 0.2, 0.01, 0)]
    assert found == [16, 16, 100, 256, 256]
