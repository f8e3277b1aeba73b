# SPDX-License-Identifier: MIT
"""What an interval decides: a change between two, a place in a range, and a claim of several."""

import itertools
import json

import pytest
from allotrope.statistics.intervals import LEAST_ROUNDS, RANGE, Estimate, interval_rank
from allotrope.statistics.verdicts import (
    NOTICEABLE_BYTES,
    THRESHOLD,
    Outcome,
    Quantifier,
    Standing,
    Weight,
    judge,
    leaves_out,
    lies_below,
    may_be,
    noticeable_share,
    overlap,
    reaches_below,
    standing,
    tells_chance,
    that_count,
    verdict,
    weigh,
)

MIB = 1 << 20


@pytest.mark.parametrize(
    "ratio, expected",
    [
        (Estimate(0.9, 0.85, 0.95), Outcome.BETTER),
        (Estimate(1.1, 1.05, 1.15), Outcome.WORSE),
        # The interval reaches over the threshold, and over 1.
        (Estimate(0.9, 0.8, 1.0), Outcome.NOT_DECIDED),
        (Estimate(1.1, 1.0, 1.2), Outcome.NOT_DECIDED),
        # It leaves out 1, but reaches over the threshold.
        (Estimate(1.02, 1.01, 1.03), Outcome.NOT_DECIDED),
        # It leaves out 1 and lies within the threshold.
        (Estimate(1.01, 1.005, 1.015), Outcome.SAME),
        (Estimate(1, 1, 1), Outcome.SAME),
        # At the threshold to the digit it is the same still.
        (Estimate(1.01, 1.0, 1 + THRESHOLD), Outcome.SAME),
        (Estimate(0.99, 1 / (1 + THRESHOLD), 1.0), Outcome.SAME),
        (Estimate(1.03, 1 + THRESHOLD, 1.04), Outcome.NOT_DECIDED),
        (Estimate(0.998, 0.586, 1.539), Outcome.NOT_DECIDED),
    ],
)
def test_the_whole_interval_decides(ratio: Estimate, expected: Outcome) -> None:
    assert judge(ratio) is expected


def test_where_more_is_better_the_outcome_is_inverse() -> None:
    assert judge(Estimate(0.9, 0.85, 0.95), more_is_better=True) is Outcome.WORSE
    assert judge(Estimate(1.1, 1.05, 1.15), more_is_better=True) is Outcome.BETTER
    assert judge(Estimate(1, 1, 1), more_is_better=True) is Outcome.SAME


def test_the_inverse_ratio_has_the_inverse_outcome() -> None:
    inverse = {Outcome.BETTER: Outcome.WORSE, Outcome.WORSE: Outcome.BETTER}
    for percent in range(50, 200):
        ratio = Estimate(percent / 100, percent / 101, percent / 99)
        other = Estimate(100 / percent, 99 / percent, 101 / percent)
        assert judge(other) is inverse.get(judge(ratio), judge(ratio))


def test_a_wider_threshold_decides_less_often_for_a_difference() -> None:
    ratio = Estimate(1.05, 1.03, 1.07)
    assert judge(ratio, 0.02) is Outcome.WORSE
    assert judge(ratio, 0.05) is Outcome.NOT_DECIDED
    assert judge(ratio, 0.1) is Outcome.SAME


def test_a_mebibyte_counts_and_less_is_little() -> None:
    for base in (1 << 20, 64 << 20):
        for sign in (1, -1):
            for size, expected in ((NOTICEABLE_BYTES, Weight.MUCH), (999_999, Weight.LITTLE)):
                ratio = 1 + sign * size / base
                assert weigh(Estimate(ratio, ratio, ratio), noticeable_share(base)) is expected


