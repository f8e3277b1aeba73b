# SPDX-License-Identifier: MIT
"""Tables 1 to 6 of the paper, today's figures beside its own, and tables that it has not."""

from dataclasses import replace
from functools import partial
from typing import Any, Callable, Iterable, Iterator, Mapping, Sequence

from ...output.units import short_bytes
from ..sheets import (
    ABSENT,
    UNDEFINED,
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
from .plan import (
    BASELINE,
    CLASSIC,
    COLLECTORS,
    DEFAULT,
    FACTOR_RUNS,
    FACTORS,
    LIBGC,
    MODERN,
    MOST_ROUNDS,
    PREDICTED,
    SIMULATED,
    VARIANTS,
)
from .printed import PRINTED
from .programs import Program
from .results import Results

EXPLICIT = [("optimised", spec) for spec in CLASSIC]
COLLECTED = ("collected", COLLECTORS[0])
ALL_1992 = [*EXPLICIT, COLLECTED]
# The collector of 1992 again, beside today's two.
TODAY = [
    *(("optimised", spec) for spec in DEFAULT + MODERN),
    *(("collected", spec) for spec in COLLECTORS),
]
# Ours, without generations and with them: the paper's prediction.
FULL, GENERATIONAL = (("collected", spec) for spec in PREDICTED)
BSD = ("optimised", "bsd:classic")
UNOPTIMISED_BSD = ("unoptimised", "bsd:classic")
Pair = tuple[str, str]
# The paper's three cases of locality, beside today's collectors; and all that was simulated.
LOCALITY_SHOWN = [
    BSD,
    UNOPTIMISED_BSD,
    COLLECTED,
    ("collected", "gc:free=ignore"),
    ("collected", LIBGC),
]
LOCALITY_PAIRS = [
    *EXPLICIT,
    UNOPTIMISED_BSD,
    *(("optimised", spec) for spec in SIMULATED),
    *(("collected", spec) for spec in COLLECTORS),
    FULL,
    GENERATIONAL,
]


def measured(results: Results, pairs: Sequence[Pair]) -> list[Pair]:
    """The configurations of which anything at all is known; a column of nothing is none."""
    known = {
        (name, key)
        for store in (results.accounts, results.locality, results.samples)
        for name, key in store
    }
    known |= {
        (name, key) for name, rounds in results.rounds.items() for each in rounds for key in each
    }
    return [
        pair
        for pair in pairs
        if any((one.name, results.key(one.name, *pair)) in known for one in results.programs)
    ]


def heading(pair: Pair) -> str:
    """The field's name of an algorithm of the paper, with options; of others their own."""
    preset, comma, options = pair[1].partition(",")
    return paper.ALGORITHMS.get(preset, preset) + comma.replace(",", ", ") + options


class Lines:
    """A table of programs and allocators as it grows: a row for people, a record for data."""

    def __init__(self) -> None:
        self.rows: list[list[str]] = []
        self.records: list[Record] = []

    def add(self, program: str, pair: Pair, cells: Iterable[str], **fields: Any) -> None:
        self.rows.append([program, heading(pair), *cells])
        self.records.append(record(program, pair, **fields))

    def sheet(self, name: str, title: str, caption: str, header: Sequence[str]) -> Sheet:
        """One that the paper has not."""
        header = ["program", "allocator", *header]
        return Sheet(name, title, caption, self.records, header, self.rows, 2, beyond=True)


def record(program: str, pair: Pair, **fields: Any) -> Record:
    return {"program": program, "form": pair[0], "allocator": pair[1], **fields}


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


def _grid(
    results: Results,
    name: str,
    title: str,
    caption: str,
    pairs: Sequence[Pair],
    cell: Callable[[str, Pair], tuple[str, dict[str, Any]]],
    printed: Mapping[str, Mapping[str, paper.Cell]] | None,
    row: str = "1992",
    beyond: bool = False,
) -> Sheet:
    """A row for each program, a column for each configuration; below it what the paper printed."""
    pairs = measured(results, pairs)
    header = ["program", *map(heading, pairs)]
    rows, records = [], []
    for program in results.row(row):
        cells = []
        for pair in pairs:
            text, fields = cell(program.name, pair)
            failure = results.failure(program.name, *pair)
            cells.append("failed" if text == ABSENT and failure else text)
            known = (printed or {}).get(program.name, {}).get(pair[1])
            if known:
                fields |= {"paper_value": known.ratio, "paper_absolute": known.absolute}
            records.append(record(program.name, pair, **fields, failure=failure))
        rows.append([program.name, *cells])
        if printed and program.name in printed:
            rows.append(_printed_row(printed[program.name], pairs))
    return Sheet(name, title, caption, records, header, rows, beyond=beyond)


def _printed_row(cells: Mapping[str, paper.Cell], pairs: Sequence[Pair]) -> list[str]:
    known = [cells.get(spec) for _, spec in pairs]
    texts = [f"{one.ratio:.2f} ({one.absolute:,g})" if one else "" for one in known]
    return ["  in 1992", *texts]


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
    return _grid(
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
    return _grid(
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
    sheet = _grid(
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
    return _grid(
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
    sheet = _grid(
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
    return _grid(
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
    return _grid(
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


# Whose misses in the paper's cache are looked into.
CACHED = [*ALL_1992, ("collected", COLLECTORS[1]), FULL, GENERATIONAL]


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


def busiest_share(misses: Sequence[int], parts: int = 64) -> float:
    """The share of misses in the busiest 1/`parts` of the sets; 1/`parts` if all are alike."""
    most = sorted(misses, reverse=True)[: max(1, len(misses) // parts)]
    return sum(most) / (sum(misses) or 1)


def page_start_share(misses: Sequence[int], block: int = 32, page: int = 4096) -> float:
    """The share of misses in the sets to which the first two blocks of a page go: where headers at
    the start of a page meet. 2 in page / block if all sets are alike."""
    return sum(misses_by_place(misses, block, page)[:2]) / (sum(misses) or 1)


def misses_by_place(misses: Sequence[int], block: int = 32, page: int = 4096) -> list[int]:
    """The misses by the place of a block in its page: all sets that serve the place together."""
    places = page // block
    return [sum(misses[place::places]) for place in range(places)]


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


TODAYS_CACHES = ((32 << 10, 64, 8), (1 << 20, 64, 8), (32 << 20, 64, 8))


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

    sheet = _grid(
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


def label(pair: Pair) -> str:
    """A heading that tells the two forms under an explicit allocator apart."""
    name = heading(pair)
    return f"{name}, unoptimised" if pair[0] == "unoptimised" else name
