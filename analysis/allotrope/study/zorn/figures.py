# SPDX-License-Identifier: MIT
"""Figures 1 to 8 of the paper of 1992, drawn again with what was measured (study/pictures.py).

Each configuration has a mark, a colour and dashes of its own."""

import math
from typing import Any, Callable, Iterator, Sequence

from ...output.units import short_bytes
from ...statistics.intervals import Estimate
from ..ranges import Range
from ..pictures import COLOURS, MARKS, PAPER, canvas, svg_of
from ..sheets import (
    ABSENT,
    Record,
    Sheet,
    count_cell,
    estimate_fields,
    number_cell,
)
from . import cautions, paper
from .cache_sets import misses_by_place
from .evidence import Pair
from .layouts import record
from .locality_tables import misses_table
from .pairs import (
    ALL_1992,
    BSD,
    COLLECTED,
    LOCALITY_PAIRS,
    LOCALITY_SHOWN,
    UNOPTIMISED_BSD,
    label,
    measured,
)
from .plan import BASELINE, CLASSIC
from .printed import PRINTED
from .results import Results

DASHES = ("-", "--", "-.", ":", (0, (5, 1)), (0, (3, 1, 1, 1)), (0, (1, 1)), (0, (7, 2)))
CURVE_PAIRS = [
    BASELINE,
    BSD,
    UNOPTIMISED_BSD,
    COLLECTED,
    ("optimised", "blocks"),
    ("collected", "gc:free=ignore"),
    ("collected", "libgc"),
]
LOOKS = [
    BASELINE,
    BSD,
    COLLECTED,
    ("optimised", "knuth:classic"),
    ("optimised", "gnu:classic"),
    UNOPTIMISED_BSD,
    ("collected", "gc:free=ignore"),
    ("optimised", "blocks"),
    ("optimised", "glibc"),
    ("optimised", "jemalloc"),
    ("optimised", "mimalloc"),
    ("optimised", "tcmalloc"),
    ("collected", "libgc"),
    ("collected", "libgc:incremental"),
    ("age", "instructions"),
    ("age", "bytes"),
]


def all_figures(results: Results) -> Iterator[Sheet]:
    yield cpu_figure(results)
    yield memory_figure(results)
    yield domain_figure(results)
    yield faults_figure(results)
    yield fault_curves(results)
    yield misses_figure(results)
    yield miss_curves(results)
    yield survival_figure(results)
    yield sets_figure(results)


def look(pair: Pair) -> tuple[str, str, Any]:
    """Mark, colour and dashes of a configuration, the same in every figure."""
    number = LOOKS.index(pair) if pair in LOOKS else len(LOOKS)
    return MARKS[number % len(MARKS)], COLOURS[number % len(COLOURS)], DASHES[number % len(DASHES)]


# Drawing


Point = tuple[float, float | None, float | None]  # value and interval


def _paper_bar(plot: Any, x: float, said: float | Range) -> Any:
    """Draws what the paper gives and returns it for the legend."""
    if isinstance(said, Range):
        ends = [said.low, said.high]
        bar = plot.plot([x] * 2, ends, color=PAPER, lw=6, solid_capstyle="butt", zorder=1)
    else:
        bar = plot.plot(x, said, marker="_", ms=12, mew=4, color=PAPER, ls="none", zorder=1)
    return bar[0]


def _dot(plot: Any, x: float, point: Point, floor: float, **look_of: Any) -> None:
    """A mark with its interval, no lower than `floor`."""
    value, low, high = point
    if value < floor:
        beside = {"xytext": (-6, 0), "textcoords": "offset points", "ha": "right", "va": "center"}
        plot.annotate(f"{value:.2g}", (x, floor), fontsize=8, **beside)
        value, low, high = floor, None, None
    bars = None
    if low is not None and high is not None:
        bars = [[max(0, value - low)], [max(0, high - value)]]
    plot.errorbar(x, value, yerr=bars, **look_of)


