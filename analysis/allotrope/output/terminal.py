# SPDX-License-Identifier: MIT
"""Text on a terminal of any width: figures are never cut, and what is left out is named."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Sequence

from rich.cells import cell_len

from .sentences import Sentence
from .text import one_line, width_of, wrap

if TYPE_CHECKING:
    from rich.console import Console

GAP = "  "
UNLIMITED = 1 << 20

Rows = Sequence[Sequence[str]]


def terminal(stderr: bool = False) -> Console:
    from rich.console import Console  # here, for most words and questions print no table

    class OurConsole(Console):
        def on_broken_pipe(self) -> None:
            """rich would end us with status 1; cli.main() knows how a reader's going ends us."""
            raise  # the BrokenPipeError, in whose handler rich calls this

    return OurConsole(stderr=stderr, width=width_of(2 if stderr else 1))


def table_width(console: Console) -> int:
    """What is no terminal has no right edge: there a row is a line, whole, for other programs and
    for logs. COLUMNS may give it one."""
    if console.is_terminal or os.environ.get("COLUMNS"):
        return console.width
    return UNLIMITED


def print_line(console: Console, line: str, style: str = "") -> None:
    """As it is, neither wrapped nor cut; but what a program says or is called may have anything in
    it that a terminal obeys."""
    from rich.text import Text

    console.print(Text(one_line(line), style), soft_wrap=True)


def say(console: Console, sentences: Sequence[Sentence]) -> None:
    for sentence in sentences:
        print_wrapped(console, str(sentence))


def print_wrapped(console: Console, text: str) -> None:
    for line in wrap(text, console.width):
        print_line(console, line)


def _widths(rows: Rows) -> list[int]:
    return [max(map(cell_len, column)) for column in zip(*rows)]


def _total(widths: Sequence[int]) -> int:
    return sum(widths) + len(GAP) * (len(widths) - 1)


def columns_that_fit(rows: Rows, width: int, least_wanted: Sequence[int]) -> list[int]:
    """The columns to show: all but the first few of `least_wanted` (indexes), as few of them as
    it takes. All where that does not help, for they go below each other then."""
    widths = _widths(rows)
    kept = list(range(len(widths)))
    for column in least_wanted:
        if _total([widths[one] for one in kept]) <= width:
            break
        kept.remove(column)
    fits = _total([widths[one] for one in kept]) <= width
    return kept if fits else list(range(len(widths)))


def lay_out(rows: Rows, width: int, left: Sequence[int] = (0,)) -> list[list[str]]:
    """The lines of each row. Columns stand below each other, set right but for those in `left`;
    where they do not fit, each row becomes a paragraph with a line for every cell."""
    widths = _widths(rows)
    if _total(widths) <= width:
        return [[_line(row, widths, left)] for row in rows]
    titles = rows[0]
    label = max(map(cell_len, titles[1:]))
    paragraphs: list[list[str]] = [[]]  # the titles stand in front of each cell
    for row in rows[1:]:
        cells = zip(titles[1:], row[1:])
        paragraphs.append([row[0], *(f"{GAP}{title:<{label}}{GAP}{cell}" for title, cell in cells)])
    return paragraphs


def _line(row: Sequence[str], widths: Sequence[int], left: Sequence[int]) -> str:
    cells = []
    for place, (cell, width) in enumerate(zip(row, widths)):
        space = " " * (width - cell_len(cell))
        cells.append(cell + space if place in left else space + cell)
    return GAP.join(cells).rstrip()


def print_table(
    console: Console, rows: Rows, *, left: Sequence[int] = (0,), styles: Sequence[str] = ()
) -> None:
    """styles: of the rows behind the header."""
    for lines, style in zip(
        lay_out(rows, table_width(console), left), ["bold", *styles] or ["bold"]
    ):
        for line in lines:
            print_line(console, line, style)


def print_in_parts(console: Console, rows: Rows, title: str) -> None:
    """A table of many columns as several, below each other, each with the first column."""
    from rich.text import Text

    console.print(Text(title, "bold"))
    widths = _widths(rows)
    width = table_width(console)
    first = 1
    while first < len(widths):
        last = first + 1
        while last < len(widths) and _total([widths[0], *widths[first : last + 1]]) <= width:
            last += 1
        part = [[row[0], *row[first:last]] for row in rows]
        print_table(console, part, styles=[""] * (len(rows) - 1))
        first = last
    print_line(console, "")
