# SPDX-License-Identifier: MIT
"""The table and CSV of `allotrope replay`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from ...output.terminal import print_table, print_wrapped, say
from ...output.units import format_bytes, format_seconds
from .advice import advice
from .measure import Document, notes

if TYPE_CHECKING:
    from rich.console import Console

COLUMNS = ["allocator", "heap_peak_bytes", "heap_to_live", "rss_growth_bytes"]
COLUMNS += ["cpu_seconds", "minor_faults", "failure"]


def rows(document: Document) -> Iterator[list[Any]]:
    yield COLUMNS
    for one in document["results"]:
        yield [one[column] for column in COLUMNS]


def print_results(document: Document, console: Console) -> None:
    most = f"{format_bytes(document['most_live_bytes'])} in {document['most_live_objects']:,}"
    print_wrapped(console, f"{document['objects']:,} objects, at most {most} live")
    table = [["allocator", "heap peak", "of live", "RSS growth", "CPU, s", "faults"]]
    for one in document["results"]:
        peak, ratio = one["heap_peak_bytes"], one["heap_to_live"]
        if one["failure"] is not None:
            table.append([one["allocator"], "failed", "", "", "", ""])
            continue
        table.append(
            [
                one["allocator"],
                _size(peak),
                "–" if ratio is None else f"{ratio:.2f}",
                _size(one["rss_growth_bytes"]),
                format_seconds(one["cpu_seconds"]),
                f"{one['minor_faults']:,}",
            ]
        )
    print_table(console, table, styles=[""] * len(document["results"]))
    if any(one["heap_peak_bytes"] is None for one in document["results"]):
        print_wrapped(console, "–: only allotrope's own allocators tell of their heap.")
    for line in notes(document):
        print_wrapped(console, line)
    say(console, advice(document))


def _size(count: int | None) -> str:
    return "–" if count is None else format_bytes(count)
