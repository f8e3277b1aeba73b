# SPDX-License-Identifier: MIT
"""The tables and CSV of `allotrope locality`."""

from collections.abc import Iterator
from operator import itemgetter
from typing import Any

from ...output.terminal import print_in_parts, print_wrapped, terminal
from ...output.units import format_whole_bytes
from .lines import line_table
from .simulate import (
    THREADED,
    Document,
    faults_with,
    filter_text,
    kind_of,
    misses_with,
    results_of,
    tlb_entries,
)


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
    """Miss rates at the smallest and the largest associativity simulated."""
    for number, first in enumerate(runs[0]["caches"]["blocks"]):
        block = first["block"]
        results = [r for r in runs[0]["caches"]["results"] if r["block"] == block]
        for ways in sorted({results[0]["ways"], results[-1]["ways"]}):
            table = [["cache", *(run["allocator"] for run in runs)]]
            for sets in sorted({result["sets"] for result in results}):
                rates = [miss_rate(run, number, block, sets, ways) for run in runs]
                table.append(
                    [format_whole_bytes(block * sets * ways), *(f"{rate:.4%}" for rate in rates)]
                )
            yield f"Miss rate, {kind_of(ways)}, blocks of {block} bytes", table


def tlb_tables(runs: list[Document]) -> Iterator[tuple[str, list[list[str]]]]:
    """Miss rates of fully associative TLBs, and of those of the largest associativity."""
    for number, first in enumerate(runs[0]["tlb"]["blocks"] if "tlb" in runs[0] else []):
        page = first["block"]
        touches = [run["tlb"]["blocks"][number]["touches"] for run in runs]
        pages = f"pages of {format_whole_bytes(page)}"
        table = [["entries", *(run["allocator"] for run in runs)]]
        for entries in max((tlb_entries(run["tlb"], page) for run in runs), key=len):
            misses = [misses_with(run["tlb"], page, entries) for run in runs]
            table.append([f"{entries:,}", *(f"{m / t:.4%}" for m, t in zip(misses, touches))])
        yield f"Miss rate of TLBs, fully associative, {pages}", table
        ways = max(one["ways"] for one in runs[0]["tlb"]["results"] if one["block"] == page)
        table = [table[0]]
        for results in zip(*(results_of(run["tlb"], page, ways) for run in runs)):
            rates = [one["misses"] / t for one, t in zip(results, touches)]
            table.append([f"{results[0]['sets'] * ways:,}", *(f"{rate:.4%}" for rate in rates)])
        yield f"Miss rate of TLBs, {kind_of(ways)}, {pages}", table


def miss_rate(run: Document, number: int, block: int, sets: int, ways: int) -> float:
    wanted = (block, sets, ways)
    misses: int = next(
        result["misses"]
        for result in run["caches"]["results"]
        if (result["block"], result["sets"], result["ways"]) == wanted
    )
    touches: int = run["caches"]["blocks"][number]["touches"]
    return misses / touches


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


def print_runs(runs: list[Document]) -> None:
    console = terminal()
    for title, table in [*page_tables(runs), *cache_tables(runs), *tlb_tables(runs)]:
        print_in_parts(console, table, title)
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
