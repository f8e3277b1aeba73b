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
    is_little,
    judge,
    leaves_out,
    lies_below,
    overlap,
    reaches_below,
    standing,
    tells_chance,
    that_count,
    verdict,
)


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
    for base in (1 << 20, 100 << 20):
        assert not is_little(base, base + NOTICEABLE_BYTES)
        assert is_little(base, base + NOTICEABLE_BYTES - 1)
        assert is_little(base + NOTICEABLE_BYTES - 1, base)


@pytest.mark.parametrize(
    "amounts, counts",
    [
        # MiB under the one and the other: small programs alone.
        ({"a": (1.5, 2.0), "b": (2.0, 2.9)}, []),
        ({"a": (1.5, 2.0), "same": (30.0, 30.1)}, []),  # the same alone says nothing of a
        ({"a": (1.5, 2.5), "b": (1.5, 2.0)}, ["a"]),  # a mebibyte to the byte
        # A small and a large one: the large one alone, whichever way the small one differs.
        ({"small": (2.0, 1.5), "large": (130.0, 100.0)}, ["large"]),
        ({"small": (1.5, 2.0), "large": (130.0, 100.0)}, ["large"]),
        # Who is the same is evidence, however large, and however many there are.
        ({"same": (100.0, 100.5), "tiny": (1.5, 1.5), "large": (9.0, 11.0)}, None),
        ({"same": (40.0, 40.8), "less": (40.0, 40.81), "large": (9.0, 11.0)}, ["same", "large"]),
        ({}, []),
    ],
)
def test_which_programs_count_in_a_mean_of_memory(
    amounts: dict[str, tuple[float, float]], counts: list[str] | None
) -> None:
    for turn in (1, -1):
        found = {name: (both[::turn][0], both[::turn][1]) for name, both in amounts.items()}
        in_bytes = {name: (a * 2**20, b * 2**20) for name, (a, b) in found.items()}
        assert that_count(in_bytes) == (list(amounts) if counts is None else counts)


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
        ((0.9, 1.1), Standing.OPEN),  # perhaps nothing
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