def _dots(
    name: str,
    programs: Sequence[str],
    pairs: Sequence[Pair],
    point: Callable[[str, Pair], Point | None],
    axis: str,
    paper_mark: Callable[[str, Pair], float | Range | None],
    floor: float = 0.0,
) -> str:
    """A column of marks for each program: one for each configuration, with its interval; what the
    paper gives is a grey bar. A value below `floor` stands on it, with its figure beside it."""
    figure, axes = canvas(1, 1, 9.5, 3.6)
    plot = axes[0][0]
    grey = None
    for number, pair in enumerate(pairs):
        mark, colour, _ = look(pair)
        offset = 0.7 * ((number + 0.5) / len(pairs) - 0.5)
        shown = False
        for place, program in enumerate(programs):
            if (said := paper_mark(program, pair)) is not None:
                grey = _paper_bar(plot, place + offset, said)
            if (found := point(program, pair)) is None:
                continue
            look_of = {"marker": mark, "ms": 5, "lw": 0.9, "color": colour, "ls": "none"}
            named = None if shown else label(pair)
            _dot(plot, place + offset, found, floor, zorder=3, label=named, **look_of)
            shown = True
    plot.axhline(1.0, color="#808080", lw=0.7, zorder=0)
    plot.set_xticks(range(len(programs)), programs)
    plot.tick_params(axis="x", length=0)
    plot.set_ylabel(axis)
    plot.grid(axis="y")
    _log_scale(plot)
    handles, labels = plot.get_legend_handles_labels()
    if grey is not None:
        handles, labels = [*handles, grey], [*labels, "1992"]
    if handles:
        plot.legend(handles, labels, loc="upper left", bbox_to_anchor=(1.0, 1.0), fontsize=8)
    return svg_of(figure, name)


def _log_scale(plot: Any) -> None:
    """Ratios go up in factors, with plain numbers beside them."""
    from matplotlib import ticker

    plot.set_yscale("log")
    bottom, top = plot.get_ylim()
    steps = (1.0, 2.0, 5.0) if top < 300 * bottom else (1.0,)
    plot.yaxis.set_major_locator(ticker.LogLocator(base=10, subs=steps))
    plot.yaxis.set_major_formatter(ticker.FuncFormatter(lambda value, _: f"{value:g}"))
    plot.minorticks_off()
    plot.tick_params(axis="x", length=0)


Curve = Sequence[tuple[float, float]]


SIZES, AGES, PLACES = "sizes", "ages", "places"  # what the x axis of panels counts


