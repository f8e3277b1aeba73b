# SPDX-License-Identifier: MIT
"""Tables 1 to 6 of the paper, today's figures beside its own, and tables that it has not. Those of
locality are made in locality_tables.py."""

from dataclasses import replace
from functools import partial
from typing import Any, Iterator, Mapping, Sequence

from ..sheets import (
    ABSENT,
    Record,
    Sheet,
    bytes_cell,
    count_cell,
    estimate_fields,
    number_cell,
    percent_cell,
    ratio_cell,
    share_cell,
)
from . import cautions, paper
from .evidence import Pair
from .layouts import Lines, grid
from .locality_tables import (
    causes_table,
    faults_table,
    misses_table,
    sets_table,
    shapes_table,
    shares_table,
)
from .pairs import ALL_1992, EXPLICIT, LOCALITY_PAIRS, TODAY, heading, measured
from .plan import BASELINE, CLASSIC, COLLECTORS, FACTOR_RUNS, FACTORS, MODERN, MOST_ROUNDS, VARIANTS
from .printed import PRINTED
from .programs import Program
from .results import Results


def all_tables(results: Results) -> Iterator[Sheet]:
    yield programs_table(results)
    yield allocation_table(results)
    yield cpu_table(results, "table-3", ALL_1992, False)
    yield memory_table(results, "table-4", ALL_1992, False)
    yield domain_table(results, "table-5", "CPU time", results.ratio)
    yield domain_table(results, "table-6", "heap", None)


def further_tables(results: Results) -> Iterator[Sheet]:
    yield cpu_table(results, "cpu-today", TODAY, True)
    yield memory_table(results, "memory-today", TODAY, True)
    yield variants_table(results)
    yield unoptimised_table(results)
    yield resident_table(results, "resident", ALL_1992)
    yield resident_table(results, "resident-today", TODAY)
    yield waste_table(results)
    yield large_table(results)
    for quantity in ("cpu", "rss"):
        yield modern_programs_table(results, quantity, "-classic", ALL_1992)
        yield modern_programs_table(results, quantity, "", TODAY)
    yield faults_table(results)
    yield misses_table(results, LOCALITY_PAIRS, "misses", "Cache misses under all allocators")
    yield shares_table(results)
    yield causes_table(results)
    yield sets_table(results)
    yield shapes_table(results)
    yield collections_table(results)
    yield factors_table(results)


def programs_table(results: Results) -> Sheet:
    header = ["program", "what it does", "what it is"]
    kinds = {
        "1992": "of the study",
        "today": "of today: CPU and memory only",
        "switch": "for its own allocator's switch",
        "large": "of the study, with a heap of today's size: CPU and memory only",
    }
    rows = [
        [
            one.name,
            one.about or one.name,
            "; ".join(filter(None, [kinds[one.row], one.note, results.missing.get(one.name, "")])),
        ]
        for one in results.programs
    ]
    records = [
        {
            "program": one.name,
            "row": one.row,
            "about": one.about,
            "note": one.note,
            "missing": results.missing.get(one.name),
            "commands": {name: list(form.command) for name, form in one.forms.items()},
        }
        for one in results.programs
    ]
    title, caption = "Table 1: the programs", "What each does."
    return Sheet("table-1", title, caption, records, header, rows, text_columns=3, words=True)


