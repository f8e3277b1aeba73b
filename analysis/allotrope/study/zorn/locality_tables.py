# SPDX-License-Identifier: MIT
"""The tables of locality, which the paper has as figures or not at all: page faults, cache misses,
whose they are, and where in the cache."""

from dataclasses import replace
from typing import Any, Mapping, Sequence

from ...output.units import short_bytes
from ..sheets import ABSENT, UNDEFINED, Sheet, count_cell, number_cell, percent_cell
from . import cautions, paper
from .cache_sets import busiest_share, page_start_share
from .evidence import Pair
from .layouts import Lines, grid, record
from .pairs import (
    ALL_1992,
    BSD,
    FULL,
    GENERATIONAL,
    LOCALITY_PAIRS,
    TODAY,
    heading,
    label,
    measured,
)
from .plan import COLLECTORS
from .results import Results

# Whose misses in the paper's cache are looked into.
CACHED = [*ALL_1992, ("collected", COLLECTORS[1]), FULL, GENERATIONAL]
TODAYS_CACHES = ((32 << 10, 64, 8), (1 << 20, 64, 8), (32 << 20, 64, 8))


def faults_table(results: Results) -> Sheet:
    """What Figure 4 has no room for: all allocators, two memories and two page sizes."""
    names = [one.name for one in results.row("1992") if one.name not in results.missing]
    pairs, fixed = measured(results, LOCALITY_PAIRS), results.fixed_memory()
    memories = [one for one in dict.fromkeys((fixed, paper.MEMORY_1992)) if one is not None]
    rows, records = [], []
    for name in names:
        for page in (4096, 8192):
            at_page = f"{short_bytes(page)} pages"
            for memory in memories:
                faults = [results.replacement_faults(name, *one, memory, page) for one in pairs]
                base = results.replacement_faults(name, *BSD, memory, page)
                cells = [
                    _faults_over(one, base, results.failure(name, *pair))
                    for one, pair in zip(faults, pairs, strict=True)
                ]
                rows.append([f"{name}, {short_bytes(memory)}, {at_page}", *cells])
                where = {"memory_bytes": memory, "page_bytes": page}
                for pair, count in zip(pairs, faults, strict=True):
                    records.append(record(name, pair, **where, replacement_faults=count))
            curves = [results.page_curve(name, *pair, page) for pair in pairs]
            touched = [count_cell(one["cold"] if one else None) for one in curves]
            rows.append([f"{name}, first touches, {at_page}", *touched])
    return Sheet(
        "page-faults",
        "Page faults under all allocators",
        "Replacement faults (LRU), and in brackets their ratio to BSD's, undefined where BSD has "
        "none, at the memory of Figure 4 and at the paper's 2 MiB; first touches, which are in no "
        f"figure. {cautions.of_traced(results)}",
        records,
        ["program, memory", *map(label, pairs)] if pairs else [],
        rows,
        beyond=True,
    )


def _faults_over(faults: int | None, base: int | None, failure: str | None) -> str:
    if faults is None and failure:
        return "failed"
    text = count_cell(faults)
    if faults is None or base is None:
        return text
    return f"{text} ({number_cell(faults / base) if base else UNDEFINED})"


def misses_table(results: Results, pairs: Sequence[Pair], name: str, title: str) -> Sheet:
    """Counts and rates in the paper's cache."""

    def cell(program: str, pair: Pair) -> tuple[str, dict[str, Any]]:
        one = results.cache(program, *pair, paper.CACHE_1992)
        rate = results.miss_rate(program, *pair, paper.CACHE_1992)
        text = ABSENT if one is None else f"{percent_cell(rate)} ({count_cell(one['misses'])})"
        return text, {"miss_rate": rate, "misses": one and one["misses"]}

    sheet = grid(
        results,
        name,
        title,
        "Misses in 100 data references in a direct-mapped cache of 128 KiB with 32-byte blocks; in "
        f"brackets their number. {cautions.of_traced(results)}",
        pairs,
        cell,
        None,
        beyond=True,
    )
    return replace(sheet, header=["program", *map(label, measured(results, pairs))])