def _panels(
    name: str,
    programs: Sequence[str],
    pairs: Sequence[Pair],
    curve: Callable[[str, Pair], Curve | None],
    axes_titles: tuple[str, str],
    marks_at: Sequence[float],
    axis: str = SIZES,
    marked: Callable[[str], tuple[float, float] | None] | None = None,
) -> str:
    """A panel for each program, a line for each configuration, on common axes."""
    log_y = axis == SIZES
    columns = min(3, max(1, len(programs)))
    rows = math.ceil(len(programs) / columns) or 1
    figure, axes = canvas(rows, columns, 3.1 * columns + 0.4, 2.5 * rows + 0.7)
    handles: dict[str, Any] = {}
    for place in range(rows * columns):
        plot = axes[place // columns][place % columns]
        if place >= len(programs):
            plot.set_axis_off()
            continue
        program = programs[place]
        for pair in pairs:
            points = [(x, y) for x, y in curve(program, pair) or () if y > 0 or not log_y]
            if not points:
                continue
            # Marks at turns, for those who see no colours: of each line at other points.
            marked_at = _spread(points, pairs.index(pair), len(pairs))
            handles[label(pair)] = _curve(plot, axis, pair, points, marked_at)
        for place_marked in marks_at:
            plot.axvline(place_marked, color="#909090", lw=0.6)
        if marked is not None and (said := marked(program)) is not None:
            (cross,) = plot.plot(*said, marker="x", ms=7, mew=1.5, color="#606060", ls="none")
            handles["1992"] = cross
        _scale(plot, axis)
        plot.set_title(program, fontsize=9, loc="left")
        plot.grid(True)
        plot.tick_params(labelsize=8)
    figure.supxlabel(axes_titles[0], fontsize=9)
    figure.supylabel(axes_titles[1], fontsize=9)
    if handles:
        below = {"loc": "upper center", "bbox_to_anchor": (0.5, 0), "ncols": min(4, len(handles))}
        figure.legend(handles.values(), handles.keys(), fontsize=8, **below)
    return svg_of(figure, name)


def _curve(plot: Any, axis: str, pair: Pair, points: Curve, marked_at: Sequence[int]) -> Any:
    """Draws a configuration's line, which is steps but for ages, and returns it for the legend."""
    mark, colour, dashes = look(pair)
    marks = {"marker": mark, "ms": 4, "mfc": "white", "mew": 0.9, "markevery": marked_at}
    draw = plot.plot if axis == AGES else plot.step
    where = {} if axis == AGES else {"where": "post"}
    return draw(*zip(*points), lw=1.2, color=colour, ls=dashes, **marks, **where)[0]


def _scale(plot: Any, axis: str) -> None:
    if axis == SIZES:
        plot.set_xscale("log", base=2)
        plot.set_yscale("log")
        low, high = plot.get_xlim()
        powers = [power for power in range(10, 32, 2) if low <= 1 << power <= high]
        plot.set_xticks(
            [1 << power for power in powers], [short_bytes(1 << power) for power in powers]
        )
    elif axis == AGES:
        plot.set_xscale("log")
        plot.set_ylim(-4, 104)
        plot.set_xlim(5, 2e9)
        plot.set_xticks([10**power for power in (1, 3, 5, 7, 9)])
    else:
        plot.set_ylim(bottom=0)
        plot.set_xticks(range(0, 4097, 1024))
    plot.minorticks_off()


def _spread(points: Curve, number: int, of: int) -> list[int]:
    """Which points of a line carry its mark: some five, not those of the next line."""
    step = max(2, len(points) // 5)
    return list(range(number * step // of, len(points), step))


def _names(results: Results) -> list[str]:
    """The study's programs that were measured."""
    return [one.name for one in results.row("1992") if one.name not in results.missing]


# The paper's figures


def _point(one: Estimate | None) -> Point | None:
    return None if one is None else (one.median, one.low, one.high)


def _exact_point(value: float | None) -> Point | None:
    """Of a count, which has no interval; nothing has no place on a scale of factors."""
    return (value, None, None) if value else None


def _but_bsd(results: Results) -> list[Pair]:
    """Those whose locality was measured and is told as a ratio to BSD's."""
    return [pair for pair in measured(results, LOCALITY_SHOWN) if pair != BSD]


def paper_time(name: str, pair: Pair) -> float | None:
    known = PRINTED.ratio(name, pair, BASELINE) if name in paper.PROGRAMS else None
    return None if known is None else known.median


def paper_heap(name: str, pair: Pair) -> float | None:
    return PRINTED.heap_ratio(name, pair, BASELINE) if name in paper.PROGRAMS else None


def cpu_figure(results: Results) -> Sheet:
    pairs, names = measured(results, ALL_1992), _names(results)
    records = [
        record(name, pair, **estimate_fields(results.ratio(name, pair, BASELINE)))
        for name in names
        for pair in pairs
    ]
    svg = _dots(
        "figure-1",
        names,
        pairs,
        lambda name, pair: _point(results.ratio(name, pair, BASELINE)),
        "CPU time, ratio to SunOS's",
        paper_time,
    )
    return Sheet(
        "figure-1",
        "Figure 1: CPU time",
        "Ratio to SunOS's algorithm with its interval. Grey: the paper's Table 3.",
        records,
        svg=svg,
    )


LEAST_HEAP = 0.5  # Figure 2 goes down to it


def memory_figure(results: Results) -> Sheet:
    pairs, names = measured(results, ALL_1992), _names(results)

    def point(name: str, pair: Pair) -> Point | None:
        value = results.heap_ratio(name, pair, BASELINE)
        return None if value is None else (value, None, None)

    records = [
        record(name, pair, value=results.heap_ratio(name, pair, BASELINE))
        for name in names
        for pair in pairs
    ]
    title = "heap, ratio to SunOS's"
    svg = _dots("figure-2", names, pairs, point, title, paper_heap, floor=LEAST_HEAP)
    return Sheet(
        "figure-2",
        "Figure 2: heap",
        "The heap's high-water mark as a ratio to SunOS's algorithm; a mark at the foot "
        "is lower than drawn, at the figure beside it. Grey: the paper's Table 4.",
        records,
        svg=svg,
    )


def domain_figure(results: Results) -> Sheet:
    names = [
        one.name
        for one in results.programs
        if "unoptimised" in one.forms and one.name not in results.missing and one.row != "large"
    ]
    pairs = measured(results, [("unoptimised", spec) for spec in (*CLASSIC, "glibc")])

    def one(name: str, pair: Pair) -> Estimate | None:
        return results.ratio(name, ("unoptimised", pair[1]), ("optimised", pair[1]))

    records = [
        {"program": name, "allocator": pair[1], **estimate_fields(one(name, pair))}
        for name in names
        for pair in pairs
    ]

    def said(name: str, pair: Pair) -> float | Range | None:
        known = PRINTED.ratio(name, ("unoptimised", pair[1]), ("optimised", pair[1]))
        return known.median if known and name in paper.OWN_ALLOCATOR else None

    svg = _dots(
        "figure-3",
        names,
        [("optimised", pair[1]) for pair in pairs],
        lambda name, pair: _point(one(name, pair)),
        "CPU time without / with",
        said,
    )
    return Sheet(
        "figure-3",
        "Figure 3: what domain-specific allocators gain",
        "CPU time of the program without its own allocator over that with it. Grey: the "
        "paper's Table 5.",
        records,
        svg=svg,
    )


def faults_figure(results: Results) -> Sheet:
    names, pairs = _names(results), _but_bsd(results)

    def ratio(name: str, pair: Pair, memory: int | None) -> float | None:
        if memory is None:
            return None
        faults = results.replacement_faults(name, *pair, memory)
        base = results.replacement_faults(name, *BSD, memory)
        return faults / base if faults is not None and base else None

    fixed = results.fixed_memory()
    at = f" of {short_bytes(fixed)}" if fixed else ""

    def at_fixed(name: str, pair: Pair) -> float | None:
        return ratio(name, pair, fixed)

    records = []
    for name in names:
        for memory, rule in ((fixed, "of most difference"), (paper.MEMORY_1992, "2 MiB")):
            for pair in pairs:
                faults = None if memory is None else results.replacement_faults(name, *pair, memory)
                fields = {"rule": rule, "memory_bytes": memory, "replacement_faults": faults}
                over_bsd = ratio(name, pair, memory)
                records.append(record(name, pair, **fields, ratio_to_bsd=over_bsd))

    shown = measured(results, LOCALITY_SHOWN)
    rows = [
        [name, *(_faults_cell(results, name, pair, fixed) for pair in shown)]
        for name in names
        if fixed is not None
    ]
    svg = _dots(
        "figure-4",
        names,
        pairs,
        lambda name, pair: _exact_point(at_fixed(name, pair)),
        "replacement faults, ratio to BSD's",
        lambda _, pair: paper.COLLECTOR_FAULTS if pair == COLLECTED else None,
    )
    return Sheet(
        "figure-4",
        f"Figure 4: page faults at a fixed memory{at}",
        "Replacement faults (LRU, pages of 4 KiB) as a ratio to BSD's, at one memory size for all "
        "programs: the power of two at which most still replace pages, and BSD and the "
        "collector differ most. Grey: the paper's one to "
        "two orders of magnitude for the collector. The table: their number, and in brackets that "
        "in a million references. "
        f"{cautions.of_traced(results)}",
        records,
        ["program", *map(label, shown)] if rows else [],
        rows,
        svg=svg,
    )


def _faults_cell(results: Results, name: str, pair: Pair, memory: int) -> str:
    faults = results.replacement_faults(name, *pair, memory)
    references = results.references(name, *pair)
    if faults is None or not references:
        return ABSENT
    return f"{count_cell(faults)} ({number_cell(1e6 * faults / references)})"


def fault_curves(results: Results) -> Sheet:
    names, pairs = _names(results), measured(results, CURVE_PAIRS)
    sizes = [1 << power for power in range(15, 27)]

    def curve(name: str, pair: Pair, page: int = 4096) -> Curve | None:
        references = results.references(name, *pair)
        if not references:
            return None
        found = [(size, results.replacement_faults(name, *pair, size, page)) for size in sizes]
        return [(size, 1e6 * faults / references) for size, faults in found if faults]

    records = [
        record(
            name,
            pair,
            page_bytes=page,
            memory_bytes=size,
            replacement_faults=results.replacement_faults(name, *pair, size, page),
        )
        for name in names
        for pair in measured(results, LOCALITY_PAIRS)
        for page in (4096, 8192)
        for size in sizes
    ]
    svg = _panels(
        "figure-5",
        names,
        pairs,
        curve,
        ("memory", "replacement faults in a million references"),
        [paper.MEMORY_1992],
    )
    return Sheet(
        "figure-5",
        "Figure 5: page faults over every memory size",
        "Replacement faults, LRU, pages of 4 KiB; a line ends where nothing is replaced. "
        f"The vertical line is the paper's 2 MB. {cautions.AS_BEFORE}",
        records,
        svg=svg,
    )


def misses_figure(results: Results) -> Sheet:
    names, pairs = _names(results), _but_bsd(results)

    def ratio(name: str, pair: Pair) -> float | None:
        rate = results.miss_rate(name, *pair, paper.CACHE_1992)
        base = results.miss_rate(name, *BSD, paper.CACHE_1992)
        return rate / base if rate is not None and base else None

    records = [
        record(
            name,
            pair,
            cache_bytes=paper.CACHE_1992,
            miss_rate=results.miss_rate(name, *pair, paper.CACHE_1992),
            ratio_to_bsd=ratio(name, pair),
        )
        for name in names
        for pair in pairs
    ]

    def said(name: str, pair: Pair) -> float | Range | None:
        told = pair == COLLECTED and name not in paper.EXCEPT_MISSES
        return paper.COLLECTOR_MISSES if told else None

    title = "miss rate, ratio to BSD's"
    svg = _dots("figure-6", names, pairs, lambda *one: _exact_point(ratio(*one)), title, said)
    table = misses_table(results, LOCALITY_SHOWN, "", "")
    return Sheet(
        "figure-6",
        "Figure 6: cache misses",
        "Misses per data reference in a direct-mapped cache of 128 KiB with 32-byte "
        "blocks, as a ratio to BSD's. Grey: the paper's 3 to 10 for the collector. The table: "
        f"misses in 100 references, and in brackets their number. {cautions.AS_BEFORE}",
        records,
        table.header,
        table.rows,
        svg=svg,
    )


def miss_curves(results: Results) -> Sheet:
    names, pairs = _names(results), measured(results, CURVE_PAIRS)
    sizes = [1 << power for power in range(13, 23)]

    def curve(name: str, pair: Pair) -> Curve | None:
        found = [(size, results.miss_rate(name, *pair, size)) for size in sizes]
        return [(size, 100 * rate) for size, rate in found if rate]

    records = [
        record(name, pair, cache_bytes=size, miss_rate=results.miss_rate(name, *pair, size))
        for name in names
        for pair in measured(results, LOCALITY_PAIRS)
        for size in sizes
    ]
    svg = _panels(
        "figure-7",
        names,
        pairs,
        curve,
        ("cache, direct-mapped, 32-byte blocks", "misses in 100 references"),
        [paper.CACHE_1992, paper.MEMORY_1992],
    )
    return Sheet(
        "figure-7",
        "Figure 7: cache misses over every size",
        f"The vertical lines are the paper's 128 KiB and 2 MB. {cautions.AS_BEFORE}",
        records,
        svg=svg,
    )


def survival_figure(results: Results) -> Sheet:
    names = [name for name in _names(results) if results.followed(name)]
    records = []
    for name in names:
        followed = results.followed(name) or {}
        for clock in ("instructions", "bytes"):
            records += [
                {"program": name, "clock": clock, "age": age, "share_of_objects": share}
                for age, share in followed["survival"][clock]
            ]

    def curve(name: str, pair: Pair) -> Curve | None:
        followed = results.followed(name)
        if not followed:
            return None
        return [(age, 100 * share) for age, share in followed["survival"][pair[1]]]

    def marked(name: str) -> tuple[float, float] | None:
        if name == "perl":
            return 10_000, 100 * paper.PERL_SURVIVORS_AT_10_000
        return None if name == "yacr" else (100_000, 100 * paper.SURVIVORS_AT_100_000)

    if not names:
        return Sheet("figure-8", "Figure 8: how long objects live", "Not measured in this run.", [])
    svg = _panels(
        "figure-8",
        names,
        [("age", "instructions"), ("age", "bytes")],
        curve,
        ("age: instructions executed, or bytes allocated, since birth", "objects alive, %"),
        [],
        AGES,
        marked,
    )
    return Sheet(
        "figure-8",
        "Figure 8: how long objects live",
        "Objects that reach an age, counted in instructions and in bytes allocated "
        "meanwhile; realloc continues a life, what is never freed survives. Cross: the paper's "
        "perl, and the 10% that its others stay below (of five programs; its cycles are "
        "instructions).",
        records,
        svg=svg,
    )


def sets_figure(results: Results) -> Sheet:
    """Claim 9 asks where in the cache the misses are."""
    title = "Beyond the paper: misses by place in a page"
    names = [name for name in _names(results) if results.shape(name, *BSD)]
    pairs = measured(results, [BSD, COLLECTED, ("collected", "gc:free=ignore")])
    records: list[Record] = []
    for name in names:
        for pair in pairs:
            if (shape := results.shape(name, *pair)) is not None:
                places = misses_by_place(shape["misses_by_set"])
                records.append(record(name, pair, misses_by_place=places))
    if not records:
        return Sheet("figure-sets", title, "Not measured in this run.", [])
    found = {
        (one["program"], one["form"], one["allocator"]): one["misses_by_place"] for one in records
    }

    def curve(name: str, pair: Pair) -> Curve | None:
        counts = found.get((name, *pair), [])
        whole = sum(counts) or 1
        return [(32 * place, 100 * count / whole) for place, count in enumerate(counts)]

    svg = _panels(
        "figure-sets",
        names,
        pairs,
        curve,
        ("distance from the start of a page, bytes", "of all misses, %"),
        [],
        PLACES,
    )
    return Sheet(
        "figure-sets",
        title,
        "The paper's cache, 128 KiB direct-mapped: 32 of its sets lie at each distance "
        "from the start of a page of 4 KiB. Were all alike, each would have 0.8%. Headers "
        "at the start of pages meet at the left edge.",
        records,
        svg=svg,
        beyond=True,
    )