def allocation_table(results: Results) -> Sheet:
    header = ["program", "blocks asked for, millions", "bytes asked for", "mean size"]
    header += ["most bytes live", "CPU seconds, optimised", "unoptimised"]
    header += ["of time in malloc and free", "in malloc alone", "in free alone"]
    rows, records = [], []
    pair = ("unoptimised", "cartesian:classic")
    for program in results.row("1992"):
        account = results.account(program.name, *pair)
        total = (account or {}).get("total") or {}
        blocks, size = total.get("blocks"), total.get("requested_bytes")
        most = account["peak"] if account else {}
        peak = most.get("most_requested_bytes") or most.get("requested_bytes")
        seconds = results.seconds(program.name, *pair)
        share = results.share_in_allocator(program.name, *pair)
        told = _instruction_shares(results, program.name)
        optimised = results.seconds(program.name, *BASELINE)
        rows.append(
            [
                program.name,
                number_cell(blocks / 1e6 if blocks is not None else None),
                bytes_cell(size),
                bytes_cell(size / blocks if size and blocks else None),
                bytes_cell(peak),
                number_cell(optimised.median if optimised else None),
                number_cell(seconds.median if seconds else None),
                share_cell(share),
                percent_cell(told["malloc"] if told else None, 1),
                percent_cell(told["free"] if told else None, 1),
            ]
        )
        printed = paper.TABLE_2.get(program.name)
        if printed:
            rows.append(_printed_allocation(printed))
        records.append(
            {
                "program": program.name,
                "blocks": blocks,
                "requested_bytes": size,
                "most_live_bytes": peak,
                "cpu_seconds": seconds and seconds.median,
                **{f"sampled_share_{key}": value for key, value in estimate_fields(share).items()},
                "optimised_cpu_seconds": optimised and optimised.median,
                "malloc_instruction_share": told and told["malloc"],
                "free_instruction_share": told and told["free"],
                "paper_blocks_millions": printed and printed.objects_millions,
                "paper_bytes_millions": printed and printed.bytes_millions,
                "paper_seconds": printed and printed.seconds,
                "paper_malloc_percent": printed and printed.malloc_percent,
                "paper_free_percent": printed and printed.free_percent,
            }
        )
    caption = (
        "Blocks, bytes and shares without their own allocators, under SunOS's; seconds in both "
        "forms. Today's shares: of CPU-clock samples; of malloc and of free with realloc, of "
        "instructions."
    )
    caption = cautions.with_cautions(caption, cautions.of_allocation(results))
    return Sheet("table-2", "Table 2: what the programs allocate", caption, records, header, rows)


def _instruction_shares(results: Results, name: str) -> dict[str, float] | None:
    """Of malloc and of free, with which realloc is counted as in the paper's column."""
    followed = results.followed(name)
    if followed is None:
        return None
    spent = followed["instructions"]
    freeing = spent["free"] + spent["realloc"]
    return {"malloc": spent["malloc"] / spent["all"], "free": freeing / spent["all"]}


def _printed_allocation(printed: paper.Allocation) -> list[str]:
    millions = f"{printed.objects_millions:g}"
    size = 1e6 * printed.bytes_millions
    mean = bytes_cell(printed.bytes_millions / printed.objects_millions)
    share = f"{printed.malloc_percent + printed.free_percent:.1f}%"
    parts = [f"{printed.malloc_percent:g}%", f"{printed.free_percent:g}%"]
    seconds = f"{printed.seconds:g}"
    return ["  in 1992", millions, bytes_cell(size), mean, "", seconds, "", share, *parts]


def cpu_table(results: Results, name: str, pairs: Sequence[Pair], beyond: bool) -> Sheet:
    def cell(program: str, pair: Pair) -> tuple[str, dict[str, Any]]:
        ratio, seconds = results.ratio(program, pair, BASELINE), results.seconds(program, *pair)
        fields = estimate_fields(ratio) | {"cpu_seconds": seconds and seconds.median}
        taken = f", {number_cell(seconds.median)} s" if ratio and seconds else ""
        return ratio_cell(ratio) + taken, fields

    title = "CPU time of today's allocators" if beyond else "Table 3 / Figure 1: CPU time"
    caption = (
        "User and system time as a ratio to SunOS's algorithm (cartesian:classic): median "
        "of the rounds' ratios with its interval, and median seconds (whose "
        "quotient differs: the processor's speed changes). In 1992: ratio and seconds."
    )
    return grid(
        results,
        name,
        title,
        cautions.with_cautions(caption, cautions.of_timed(results)),
        pairs,
        cell,
        None if beyond else paper.TABLE_3,
        beyond=beyond,
    )


def _heap_cell(results: Results, program: str, pair: Pair) -> tuple[str, dict[str, Any]]:
    ratio, peak = results.heap_ratio(program, pair, BASELINE), results.heap_peak(program, *pair)
    text = ABSENT if ratio is None else f"{number_cell(ratio)} ({bytes_cell(peak)})"
    return text, {"value": ratio, "heap_peak_bytes": peak}