def shares_table(results: Results) -> Sheet:
    lines = Lines()
    for program in results.row("1992"):
        for pair in measured(results, list(dict.fromkeys([*ALL_1992, *TODAY]))):
            shares = results.class_shares(program.name, *pair)
            if shares is None:
                continue
            shape = results.shape(program.name, *pair)
            misses = shape["misses_by_class"] if shape else {}
            whole = sum(misses.values()) or 1
            missed = {one: count / whole for one, count in misses.items()}
            parts = (*_in_three(shares), *_in_three(missed))
            fields = {f"share_{one}": share for one, share in shares.items()}
            fields |= {f"share_of_misses_{one}": share for one, share in missed.items()}
            lines.add(program.name, pair, (percent_cell(part, 1) for part in parts), **fields)
    caption = "Whose the data references are, and whose the misses in the paper's cache."
    if not lines.rows:
        lines.rows = [["all", ABSENT, *[""] * 6]]
        caption += " Not measured in this run."
    header = ["references: program", "allocator", "collector"]
    header += ["misses: program", "allocator", "collector"]
    title = "The program's share, the allocator's and the collector's"
    return lines.sheet("attribution", title, caption, header)


def _in_three(shares: Mapping[str, float]) -> list[float]:
    """Program, allocator, and all that is a collector's."""
    others = (share for one, share in shares.items() if one not in ("program", "allocator"))
    return [shares.get("program", 0.0), shares.get("allocator", 0.0), sum(others)]


def causes_table(results: Results) -> Sheet:
    """Claim 9 asks for misses that are conflicts."""
    lines = Lines()
    size = paper.CACHE_1992
    for program in results.row("1992"):
        for pair in measured(results, CACHED):
            one = results.cache(program.name, *pair, size)
            references = results.references(program.name, *pair)
            if one is None or not references:
                continue
            parts = {key: one[key] / references for key in ("cold", "capacity", "conflict")}
            cells = [one["misses"] / references, *parts.values()]
            fields = {"cache_bytes": size, "misses": one["misses"], "references": references}
            fields |= {key: one[key] for key in parts}
            lines.add(program.name, pair, (percent_cell(cell, 3) for cell in cells), **fields)
    return lines.sheet(
        "causes",
        "Misses by cause in the paper's cache",
        "128 KiB, direct-mapped, 32-byte blocks; misses per data reference. A conflict is "
        "a miss that a fully associative cache of the size would not have: below zero "
        "where it would have more.",
        ["misses", "cold", "capacity", "conflict"],
    )


def sets_table(results: Results) -> Sheet:
    lines = Lines()
    for program in results.row("1992"):
        for pair in measured(results, CACHED):
            shape = results.shape(program.name, *pair)
            if shape is None:
                continue
            misses = shape["misses_by_set"]
            busy, start = busiest_share(misses), page_start_share(misses)
            cells = [percent_cell(busy, 1), percent_cell(start, 1)]
            lines.add(program.name, pair, cells, busiest_64th=busy, page_starts=start)
    return lines.sheet(
        "sets",
        "Misses per set in the paper's cache",
        "Of all misses, those in the busiest 64th of the sets (1.6% if all are alike), "
        "and those in sets where the first 64 bytes of a page go (1.6% as well).",
        ["in the busiest 64th", "at page starts"],
    )


def shapes_table(results: Results) -> Sheet:
    lines = Lines()
    for program in results.row("1992"):
        for pair in measured(results, list(dict.fromkeys([*ALL_1992, *TODAY]))):
            rates = [results.miss_rate(program.name, *pair, *shape) for shape in TODAYS_CACHES]
            if all(rate is None for rate in rates):
                continue
            lines.rows.append(
                [program.name, heading(pair), *(percent_cell(rate, 4) for rate in rates)]
            )
            for (size, block, ways), rate in zip(TODAYS_CACHES, rates):
                cache = {"cache_bytes": size, "block": block, "ways": ways, "miss_rate": rate}
                lines.records.append(record(program.name, pair, **cache))
    return lines.sheet(
        "caches-today",
        "Misses in caches of today",
        "Misses per data reference in 8-way LRU caches of 64-byte blocks, each alone.",
        ["32 KiB", "1 MiB", "32 MiB"],
    )
