# SPDX-License-Identifier: MIT
"""The tables and CSV of `allotrope lifetimes`."""

from __future__ import annotations

from collections.abc import Iterator
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from rich.cells import cell_len

from ...output.terminal import GAP, print_in_parts, print_line, print_table, print_wrapped
from ...output.text import wrap
from ...output.units import format_bytes, in_unit
from ..sites.output import SHOWN_CALLERS

if TYPE_CHECKING:
    from rich.console import Console

# A site in fewer columns than these stands above its figures, not beside them.
LEAST_SITE = 24
GROUP_COLUMNS = ["objects", "bytes", "median life", "never freed"]

Document = dict[str, Any]


# By decimal steps.
CLOCK_UNITS = {
    "nanoseconds": ("ns", "µs", "ms", "s"),
    "bytes": ("B", "kB", "MB", "GB"),
    "instructions": ("", "k", "M", "G"),
}


def clock_text(clock: str, value: float) -> str:
    """An age or a moment, with its unit."""
    units = CLOCK_UNITS[clock]
    number, unit = in_unit(value, 1000, units)
    return f"{number:.0f} {unit}".strip() if unit == units[0] else f"{number:.3g} {unit}"


CLOCK_TITLES = {"bytes": "bytes allocated meanwhile", "nanoseconds": "time"}


def title_of(clock: str) -> str:
    return CLOCK_TITLES.get(clock, clock)


def rows(found: Document) -> Iterator[list[Any]]:
    """Everything in one table: `key` is an age, a size, a site or a moment."""
    yield ["what", "clock_or_weight", "key", "objects", "bytes", "never_freed", "share"]
    for curve in found["survival"]:
        for point in curve["points"]:
            what = f"survival of {curve['weight']}"
            yield [what, curve["clock"], point["age"], *[""] * 3, point["share"]]
    counts = itemgetter("objects", "bytes", "never_freed")
    for row in found["sizes"]:
        yield ["size up to", "bytes", row["to"], *counts(row), ""]
    for row in found["sites"]:
        yield ["site", f"{row['site']:#x}", stack_text(row), *counts(row), ""]
    in_part = itemgetter("until", "allocated", "allocated_bytes", "live")
    for row in found["rates"]:
        yield ["allocated until", found["clock"], *in_part(row), ""]


def survival_tables(found: Document) -> Iterator[tuple[str, list[list[str]]]]:
    """For each clock a title and a row for each power of ten of age."""
    for first, second in zip(found["survival"][::2], found["survival"][1::2]):
        clock = first["clock"]
        table = [["age", "objects", "bytes"]]
        for objects, of_bytes in zip(first["at"], second["at"]):
            shares = [f"{share:.3%}" for share in (objects["share"], of_bytes["share"])]
            table.append([clock_text(clock, objects["age"]), *shares])
        table.append(["never freed", f"{first['never_freed']:.3%}", f"{second['never_freed']:.3%}"])
        yield f"Share that outlives, by {title_of(clock)}", table


def group_cells(row: Document) -> list[str]:
    median = row["median_age_bytes"]
    return [
        f"{row['objects']:,}",
        format_bytes(row["bytes"]),
        "never" if median is None else format_bytes(median),
        f"{row['never_freed']:,}",
    ]


def size_table(found: Document) -> list[list[str]]:
    rows = [[format_bytes(row["to"]), *group_cells(row)] for row in found["sizes"]]
    return [["up to", *GROUP_COLUMNS], *rows]


def stack_text(row: Document, most: int | None = None) -> str:
    """A site and who called it, outwards."""
    return " ← ".join([row["name"], *row["callers"][:most]])


def site_table(shown: list[Document], width: int) -> list[list[str]]:
    """A site that is longer than what its figures leave of the width goes on in rows below."""
    figures = [GROUP_COLUMNS, *map(group_cells, shown)]
    room = width - sum(len(GAP) + max(map(cell_len, column)) for column in zip(*figures))
    table = [["site", *GROUP_COLUMNS]]
    for row, cells in zip(shown, figures[1:]):
        text = stack_text(row, SHOWN_CALLERS)
        first, *others = wrap(text, room, GAP) if room >= LEAST_SITE else [text]
        table += [[first, *cells], *([line, *[""] * len(cells)] for line in others)]
    return table


def summary(found: Document) -> list[str]:
    length = clock_text(found["clock"], found["length"])
    unit = "" if found["clock"] == "nanoseconds" else f" {found['clock']}"
    lines = [
        f"{found['objects']:,} objects of {format_bytes(found['bytes'])} in {length}{unit}; "
        f"at most {format_bytes(found['most_live_bytes'])} in "
        f"{found['most_live_objects']:,} live; {found['resizes']:,} resizes.",
        "A median life is what the program allocated meanwhile.",
    ]
    if found["threads"] > 1:
        share = found["freed_by_another_thread"] / max(found["objects"], 1)
        lines.append(
            f"{found['threads']} threads; {share:.2%} of the objects were freed by "
            "another thread than allocated them."
        )
    return lines


def print_tables(found: Document, site_count: int, console: Console) -> None:
    if not found["objects"]:
        print_wrapped(console, "No object was allocated in what there is of the recording.")
        return
    for title, table in survival_tables(found):
        print_in_parts(console, table, title)
    print_in_parts(console, size_table(found), "By size")
    shown = found["sites"][:site_count]
    title = f"By site, most bytes first: {len(shown)} of {len(found['sites'])}"
    sites = site_table(shown, console.width)
    print_line(console, title, "bold")
    print_table(console, sites, styles=[""] * (len(sites) - 1))
    print_line(console, "")
    for line in summary(found):
        print_wrapped(console, line)