def memory_table(results: Results, name: str, pairs: Sequence[Pair], beyond: bool) -> Sheet:
    if beyond:
        pairs = [
            pair
            for pair in pairs
            if any(results.heap_peak(one.name, *pair) for one in results.row("1992"))
        ]
    title = "Heap of today's allocators" if beyond else "Table 4 / Figure 2: heap"
    caption = (
        "The heap's high-water mark, the allocator's own data included, as a ratio to "
        "SunOS's algorithm. "
    )
    caption += (
        "Foreign allocators give no such account. gc:free=ignore collects when 8 MiB or more have "
        "been handed out (docs/gc.md), which is much beside small heaps."
        if beyond
        else "In 1992: ratio and kilobytes (cfrac's 2.45 is 2.455)."
    )
    return grid(
        results,
        name,
        title,
        cautions.with_cautions(caption, cautions.of_allocation(results)),
        pairs,
        partial(_heap_cell, results),
        None if beyond else paper.TABLE_4,
        beyond=beyond,
    )


def variants_table(results: Results) -> Sheet:
    """What cannot be dated, and today's alignment: see docs/classics.md."""
    pairs = [(form, spec) for form, spec in EXPLICIT if spec in (paper.SUNOS, paper.KNUTH)]
    pairs += [("optimised", spec) for spec in VARIANTS]

    known = [pair for pair in measured(results, pairs) if pair[1] in VARIANTS]
    sheet = grid(
        results,
        "variants",
        "Heap under other readings of the originals",
        "As Table 4. Whether the Knuth that was measured cut a free block from its start or from "
        "its end (cut=end) cannot be dated. align=8 aligns blocks to 8 bytes as in 1992; it is "
        "for programs that are known to need no more, and a program may fail under it.",
        pairs,
        partial(_heap_cell, results),
        None,
        beyond=True,
    )
    return sheet if known else replace(sheet, rows=[])


def large_table(results: Results) -> Sheet:
    """Programs of the study at a second scale, beside the paper's."""

    def cell(program: str, pair: Pair) -> tuple[str, dict[str, Any]]:
        ratio = results.ratio(program, pair, BASELINE)
        heap, resident = results.heap_peak(program, *pair), results.ratio(
            program, pair, BASELINE, "rss"
        )
        seconds = results.seconds(program, *pair)
        told = [f"{number_cell(seconds.median)} s"] if ratio and seconds else []
        told += [bytes_cell(heap)] if heap else []
        text = ratio_cell(ratio) + (f" ({', '.join(told)})" if told else "")
        fields = estimate_fields(ratio) | {"cpu_seconds": seconds and seconds.median}
        fields |= {"heap_peak_bytes": heap}
        return text, fields | {"rss_ratio": resident and resident.median}

    pairs = [*ALL_1992, *TODAY[: -len(COLLECTORS)]]
    pairs += [("collected", spec) for spec in COLLECTORS[1:]]
    return grid(
        results,
        "large",
        "Programs of the study with heaps of today's size",
        "The same programs as in Table 3, with 100 MB and more that was not freed. CPU time as a "
        f"ratio to SunOS's, of at most {MOST_ROUNDS['large']} rounds, so that least and greatest "
        "stand behind it; in brackets CPU seconds, and the heap's high-water mark.",
        pairs,
        cell,
        None,
        "large",
        beyond=True,
    )


def unoptimised_table(results: Results) -> Sheet:
    """The paper's advice, on today's allocators: is a program's own allocator worth it?"""
    base, names = ("optimised", "glibc"), results.tunable()

    def cell(program: str, pair: Pair) -> tuple[str, dict[str, Any]]:
        ratio = results.ratio(program, pair, base)
        return ratio_cell(ratio), estimate_fields(ratio)

    pairs = [("unoptimised", spec) for spec in MODERN]
    known = [pair for pair in pairs if any(results.ratio(name, pair, base) for name in names)]
    sheet = grid(
        results,
        "unoptimised-today",
        "Without its own allocator, under today's",
        "CPU time of the program without its own allocator as a ratio to the program with it under "
        "glibc's. Below 1 another malloc gains more than the program's own allocator does.",
        known,
        cell,
        None,
        beyond=True,
    )
    return replace(
        sheet,
        header=["program", *(spec for _, spec in known)],
        rows=[row for row in sheet.rows if row[0] in names] if known else [],
        records=[one for one in sheet.records if one["program"] in names],
    )


def resident_table(results: Results, name: str, pairs: Sequence[Pair]) -> Sheet:
    def cell(program: str, pair: Pair) -> tuple[str, dict[str, Any]]:
        ratio = results.ratio(program, pair, BASELINE, "rss")
        return ratio_cell(ratio), estimate_fields(ratio)

    whose = "today's allocators" if pairs is TODAY else "the paper's allocators"
    return grid(
        results,
        name,
        f"Peak resident memory of the whole process, {whose}",
        "As a ratio to SunOS's algorithm: the program's own pages are in it.",
        pairs,
        cell,
        None,
        beyond=True,
    )


