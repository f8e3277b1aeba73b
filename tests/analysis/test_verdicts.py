# SPDX-License-Identifier: MIT
"""What an interval decides: a change between two, a place in a range, and a claim of several."""

import itertools
import json

import pytest
from allotrope.statistics.intervals import LEAST_ROUNDS, RANGE, Estimate, interval_rank
from allotrope.statistics.verdicts import (
    NOTICEABLE,
    Change,
    Standing,
    change,
    leaves_out,
    lies_below,
    overlap,
    reaches_below,
    standing,
    tells_chance,
    verdict,
)


@pytest.mark.parametrize(
    "ratio, expected",
    [
        (Estimate(0.9, 0.85, 0.95), Change.LESS),
        (Estimate(1.1, 1.05, 1.15), Change.MORE),
        # The interval reaches 1.
        (Estimate(0.9, 0.8, 1.0), Change.UNTOLD),
        (Estimate(1.1, 1.0, 1.2), Change.UNTOLD),
        # Told from 1, but hardly away from it.
        (Estimate(0.981, 0.98, 0.99), Change.UNTOLD),
        (Estimate(1.02, 1.01, 1.03), Change.UNTOLD),
        # Noticeable to the digit: 2% less, and its inverse.
        (Estimate(1 - NOTICEABLE, 0.97, 0.99), Change.LESS),
        (Estimate(1 / (1 - NOTICEABLE), 1.01, 1.03), Change.MORE),
        (Estimate(1, 1, 1), Change.UNTOLD),
    ],
)
def test_a_change_is_told_by_interval_and_size(ratio: Estimate, expected: Change) -> None:
    assert change(ratio) is expected


def test_the_inverse_ratio_has_the_inverse_outcome() -> None:
    inverse = {Change.LESS: Change.MORE, Change.MORE: Change.LESS, Change.UNTOLD: Change.UNTOLD}
    for percent in range(50, 200):
        ratio = Estimate(percent / 100, percent / 101, percent / 99)
        other = Estimate(100 / percent, 99 / percent, 101 / percent)
        assert change(other) is inverse[change(ratio)]


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


def test_a_range_may_have_no_end() -> None:
    assert standing((5, 1e9), (1, float("inf"))) is Standing.IN
    assert standing((0.5, 0.9), (1, float("inf"))) is Standing.OUT


def test_neither_order_nor_number_of_parts_decides() -> None:
    for count in range(1, 4):
        for standings in itertools.product(Standing, repeat=count):
            assert verdict(standings) is verdict(sorted({*standings}))


@pytest.mark.parametrize(
    "standings, expected",
    [
        ("", "not measured"),
        ("missing missing", "not measured"),
        ("in in", "holds"),
        ("out", "does not hold"),
        ("in out open", "in part"),
        ("in missing", "not decided"),
        ("out undefined", "not decided"),
        ("open", "not decided"),
        ("undefined missing", "not decided"),
    ],
)
def test_outcomes_are_the_words_of_the_json(standings: str, expected: str) -> None:
    found = verdict([Standing(word) for word in standings.split()])
    assert found == expected and json.dumps(found) == f'"{expected}"' and f"{found}" == expected


def test_rounds_that_tell_are_those_with_an_interval() -> None:
    for rounds in range(1, 30):
        assert tells_chance(rounds) == (interval_rank(rounds).kind != RANGE)
    assert not tells_chance(LEAST_ROUNDS - 1) and tells_chance(LEAST_ROUNDS)
