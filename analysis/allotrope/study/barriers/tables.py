# SPDX-License-Identifier: MIT
"""Tables 1 to 3 of the paper, its cells above today's; Figures 2 and 3 with today's figures; and
tables that the paper has not."""

from typing import Any, Iterator, Sequence

from ...output.units import format_bytes
from ...statistics.intervals import LEAST_ROUNDS, Estimate
from ...statistics.verdicts import Verdict
from ..claims import Claim
from ..pictures import canvas, svg_of
from ..sheets import ABSENT, Record, Sheet, count_cell, estimate_fields, number_cell, ratio_cell
from . import paper
from .evidence import Evidence, Series, by_round, estimate_of, ratios
from .printed import PRINTED
from .plan import BARRIERS, CHECK, KERNEL, KINDS, LOOPS, PAGES, REMSETS, Workload
from .results import CHECK_KIND, Measured, Results
from .rules import RULES, claim_number, indication_of, verdict_of

PHASES = (*paper.PHASES, paper.TOTAL)
# The paper's schemes and two of today, cards by size.
SHOWN = (*paper.SCHEMES[:4], "cards-512", *paper.SCHEMES[4:], KERNEL)
ROW_THEN, ROW_NOW = "1993", "today"
PHASE_COLOURS = dict(zip(paper.PHASES, ("#b9b6ac", "#0b62b8", "#b8470b", "#0d7a4f")))


def all_tables(results: Results) -> Iterator[Sheet]:
    yield break_even_table(results)
    for number, benchmark in enumerate(paper.BENCHMARKS, 2):
        one = results.of_benchmark(benchmark)
        if one.rounds():
            yield phases_table(one, f"table-{number}", f"Table {number}. ", SHOWN)


def further_tables(results: Results) -> Iterator[Sheet]:
    yield matrix(results)
    yield totals_table(results)
    yield store_table(results)
    for workload in results.workloads():
        one = results.of(workload)
        if workload.paper is None:
            yield phases_table(one, f"phases-{workload.name}", "", SHOWN)
    for workload in results.workloads():
        rest = [one for one in BARRIERS if one in results.barriers and one not in SHOWN]
        name = f"further-{workload.name}"
        yield phases_table(results.of(workload), name, "The other schemes: ", rest)
    yield counts_table(results)


# Table 1


Cell = Estimate | float | None


def megahertz(results: Results) -> Series | None:
    """An add that waits for the last one takes a cycle."""
    return by_round(lambda ns: 1000 / ns, results.add_ns())


def todays_break_even(one: Measured, cycles: float, clock: Series | None) -> Estimate | None:
    """Microseconds."""
    checks, traps = one.checks(), one.trap_count()
    if not checks or not traps:
        return None
    needed = checks * cycles / traps
    return estimate_of(by_round(lambda f: needed / f, clock))


