# SPDX-License-Identifier: MIT
"""tests/stress/soak.py: which leaks of a server that runs for long are growth."""

from soak import growing_places


def looks(*counts: int) -> list[dict[str, tuple[int, int]]]:
    return [{"place": (count, 10 * count), "steady": (7, 70)} for count in counts]


def test_a_place_that_leaks_more_at_each_look_of_the_second_half_grows() -> None:
    assert growing_places(looks(5, 5, 5, 5, 6, 7, 8, 9)) == ["place"]
    assert growing_places([*looks(5, 5, 5, 5), {}, *looks(1, 2, 3)]) == ["place"]


def test_what_stays_or_falls_once_does_not_grow() -> None:
    assert growing_places(looks(1, 2, 3, 4, 5, 6, 7, 7)) == []
    assert growing_places(looks(1, 2, 3, 4, 5, 4, 6, 7)) == []


def test_a_cache_that_is_filled_in_the_first_half_does_not_grow() -> None:
    assert growing_places(looks(1, 20, 300, 4000, 4000, 4000, 4000, 4000)) == []


def test_of_few_looks_nothing_is_said() -> None:
    assert growing_places([]) == []
    assert growing_places(looks(1, 2, 3, 4, 5, 6)) == []