def modern_programs_table(
    results: Results, quantity: str, suffix: str, pairs: Sequence[Pair]
) -> Sheet:
    def cell(program: str, pair: Pair) -> tuple[str, dict[str, Any]]:
        ratio = results.ratio(program, pair, ("optimised", "glibc"), quantity)
        return ratio_cell(ratio), estimate_fields(ratio)

    what = {"cpu": "CPU time", "rss": "peak resident memory"}[quantity]
    whose = "today's allocators" if pairs is TODAY else "the paper's allocators"
    ran = {
        key
        for one in results.row("today")
        for each in results.rounds.get(one.name, [])
        for key in each
    }
    others = [
        pair
        for pair in pairs
        if pair != ("optimised", "glibc")
        and any(results.key(one.name, *pair) in ran for one in results.row("today"))
    ]
    return grid(
        results,
        f"today-{quantity}{suffix}",
        f"Six programs of today: {what}, {whose}",
        "As a ratio to glibc's allocator.",
        others,
        cell,
        None,
        "today",
        beyond=True,
    )


WASTE = dict(header="headers", rounding="rounding", alignment="alignment", external="free room")


def waste_table(results: Results) -> Sheet:
    """Where the bytes of a heap are when the program asks for most."""
    lines = Lines()
    for program in results.row("1992"):
        for pair in measured(results, EXPLICIT):
            account = results.account(program.name, *pair)
            at_peak = account["peak"] if account else None
            if not at_peak or "waste" not in at_peak:
                continue
            parts = {"requested": at_peak["requested_bytes"]}
            parts |= {key: at_peak["waste"][key] for key in WASTE}
            sizes = {"heap": at_peak["mapped_bytes"], **parts}
            fields = {f"{key}_bytes": size for key, size in sizes.items()}
            lines.add(program.name, pair, map(bytes_cell, sizes.values()), **fields)
    return lines.sheet(
        "waste",
        "Where the heap's bytes are",
        "From the allocators' statistics, when the program has asked for most: what it "
        "asked for, headers of blocks, rounding of sizes, alignment, and room that is "
        "free or the allocator's. Of a collector's heap what was dropped and not yet "
        "found cannot be told.",
        ["heap", "asked for", *WASTE.values()],
    )


def _printed_time(name: str, one: Pair, base: Pair) -> float | None:
    found = PRINTED.ratio(name, one, base)
    return None if found is None else found.median


def _domain_cell(
    results: Results, program: Program, spec: str, ratio: Any
) -> tuple[str, dict[str, Any]]:
    """Without the program's own allocator over with it."""
    one, base = ("unoptimised", spec), ("optimised", spec)
    if "unoptimised" not in program.forms:
        return ABSENT, estimate_fields(None)
    if ratio is not None:
        found = ratio(program.name, one, base)
        return ratio_cell(found), estimate_fields(found)
    if program.row != "1992":
        # Their own allocators map pools that no account of a heap has.
        found = results.ratio(program.name, one, base, "rss")
        text = ratio_cell(found) + (" resident" if found else "")
        return text, estimate_fields(found) | {"quantity": "rss"}
    value = results.heap_ratio(program.name, one, base)
    return number_cell(value), {"value": value, "low": value, "high": value}


