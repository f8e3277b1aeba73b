# SPDX-License-Identifier: MIT
"""The paper's numbers: against each other, and against what check_paper.py found in its text."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from allotrope.study.zorn import paper
from check_paper import digest, numbers_in

# Of the 220 numbers that check_paper.py found in the paper's text (2026-11-22).
DIGEST = "a1689d94edd38d4e0b1b9c6541dd29ab"


def test_the_numbers_are_those_that_a_program_found_in_the_text() -> None:
    assert len(paper.numbers()) == 220
    assert digest(paper.numbers()) == DIGEST
    changed = [*paper.numbers()[:-1], 1.13]
    assert digest(changed) != DIGEST


def test_the_numbers_are_those_of_the_text_at_hand() -> None:
    text = os.environ.get("ALLOTROPE_ZORN_PAPER")
    if text is None:
        pytest.skip("ALLOTROPE_ZORN_PAPER names no text of the paper; the digest was compared")
    assert numbers_in(Path(text).read_text(encoding="utf-8")) == paper.numbers()


def cells() -> list[tuple[str, str, float, float, float, float, float]]:
    """Table, program, ratio, absolute and SunOS's absolute, half a unit of both."""
    return [
        (number, name, cell.ratio, cell.absolute, row[paper.SUNOS].absolute, half, 0.005)
        for number, table, half in (("3", paper.TABLE_3, 0.05), ("4", paper.TABLE_4, 0.5))
        for name, row in table.items()
        for cell in row.values()
    ]


def test_ratios_are_those_of_the_absolute_figures_as_far_as_they_are_printed() -> None:
    assert len(cells()) == 60
    for number, name, ratio, absolute, base, half, half_ratio in cells():
        low = (absolute - half) / (base + half) - half_ratio
        high = (absolute + half) / (base - half) + half_ratio
        assert low <= ratio <= high, f"Table {number}, {name}: {absolute}/{base} is not {ratio}"


def test_tables_repeat_each_others_figures() -> None:
    for name, row in paper.TABLE_2.items():
        assert round(paper.TABLE_3[name][paper.SUNOS].absolute) == pytest.approx(row.seconds, abs=1)
    for rows, table in ((paper.TABLE_5, paper.TABLE_3), (paper.TABLE_6, paper.TABLE_4)):
        for (form, spec), line in rows.items():
            for name, ratio in line.items():
                if form == "optimised":
                    assert table[name][spec].ratio == ratio


def test_the_tables_are_whole() -> None:
    assert set(paper.TABLE_2) == set(paper.TABLE_3) == set(paper.TABLE_4) == set(paper.PROGRAMS)
    columns = set(paper.ALGORITHMS)
    for table in (paper.TABLE_3, paper.TABLE_4):
        assert all(set(row) == columns for row in table.values())
    for rows in (paper.TABLE_5, paper.TABLE_6):
        assert len(rows) == 8 and all(tuple(row) == paper.OWN_ALLOCATOR for row in rows.values())


def test_what_was_wrong_once() -> None:
    ghostscript = paper.TABLE_5["unoptimised", paper.BSD]["ghostscript"]
    assert ghostscript / paper.TABLE_5["optimised", paper.BSD]["ghostscript"] == pytest.approx(
        0.66, abs=0.005
    )
    assert "espresso" not in paper.OWN_ALLOCATOR
    yacr = paper.TABLE_4["yacr"]
    best = min(cell.absolute for spec, cell in yacr.items() if spec != paper.COLLECTOR)
    assert yacr[paper.COLLECTOR].ratio == 0.79  # to SunOS's
    assert yacr[paper.COLLECTOR].absolute / best == pytest.approx(0.80, abs=0.005)
    assert paper.GHOSTSCRIPT_MISS_RATE == 0.259  # misses per reference, no ratio


@pytest.mark.parametrize(
    "wanted, figure, agrees, beyond",
    [
        (paper.MALLOC_SHARE, 0.387, True, False),  # gawk in Table 2: cut, not rounded
        (paper.MALLOC_SHARE, 0.39, True, True),
        (paper.MALLOC_SHARE, 0.225, True, False),
        (paper.MALLOC_SHARE, 0.22, False, False),
        (paper.COLLECTOR_CPU, 0.5, True, True),
        (paper.COLLECTOR_CPU, 1.28, False, False),
        (paper.COLLECTOR_MEMORY, 3.0, True, True),
        (paper.COLLECTOR_MEMORY, 1.2, False, False),
        (paper.Range(3, 3), 3, True, False),
    ],
)
def test_a_printed_range_has_a_direction_and_the_width_of_its_last_digit(
    wanted: paper.Range, figure: float, agrees: bool, beyond: bool
) -> None:
    low, high = wanted.accepted
    assert (low <= figure <= high) == agrees
    assert wanted.goes_beyond(figure, figure) == beyond