def break_even_table(results: Results) -> Sheet:
    clock = megahertz(results)
    workloads = results.workloads()
    measured = [results.of(one) for one in workloads]
    header = ["", *(f"{name}, 1993" for name in paper.BENCHMARKS), *(w.title for w in workloads)]
    rows: list[list[str]] = []
    records: list[Record] = []

    def row(
        title: str, then: Sequence[float], now: Sequence[Cell], why: Sequence[str] = ()
    ) -> None:
        undecided = why or [""] * len(now)
        cells = [
            f"not decided: {_cell(value)}" if reason else _cell(value)
            for value, reason in zip(now, undecided, strict=True)
        ]
        rows.append([title, *map(_cell, then), *cells])
        names = [*(f"{name} 1993" for name in paper.BENCHMARKS), *(w.name for w in workloads)]
        for name, value, reason in zip(names, [*then, *now], ["", "", *undecided], strict=True):
            fields = estimate_fields(value) if isinstance(value, Estimate) else {"value": value}
            records.append({"row": title, "workload": name, **fields, "undecided": reason})

    def of_paper(values: dict[str, int]) -> list[float]:
        return [float(values[name]) for name in paper.BENCHMARKS]

    row("store checks, c", of_paper(paper.CHECKS), [one.checks() for one in measured])
    row("page traps, t", of_paper(paper.TRAPS), [one.trap_count() for one in measured])
    clocks = [paper.MEGAHERTZ] * 2
    row("clock, f, MHz", clocks, [estimate_of(clock)] * len(measured))
    cycles = by_round(lambda ns, f: ns * f / 1000, results.check_ns(), clock)
    then = [float(paper.CYCLES_PER_CHECK)] * 2
    row("cycles per check, x", then, [estimate_of(cycles)] * len(measured))
    printed = [float(cell) for cell in paper.TABLE_1[paper.CYCLES_PER_CHECK]]
    even = [estimate_of(one.break_even()) for one in measured]
    row("µs per trap at which both cost the same", printed, even)
    traps = [estimate_of(one.trap()) for one in measured]
    why = [one.trap_undecided() for one in measured]
    row("µs per trap in the program, y", of_paper(paper.MICROSECONDS_PER_TRAP), traps, why)
    then = [float(paper.TIGHT_LOOP_MICROSECONDS)] * 2
    row("µs per trap in a tight loop", then, [estimate_of(one.tight_trap()) for one in measured])
    for cycles_per_check, cells in paper.TABLE_1.items():
        now = [todays_break_even(one, cycles_per_check, clock) for one in measured]
        row(f"y of x = {cycles_per_check}", [float(cell) for cell in cells], now)
    return Sheet(
        "table-1",
        "Table 1. At which cost of a trap page protection breaks even",
        "c x = f t y: below the line, the microseconds per trap that page protection may cost for "
        "each number of cycles per check. Today's f is of adds that wait for each other; x is what "
        f"a check of {CHECK} adds to a store of a {CHECK_KIND.replace('_into_', ' value into an ')}"
        f" object in a loop of stores. {INTERVALS} y is a difference of two running times: where "
        "its interval contains 0, it is not decided, nor is what rests on it (1a, 1c, 1d).",
        records,
        header,
        rows,
    )


INTERVALS = f"Medians and their 95% intervals (below {LEAST_ROUNDS} rounds the range)."


def _cell(value: Cell) -> str:
    if not isinstance(value, Estimate):
        return _significant(value)
    median, low, high = map(_significant, (value.median, value.low, value.high))
    return median if low == high else f"{median} [{low}, {high}]"


def _significant(value: float | None) -> str:
    """Three digits; what is printed with four keeps them."""
    if value is None:
        return ABSENT
    if value == paper.MEGAHERTZ:
        return f"{value:g}"
    return f"{value:,.0f}" if abs(value) >= 100 or value == int(value) else f"{value:.3g}"


# Tables 2 and 3


def phases_table(one: Measured, name: str, before: str, schemes: Sequence[str]) -> Sheet:
    workload = one.workload
    rows, records = [], []
    for phase in PHASES:
        if workload.paper and schemes == SHOWN:
            printed = dict(zip(paper.SCHEMES, paper.TABLES[workload.paper][phase]))
            then = (f"{printed[one]}%" if one in printed else ABSENT for one in schemes)
            rows.append([f"{phase}, {ROW_THEN}", "", *then])
        cells = []
        for scheme in schemes:
            found = one.relative(scheme, phase)
            cells.append(_percent(found))
            records.append({"phase": phase, "scheme": scheme, **estimate_fields(found)})
        dirty = estimate_of(one.times(paper.DIRTY, phase))
        whole = _significant(dirty.median / 1e6 if dirty else None)
        row_name = f"{phase}, {ROW_NOW}" if workload.paper and schemes == SHOWN else phase
        rows.append([row_name, whole, *cells])
    rounds = len(one.rounds())
    return Sheet(
        name,
        f"{before}Phases of {workload.title} as percentage of dirty",
        f"{_what_cells_are(rounds)} dirty is composed: the oracle's running, roots and promoted, "
        "other of cards-4096; its milliseconds stand before."
        f"{KERNEL_IS if KERNEL in schemes else ''}",
        records,
        ["phase", "dirty, ms", *schemes],
        rows,
    )


KERNEL_IS = (
    " kernel is today's real one. Twice a scavenge the kernel walks the page tables of all that is "
    "old: to tell what was written, and to note it clean. Both walks count as other (measured "
    "before 2026-11-23: the first one as roots), and so do the faults of the collector's own first "
    "writes to clean pages. dirty has its pages for nothing. Why roots of kernel differ from "
    "dirty's has not been measured. Other of pages has in it that the collector unprotects each "
    "page that it writes to, one call a page, and protects them again."
)


