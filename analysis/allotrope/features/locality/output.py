# SPDX-License-Identifier: MIT
"""The tables and CSV of `allotrope locality`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from ...output.terminal import print_in_parts, print_wrapped, terminal
from ...output.units import format_whole_bytes
from .lines import line_table
from .process import describe_line
from .simulate import (
    MORE_OF_SHAPES,
    THREADED,
    Document,
    associativities,
    every_result_of,
    faults_with,
    filter_text,
    kind_of,
    misses_with,
    results_of,
    shape_table,
    tlb_entries,
    touches_of,
    window_table,
)
from .verdicts import sentences

if TYPE_CHECKING:
    from rich.console import Console


def page_tables(runs: list[Document]) -> Iterator[tuple[str, list[list[str]]]]:
    """Replacement faults: a row for each memory, a column for each allocator."""
    for number, first in enumerate(runs[0]["pages"]["pages"]):
        size = first["page_size"]
        parts = [run["pages"]["pages"][number] for run in runs]
        table = [["memory", *(run["allocator"] for run in runs)]]
        frames = 1
        while True:
            faults = [faults_with(part["curve"], frames) - part["cold"] for part in parts]
            table.append([format_whole_bytes(frames * size), *(f"{count:,}" for count in faults)])
            if not any(faults):
                break
            frames *= 2
        table.append(["first touches", *(f"{part['cold']:,}" for part in parts)])
        yield f"Replacement faults, pages of {format_whole_bytes(size)}", table


def cache_tables(runs: list[Document]) -> Iterator[tuple[str, list[list[str]]]]:
    """Misses at the smallest and the largest associativity simulated."""
    for block in (one["block"] for one in runs[0]["caches"]["blocks"]):
        for ways in associativities(runs[0]["caches"], block):
            columns = zip(*(results_of(run["caches"], block, ways) for run in runs))
            rows = ((format_whole_bytes(row[0]["bytes"]), _misses(row)) for row in columns)
            title = f"Misses, {kind_of(ways)}, blocks of {block} bytes"
            yield title, _miss_table("cache", runs, "caches", block, rows)


def tlb_tables(runs: list[Document]) -> Iterator[tuple[str, list[list[str]]]]:
    """Misses of fully associative TLBs, and of those of the largest associativity."""
    for page in (one["block"] for one in (runs[0]["tlb"]["blocks"] if "tlb" in runs[0] else [])):
        pages = f"pages of {format_whole_bytes(page)}"
        sizes = max((tlb_entries(run["tlb"], page) for run in runs), key=len)
        fully = (
            (f"{size:,}", [misses_with(run["tlb"], page, size) for run in runs]) for size in sizes
        )
        title = f"Misses of TLBs, fully associative, {pages}"
        yield title, _miss_table("entries", runs, "tlb", page, fully)
        ways = associativities(runs[0]["tlb"], page)[-1]
        most = max(len(results_of(run["tlb"], page, ways)) for run in runs)
        columns = zip(*(every_result_of(run["tlb"], page, ways)[:most] for run in runs))
        rows = ((f"{row[0]['sets'] * ways:,}", _misses(row)) for row in columns)
        title = f"Misses of TLBs, {kind_of(ways)}, {pages}"
        yield title, _miss_table("entries", runs, "tlb", page, rows)


def _misses(results: Iterable[Document]) -> list[int]:
    return [one["misses"] for one in results]


def _miss_table(
    first: str, runs: list[Document], kind: str, block: int, rows: Iterable[tuple[str, list[int]]]
) -> list[list[str]]:
    """A row for each size. Between allocators counts: the program's work is the same, but each
    makes references of its own, and a rate would praise who makes many. One alone also has it."""
    alone = len(runs) == 1
    table = [[first, *(run["allocator"] for run in runs), *["of touches"] * alone]]
    for size, misses in rows:
        cells = [f"{count:,}" for count in misses]
        if alone:
            cells.append(f"{misses[0] / touches_of(runs[0][kind], block):.4%}")
        table.append([size, *cells])
    return table


def shapes_table(runs: list[Document]) -> list[list[str]]:
    """A row for each shape and allocator; columns in which nothing is told are left out."""
    table: list[list[str]] = []
    header: list[str] = []
    classes = _missing_classes(runs)
    for name, document, shape in named_shapes(runs):
        blocks = document["blocks"] if len(runs) == 1 else []
        touches = {one["block"]: one["touches"] for one in blocks}
        header, row = shape_table([shape], touches)
        by_class = [f"{shape['misses_by_class'].get(one, 0):,}" for one in classes]
        table.append([name, *row[1:], *by_class])
    table.insert(0, [*header, *(f"by {one}" for one in classes)])
    told = [any(row[place] for row in table[1:]) for place in range(len(table[0]))]
    return [[cell for cell, kept in zip(row, told) if kept] for row in table]


def _missing_classes(runs: list[Document]) -> list[str]:
    """Whose references miss, where it is not one class alone."""
    parts = [shape["misses_by_class"] for run in runs for shape in run["caches"]["shapes"]]
    found = list(dict.fromkeys(name for part in parts for name in part))
    return found if len(found) > 1 else []


def say_more(
    console: Console, shapes: Iterable[tuple[str, Document, Document]], windows: bool
) -> None:
    """What is told of shapes besides their misses: a summary of their windows, where these were
    asked for, and where to find the rest."""
    if windows:
        print_in_parts(console, window_table(shapes), "Shapes over time: misses of a window")
    print_wrapped(console, MORE_OF_SHAPES)


def named_shapes(runs: list[Document]) -> Iterator[tuple[str, Document, Document]]:
    """Each shape under each allocator, with the document that it stands in."""
    for shapes in zip(*(run["caches"]["shapes"] for run in runs)):
        for run, shape in zip(runs, shapes):
            name = shape["shape"] if len(runs) == 1 else f"{shape['shape']}, {run['allocator']}"
            yield name, run["caches"], shape


def rows(runs: list[Document]) -> Iterator[list[Any]]:
    """Everything in one table: faults by frames, and misses by sets and ways."""
    yield ["allocator", "what", "unit", "sets", "ways", "faults_or_misses", "cold_or_write_backs"]
    of_cache = itemgetter("block", "sets", "ways", "misses", "write_backs")
    for run in runs:
        for page in run["pages"]["pages"]:
            for point in page["curve"]:
                found = [point["frames"], point["faults"], point["cold"]]
                yield [run["allocator"], "page faults", page["page_size"], 1, *found]
        for result in run["caches"]["results"]:
            yield [run["allocator"], "cache misses", *of_cache(result)]
        if "tlb" in run:
            for result in run["tlb"]["results"]:
                yield [run["allocator"], "TLB misses", *of_cache(result)]
            for whole in run["tlb"]["fully_associative"]:
                for point in whole["curve"]:
                    found = [point["blocks"], point["misses"], None]
                    yield [run["allocator"], "TLB misses", whole["block"], 1, *found]


def print_runs(runs: list[Document], windows: bool) -> None:
    """windows: whether misses over time were asked for."""
    console = terminal()
    for title, table in [*page_tables(runs), *cache_tables(runs), *tlb_tables(runs)]:
        print_in_parts(console, table, title)
    if shapes := list(named_shapes(runs)):
        print_in_parts(console, shapes_table(runs), "Shapes")
        say_more(console, shapes, windows)
    for run in runs:
        for shape in run["caches"]["shapes"]:
            if "misses_by_line" in shape:
                title = f"Lines that miss most: {shape['shape']}, {run['allocator']}"
                print_in_parts(console, line_table(shape), title)
    for run in runs:
        counts = run["pages"]
        whole, classes = counts["references"], counts["classes"]
        line = f"{run['allocator']}: {whole:,} references, exit status {run['status']}"
        shares = [f"{part['class']} {part['references'] / whole:.1%}" for part in classes]
        print_wrapped(console, f"{line}; {', '.join(shares)}")
    if only := filter_text(runs[0]["pages"]):
        print_wrapped(console, f"Of all references only these were simulated: {only}.")
    if any(run["pages"]["threaded"] for run in runs):
        print_wrapped(console, THREADED)
    for run in runs:
        print_wrapped(console, f"{describe_line(run)}.")
    for sentence in sentences(runs):
        print_wrapped(console, str(sentence))