@pytest.mark.parametrize(
    "low, high, weight, counts",
    [
        # MiB more than a base of 8, of which 2% are 0.16.
        (0.3, 0.9, Weight.LITTLE, Outcome.SAME),
        (-0.9, 0.9, Weight.LITTLE, Outcome.SAME),
        (0.9, 1.1, Weight.OPEN, Outcome.NOT_DECIDED),  # though worse as a ratio
        (-1.1, -0.9, Weight.OPEN, Outcome.NOT_DECIDED),
        (-1.1, 1.1, Weight.OPEN, Outcome.NOT_DECIDED),
        (1.1, 1.2, Weight.MUCH, Outcome.WORSE),
        (-1.2, -1.1, Weight.MUCH, Outcome.BETTER),
    ],
)
def test_the_whole_interval_of_a_difference_of_memory_decides(
    low: float, high: float, weight: Weight, counts: Outcome
) -> None:
    ratio, share = more_than(8, low, high)
    assert weigh(ratio, share) is weight
    assert judge(ratio, noticeable=share) is counts
    assert may_be(Outcome.WORSE, ratio, noticeable=share) == (high >= 1)
    assert may_be(Outcome.BETTER, ratio, noticeable=share) == (low <= -1)


def more_than(base: float, low: float, high: float) -> tuple[Estimate, float]:
    """A ratio whose interval is so many MiB more than the base, and the base's noticeable share."""
    ends = [1 + one / base for one in (low, high)]
    return Estimate(sum(ends) / 2, *ends), noticeable_share(base * MIB)


def test_a_large_program_is_the_same_whatever_its_mebibytes() -> None:
    ratio, share = more_than(400, 2, 7)
    assert weigh(ratio, share) is Weight.MUCH and judge(ratio, noticeable=share) is Outcome.SAME


@pytest.mark.parametrize(
    "differences, lists",
    [
        # The base's MiB, and how many the interval is more: small programs alone.
        ({"a": (2, 0.4, 0.6), "b": (3, -0.9, -0.8)}, [""]),
        ({"a": (2, 0.4, 0.6), "same": (30, -0.1, 0.1)}, [""]),  # the same alone says nothing of a
        # A small and a large one: the large one alone, whichever way the small one differs.
        ({"a": (2, -0.6, -0.4), "large": (100, 29, 31)}, ["large"]),
        ({"a": (2, 0.4, 0.6), "large": (100, -31, -29)}, ["large"]),
        # Who is the same is evidence, however large, and however many there are.
        ({"same": (99, -0.5, 0.5), "tiny": (2, 0, 0), "large": (9, 2, 3)}, ["same tiny large"]),
        # That a small one is the same, or differs by 1 MiB, is not decided: with it and without.
        ({"a": (2, -0.1, 0.6), "large": (100, 29, 31)}, ["a large", "large"]),
        ({"a": (2, 0.4, 1.2), "large": (100, 29, 31)}, ["a large", "large"]),
        ({"a": (2, 0.4, 1.2), "out": (2, 0.4, 0.6), "large": (100, 29, 31)}, ["a large", "large"]),
        # Nobody is proven to differ by 1 MiB: perhaps memory does not count.
        ({"a": (2, 0.4, 1.2), "same": (99, -0.5, 0.5)}, ["a same", "same", ""]),
        ({"a": (2, 0.4, 1.2), "out": (2, 0.4, 0.6)}, ["a", ""]),
        ({}, [""]),
    ],
)
def test_which_programs_count_in_a_mean_of_memory(
    differences: dict[str, tuple[float, float, float]], lists: list[str]
) -> None:
    known = {name: more_than(*one) for name, one in differences.items()}
    assert that_count(known) == [words.split() for words in lists]


def test_a_value_at_an_end_is_not_left_out() -> None:
    assert leaves_out((0.8, 0.9), 1) and leaves_out((1.1, 1.2), 1)
    assert not any(leaves_out(interval, 1) for interval in ((0.9, 1), (1, 1.1), (0.9, 1.1)))


def test_intervals_that_touch_overlap() -> None:
    for one, other, expected in (
        ((1, 2), (2, 3), True),
        ((1, 4), (2, 3), True),
        ((1, 2), (2.1, 3), False),
    ):
        assert overlap(one, other) is expected and overlap(other, one) is expected


def test_below_and_reaching_below() -> None:
    assert lies_below((0.8, 0.9), 1) and not lies_below((0.8, 1), 1)
    assert reaches_below((0.8, 2), 1) and reaches_below((1, 2), 1)
    assert not reaches_below((1.1, 2), 1)