def domain_table(results: Results, name: str, what: str, ratio: Any) -> Sheet:
    """Tables 5 and 6: what a program's own allocator gains over malloc alone."""
    specs = [*CLASSIC, "glibc"] if ratio is not None else CLASSIC  # glibc has no account
    having = [
        one
        for one in results.programs
        if one.row != "large" and "unoptimised" in one.forms or one.name in paper.OWN_ALLOCATOR
    ]
    pairs = measured(results, [("unoptimised", spec) for spec in specs])
    header = ["program", *(heading(pair) for pair in pairs)]
    of_paper = PRINTED.heap_ratio if ratio is None else _printed_time

    def printed(program: str, spec: str) -> float | None:
        """As today's figure: without over with, of two cells of the paper's table."""
        if program not in paper.OWN_ALLOCATOR:
            return None
        return of_paper(program, ("unoptimised", spec), ("optimised", spec))

    rows, records = [], []
    for program in having:
        cells = []
        for _, spec in pairs:
            text, fields = _domain_cell(results, program, spec, ratio)
            cells.append(text)
            fields["paper_value"] = printed(program.name, spec)
            records.append({"program": program.name, "allocator": spec, **fields})
        rows.append([program.name, *cells])
        if program.name in paper.OWN_ALLOCATOR:
            told = [printed(program.name, spec) for _, spec in pairs]
            rows.append(["  in 1992", *("" if one is None else f"{one:.2f}" for one in told)])
    number = "5 / Figure 3" if name == "table-5" else "6"  # the paper draws no picture of Table 6
    return Sheet(
        name,
        f"Table {number}: domain-specific allocators, {what}",
        f"{what[0].upper()}{what[1:]} without the program's own allocator over that with "
        "it: above 1 the program's own gains. In 1992: quotients of the paper's figures."
        + (
            " Of python3, php and the like it is peak resident memory: their own allocators "
            "map pools beside the heap."
            if ratio is None
            else ""
        ),
        records,
        header,
        rows,
    )


def collections_table(results: Results) -> Sheet:
    """What collections cost in time, how long the program stands, and what they read."""
    lines = Lines()
    rows = ("1992", "large", "today")
    for program in (one for row in rows for one in results.row(row)):
        for pair in [("collected", spec) for spec in COLLECTORS]:
            account = results.account(program.name, *pair)
            found = account and account.get("gc")
            if not account or not found:
                continue
            cells, fields = _collections(account, found)
            lines.add(program.name, pair, cells, **fields)
    return lines.sheet(
        "collections",
        "Collections and their pauses",
        "From the collectors' own statistics, all of one run that keeps account of each block, so "
        "that it takes longer than those of Table 3. CPU seconds are the process's own. A pause is "
        "by the clock, which "
        "runs on while the machine does other work. Roots are stacks, registers and static data, "
        "which each collection reads; libgc does not tell how much that is, and its collections "
        "sweep outside the pause. Incremental libgc protects pages, which gawk's own handling of "
        "SIGSEGV does not survive.",
        [
            "collections",
            "CPU seconds in them",
            "CPU seconds of the run",
            "mean pause, ms",
            "longest pause, ms",
            "roots a collection",
        ],
    )


def _collections(account: Mapping[str, Any], found: Record) -> tuple[list[str], dict[str, Any]]:
    count = found.get("collections")
    pauses, pause = found.get("pauses", count), found.get("pause_ns")
    spent = found.get("cpu_ns", pause)
    roots, longest = found.get("root_bytes"), found.get("longest_pause_ns")
    fields = {
        "collections": count,
        "cpu_seconds_in_collections": spent / 1e9 if spent is not None else None,
        "cpu_seconds": account.get("cpu"),
        "mean_pause_ms": pause / pauses / 1e6 if pause is not None and pauses else None,
        "longest_pause_ms": longest / 1e6 if longest is not None else None,
        "root_bytes_a_collection": roots / count if roots and count else None,
    }
    *numbers, each = fields.values()
    return [count_cell(numbers[0]), *map(number_cell, numbers[1:]), bytes_cell(each)], fields


def factors_table(results: Results) -> Sheet:
    """Time against the heap that a collector begins with."""
    lines = Lines()
    for program in results.row("1992"):
        for pair in [("collected", spec) for spec in COLLECTORS]:
            found = results.heaps(program.name, *pair)
            if not found:
                continue
            # The same of those that failed: the row keeps its columns.
            last = next((one["cpu"] for one in reversed(found) if "cpu" in one), None)
            cells = [_factor_cell(one, last) for one in found]
            lines.add(program.name, pair, cells, heaps=found)
    header = [f"{factor:g}×" for factor in FACTORS]
    return lines.sheet(
        "heap-factor",
        "Time against heap",
        "The smaller load. The collector begins with a heap of so many times what the program has "
        f"alive at most under malloc and free. CPU time (median of {FACTOR_RUNS} runs, without "
        "interval) as a ratio to that with the largest heap; "
        "in brackets collections, and the heap that it came to: a collector that reclaims too "
        "little lets it grow.",
        header,
    )


def _factor_cell(one: Mapping[str, Any], last: float | None) -> str:
    if "failure" in one:
        return "failed"
    ratio = number_cell(one["cpu"] / last if last else None)
    return f"{ratio} ({count_cell(one['collections'])}, {bytes_cell(one['heap_bytes'])})"