def _what_cells_are(rounds: int) -> str:
    if rounds < LEAST_ROUNDS:
        return f"Median and range of {rounds} rounds: an indication."
    return f"Median of {rounds} rounds, less those that failed, and its 95% interval."


def _percent(one: Estimate | None) -> str:
    if one is None:
        return ABSENT
    return f"{100 * one.median:.0f}% [{100 * one.low:.0f}, {100 * one.high:.0f}]"


# Figures 2 and 3


def all_figures(results: Results) -> Iterator[Sheet]:
    """Bars as in the paper, whose own have no values."""
    workloads = [one for one in results.workloads() if results.of(one).times(paper.DIRTY, "roots")]
    if not workloads:
        return
    schemes = (*SHOWN[:-1], paper.DIRTY, KERNEL)
    figure, axes = canvas(len(workloads), 1, 9.5, 1.9 * len(workloads) + 0.4)
    records: list[Record] = []
    for (plot,), workload in zip(axes, workloads):
        records += _draw_bars(plot, results.of(workload), workload, schemes)
    axes[0][0].legend(loc="upper right", ncols=4, bbox_to_anchor=(1, 1.28), fontsize=8)
    yield Sheet(
        "figure-2",
        "Figures 2 and 3. What a collection costs",
        "Milliseconds of a run in roots, promoted and other, medians; running, which is the same "
        "but for the barrier, is in the tables. The paper's bars have no values: of "
        "them there is what its text says, in the claims. A bar that leaves the picture has its "
        "figure beside it.",
        records,
        svg=svg_of(figure, "phases"),
    )


def _draw_bars(
    plot: Any, one: Measured, workload: Workload, schemes: Sequence[str]
) -> list[Record]:
    records: list[Record] = []
    totals = {}
    for place, scheme in enumerate(schemes):
        start = 0.0
        for phase in paper.PHASES:
            found = estimate_of(one.times(scheme, phase))
            ms = found.median / 1e6 if found else None
            records.append({"workload": workload.name, "scheme": scheme, "phase": phase, "ms": ms})
            if ms is None or phase == "running":
                continue
            label = phase if place == 0 else None
            plot.barh(-place, ms, left=start, color=PHASE_COLOURS[phase], label=label, height=0.7)
            start += ms
        totals[place] = start
    most = sorted(totals.values())[-3] * 1.25 or 1.0
    for place, total in totals.items():
        if total > most:
            plot.text(
                most,
                -place,
                f" {total:,.0f} ms" if total >= 1000 else f" {total:.3g} ms",
                fontsize=7.5,
                va="center",
            )
    plot.set_xlim(0, most)
    plot.set_yticks([-place for place in range(len(schemes))], schemes, fontsize=7.5)
    plot.set_title(f"{workload.title}, ms", fontsize=9, loc="left")
    return records


# Beyond the paper

LARGE_DECIDE_NOTHING = (
    " The large ones run three rounds, which have a range and no interval: so what rests on their "
    "times indicates and decides nothing. (1b rests on counts and on the loops of stores.)"
)


def matrix(results: Results) -> Sheet:
    """The same rules asked of every workload."""
    workloads = results.workloads()
    header = [
        "rule",
        *(f"{name}, 1993" for name in paper.BENCHMARKS),
        *(w.title for w in workloads),
    ]
    rows, records = [], []
    for asked in RULES:
        evidence: list[Evidence] = [*PRINTED.values(), *(results.of(one) for one in workloads)]
        verdicts = [str(verdict_of(asked, one)) for one in evidence]
        leanings = [indication_of(asked, one) for one in evidence]
        names = [*(f"{name} 1993" for name in PRINTED), *(one.name for one in workloads)]
        cells = [f"indication {one}" if one else said for said, one in zip(verdicts, leanings)]
        for place in range(len(PRINTED)):
            if verdicts[place] == Verdict.NOT_MEASURED:
                cells[place] = asked.unprinted
        rows.append([f"{asked.number}. {asked.text}", *cells])
        for name, verdict, leaning in zip(names, verdicts, leanings, strict=True):
            known = {"rule": asked.number, "workload": name}
            records.append(known | {"verdict": verdict, "indication": leaning})
    return Sheet(
        "matrix",
        "The same rules, asked of every workload",
        "Of the paper's own cells, and of what is measured today. The paper has neither JSON nor "
        "100 times as many trees or iterations."
        f"{LARGE_DECIDE_NOTHING if any(one.large for one in workloads) else ''}",
        records,
        header,
        rows,
        words=True,
    )