@pytest.mark.parametrize(
    "interval, expected",
    [
        ((1.2, 1.8), Standing.IN),
        ((1, 2), Standing.IN),  # the range's ends belong to it
        ((0.5, 0.9), Standing.OUT),
        ((2.1, 3), Standing.OUT),
        ((0.9, 1.1), Standing.OPEN),
        ((1.9, 2.1), Standing.OPEN),
        ((0.5, 3), Standing.OPEN),
        ((0.5, 1), Standing.OPEN),  # it touches the range
        ((2, 3), Standing.OPEN),
    ],
)
def test_a_figure_stands_to_a_range(interval: tuple[float, float], expected: Standing) -> None:
    assert standing(interval, (1, 2)) is expected


@pytest.mark.parametrize(
    "interval, expected",
    [
        ((1.5, 1.6), Standing.IN),
        ((1.3, 1.5), Standing.OPEN),
        ((1.1, 1.3), Standing.SHORT),  # there is some of it
        ((0.9, 1.1), Standing.SHORT_OR_OUT),  # perhaps nothing, yet it does not reach it
        ((0.7, 0.9), Standing.OUT),
    ],
)
def test_a_figure_may_be_short_of_a_range(
    interval: tuple[float, float], expected: Standing
) -> None:
    assert standing(interval, (1.4, float("inf")), effect=1.0) is expected
    low, high = (-end for end in interval[::-1])
    assert standing((low, high), (float("-inf"), -1.4), effect=-1.0) is expected


def test_a_range_may_have_no_end() -> None:
    assert standing((5, 1e9), (1, float("inf"))) is Standing.IN
    assert standing((0.5, 0.9), (1, float("inf"))) is Standing.OUT


def test_neither_order_nor_number_of_parts_decides() -> None:
    for count in range(1, 4):
        for standings in itertools.product(Standing, repeat=count):
            for quantifier in Quantifier:
                if quantifier is not Quantifier.MOST:
                    one = verdict(standings, quantifier)
                    assert one is verdict(sorted({*standings}), quantifier)
            backwards = verdict(standings[::-1], Quantifier.MOST)
            assert verdict(standings, Quantifier.MOST) is backwards


@pytest.mark.parametrize(
    "quantifier, standings, expected",
    [
        ("all", "", "not measured"),
        ("all", "missing missing", "not measured"),
        ("all", "in in", "holds"),
        ("all", "out", "does not hold"),
        ("all", "in out open", "does not hold"),  # one clear counterexample refutes it
        ("all", "out undefined", "does not hold"),
        ("all", "in missing", "not decided"),
        ("all", "open", "not decided"),
        ("all", "undefined missing", "not decided"),
        ("some", "in out missing", "holds"),  # one clear example proves it
        ("some", "out out", "does not hold"),
        ("some", "out open", "not decided"),
        ("most", "in in out", "holds"),
        ("most", "in out", "does not hold"),
        ("most", "in in out open", "not decided"),
        ("most", "in out out", "does not hold"),
        ("up to", "in short out", "holds"),
        ("up to", "short out", "in part"),
        ("up to", "out out", "does not hold"),
        ("up to", "short open", "not decided"),
        ("up to", "short short-or-out out", "in part"),
        ("up to", "short-or-out out", "not decided"),  # in part, or not at all
        ("up to", "short-or-out in", "holds"),
        ("average", "in", "holds"),
        ("count", "out", "does not hold"),
    ],
)
def test_outcomes_are_the_words_of_the_json(quantifier: str, standings: str, expected: str) -> None:
    found = verdict([Standing(word) for word in standings.split()], Quantifier(quantifier))
    assert found == expected and json.dumps(found) == f'"{expected}"' and f"{found}" == expected


def test_rounds_that_tell_are_those_with_an_interval() -> None:
    for rounds in range(1, 30):
        assert tells_chance(rounds) == (interval_rank(rounds).kind != RANGE)
    assert not tells_chance(LEAST_ROUNDS - 1) and tells_chance(LEAST_ROUNDS)