def totals_table(results: Results) -> Sheet:
    """What advice rests on."""
    rows, records = [], []
    for workload in results.workloads():
        one = results.of(workload)
        cells = []
        for scheme in SHOWN:
            total = (one.times(name, paper.TOTAL) for name in (scheme, REMSETS))
            found = estimate_of(ratios(*total))
            cells.append(ratio_cell(found) if scheme != REMSETS or found is None else "1")
            fields = estimate_fields(found)
            records.append({"workload": workload.name, "scheme": scheme, **fields})
        rows.append([workload.title, *cells])
    return Sheet(
        "totals",
        "Total time to that of remsets",
        INTERVALS,
        records,
        ["program", *SHOWN],
        rows,
    )


def store_table(results: Results) -> Sheet:
    rows, records = [], []
    titles = [kind.replace("_", " ") for kind in KINDS]
    for barrier in LOOPS:
        cells = [barrier]
        for kind in KINDS:
            turn, own = results.turn(barrier, kind), results.loop_ns(barrier, kind)
            found = estimate_of(own)
            ns = found.median if found else None
            count = ABSENT if turn is None else f"{turn:.0f}"
            cells.append(f"{count}; {number_cell(ns)} ns")
            records.append({"barrier": barrier, "kind": kind, "instructions": turn, "ns": ns})
        rows.append(cells)
    then = paper.STORE_INSTRUCTIONS
    return Sheet(
        "stores",
        "The barrier alone",
        "Instructions of a store, its own included (callgrind, exact), and nanoseconds of "
        "processor time of a turn of a loop that does nothing but store, the loop's included. The "
        "first value is the integer, old or young one, the second the object that it is stored "
        f"into. In 1993 cards took {then['cards']} instructions, remsets typically "
        f"{then['remsets']}, some of which its filters often skip. "
        "The last case of remsets but one calls a function, whose instructions "
        "count too.",
        records,
        ["barrier", *titles],
        rows,
    )


def _each_scavenge(one: Measured) -> int | None:
    checks, scavenges = one.checks(), one.same_of_all("scavenges")
    return round(checks / scavenges) if checks and scavenges else None


def counts_table(results: Results) -> Sheet:
    rows, records = [], []
    for workload in results.workloads():
        one = results.of(workload)
        found = {
            "scavenges": one.same_of_all("scavenges"),
            "store checks": one.checks(),
            "store checks a scavenge": _each_scavenge(one),
            "page traps": one.trap_count(),
            "unprotected by the collector": one.count(PAGES, "unprotected"),
            "dirty pages": one.count(PAGES, "dirty"),
            "remembered by remsets": one.count(REMSETS, "remembered"),
            "times that no mapping was left": one.count(PAGES, "refused"),
        }
        old = one.same_of_all("old_bytes")
        cells = [*map(count_cell, found.values()), ABSENT if old is None else format_bytes(old)]
        rows.append([workload.title, *cells])
        records.append({"workload": workload.name, **found, "old bytes": old})
    titles = [*found, "old at the end"] if rows else []
    return Sheet(
        "counts",
        "What was counted",
        "The same in every round and every link order; scavenges, store checks and what is old at "
        "the end under every barrier, too. In 1993: 160 and 137 collections, 59,646 and 654,245 "
        "store checks (373 and 4,775 a collection), 864 and 1,656 page traps.",
        records,
        ["program", *titles],
        rows,
    )


def claims_of_rule(claims: Sequence[Claim], number: str) -> list[Claim]:
    wanted = {number, *(claim_number(number, benchmark) for benchmark in paper.BENCHMARKS)}
    return [one for one in claims if one.number in wanted]
