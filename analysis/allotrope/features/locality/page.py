# SPDX-License-Identifier: MIT
"""The pages of `allotrope locality` and `simulate`, from their JSON (docs/simulate-format.md).

All are pages of runs: one for each allocator, or the one of a trace. A run holds `pages`, `caches`
or `tlb`, or several of them.

Allocators are compared by counts. The program's work is the same under each, but each makes
references of its own: a rate would praise whoever makes many that hit. A rate is shown of one run
alone."""

import shlex
from dataclasses import dataclass, replace
from itertools import accumulate
from operator import itemgetter
from typing import Any, Callable, Iterator, Mapping, Sequence

from ...output.page import (
    Figure,
    Page,
    Section,
    Table,
    axis,
    colour,
    label,
    layout,
    plain,
    symbol,
)
from ...output.plots import (
    Curve,
    bytes_axis,
    count_axis,
    decades_axis,
    legend,
    ratio_panel,
    with_ratio_panel,
)
from ...output.sentences import CUT_SHORT, Sentence
from ...output.units import format_bytes, format_whole_bytes, short_bytes
from .lines import line_table
from .output import cache_tables, tlb_tables
from .process import describe_line
from .simulate import (
    associativities,
    describe_sample,
    faults_at,
    faults_with,
    filter_text,
    kind_of,
    misses_with,
    results_of,
    tlb_entries,
    touches_of,
)
from .verdicts import sentences

Document = dict[str, Any]

HEIGHT = 430
HEIGHT_WITH_RATIOS = 560
THREADED = "one cache, Valgrind's interleaving, no coherence"
CAUSES = (("cold", "var(--part-0)"), ("capacity", "var(--part-1)"), ("conflict", "var(--part-2)"))
DASHES = ("solid", "dash", "dot", "dashdot")
MOST_SETS = 512  # points of a picture of misses by set
MOST_FUNCTIONS = 20


def locality_page(document: Document) -> Page:
    """Of allotrope.locality/1."""
    return _page(document["runs"], "Locality", shlex.join(document["command"]))


def simulation_page(trace: str, kind: str, document: Document) -> Page:
    """Of allotrope.simulate.pages/1, .caches/1 or .tlb/1; kind: `pages`, `caches` or `tlb`."""
    title = {"pages": "Page faults", "caches": "Cache misses", "tlb": "TLB misses"}[kind]
    run = {"allocator": trace, kind: document}
    return _page([run], title, f"allotrope simulate {kind} {trace}")


def _page(runs: list[Document], title: str, command: str) -> Page:
    threaded = any(_any(run)["threaded"] for run in runs)
    sections = []
    if "pages" in runs[0]:
        sections.append(Section("Page faults", [PAGES], list(_page_figures(runs))))
    if "caches" in runs[0]:
        sections += _cache_sections(runs)
    if "tlb" in runs[0]:
        sections.append(Section("TLB misses", [TLBS], list(_tlb_figures(runs))))
    if "caches" in runs[0] or "tlb" in runs[0]:
        sections += _shape_sections(runs)
    sections.append(Section("Figures", tables=list(_tables(runs))))
    if threaded:
        sections = [_labelled(section) for section in sections]
    references = _any(runs[0])["references"]
    return Page(
        title=title,
        command=command,
        subtitle=f"{references:,} data references"
        + (f" under {runs[0]['allocator']}; {len(runs)} allocators" if len(runs) > 1 else ""),
        advice=list(_advice(runs, threaded)),
        sections=sections,
    )


PAGES = (
    "A fault is a touch of a page that is not in a memory of so many pages, the least "
    "recently used of which makes room. First touches happen in every memory and are left "
    "out: a program that fits shows none."
)


def _any(run: Document) -> Document:
    found: Document = next(run[kind] for kind in ("pages", "caches", "tlb") if kind in run)
    return found


def _shapes(run: Document) -> list[Document]:
    found: list[Document] = next(run[kind] for kind in ("caches", "tlb") if kind in run)["shapes"]
    return found


def _labelled(section: Section) -> Section:
    """The same with every picture saying what it means for a threaded program."""
    corner = {"xref": "paper", "yref": "paper", "x": 1, "y": 1}
    corner |= {"xanchor": "right", "yanchor": "bottom"}
    note = {"text": THREADED, "showarrow": False, **corner, "font": {"size": 11}}
    more = {"annotations": [note], "margin": {"l": 8, "r": 12, "t": 28, "b": 8}}
    figures = [
        replace(one, caption=f"Threads: {THREADED}. {one.caption}", layout={**one.layout, **more})
        for one in section.figures
    ]
    return replace(section, figures=figures)


def _line(
    name: str, x: Sequence[float], y: Sequence[float | None], place: int, text: str, **more: Any
) -> Document:
    look = {"color": colour(place), "width": 2, "dash": DASHES[place // 8 % len(DASHES)]}
    return {
        "type": "scatter",
        "mode": "lines+markers" if len(x) < 40 else "lines",
        "name": label(name),
        "x": list(x),
        "y": list(y),
        "line": look | more.pop("line", {}),
        "marker": {"symbol": symbol(place), "size": 6},
        "hovertemplate": f"<b>{plain(name)}</b><br>{text}<extra></extra>",
    } | more


def _curves(
    name: str,
    title: str,
    caption: str,
    curves: Sequence[Curve],
    hover: str,
    look: Document,
    samples: Sequence[Curve] = (),
    **more: Any,
) -> Figure:
    """A curve for each run; of several runs also their ratios, since curves that differ by a few
    per cent cover each other. hover: x and y, with a colon between. samples: what the ratios are
    of, where curves have values at different x."""
    data = [_line(*curve, place, hover, **more) for place, curve in enumerate(curves)]
    look = layout(showlegend=True, legend=legend(), **look)
    if len(curves) < 2:
        return Figure(name, title, caption, data, look, HEIGHT)
    names = [curve[0] for curve in curves]
    base = names.index("glibc") if "glibc" in names else 0
    panel = ratio_panel(samples or curves, base, hover.split(":")[0])
    look = with_ratio_panel(look, panel, names[base])
    caption += f" Below: each divided by {names[base]}."
    return Figure(name, title, caption, data + panel, look, HEIGHT_WITH_RATIOS)


# Pages


def thin(points: list[Document], most: int = 300) -> list[Document]:
    """A curve with fewer points: all where there are few, else evenly by the logarithm."""
    kept, factor = [points[0]], 1.0
    if len(points) > most:
        factor = (points[-1]["frames"] / points[0]["frames"]) ** (1 / most)
    for point in points[1:-1]:
        if point["frames"] >= kept[-1]["frames"] * factor:
            kept.append(point)
    return kept + points[1:][-1:]


FAULT_HOVER = "%{x:.4s}B: %{y:,} replacement faults"


def _fault_curve(name: str, part: Document, size: int) -> Curve:
    points = thin(part["curve"])
    faults = [point["faults"] - part["cold"] or None for point in points]
    return name, [point["frames"] * size for point in points], faults


def _fault_samples(runs: list[Document], number: int) -> list[Curve]:
    """The curves at the same sizes of memory, eight to a doubling."""
    pages = [run["pages"]["pages"][number] for run in runs]
    most = max(page["curve"][-1]["frames"] for page in pages)
    steps = (round(2 ** (step / 8)) for step in range(8 * most.bit_length()))
    frames = sorted({count for count in steps if count <= most})
    curves: list[Curve] = []
    for run, page in zip(runs, pages):
        faults = [count - page["cold"] or None for count in faults_at(page["curve"], frames)]
        memory = [count * page["page_size"] for count in frames]
        curves.append((run["allocator"], memory, faults))
    return curves


def _fault_layout(curves: Sequence[Curve]) -> Document:
    return {
        "xaxis": bytes_axis("memory", (x for _, memory, _ in curves for x in memory)),
        "yaxis": decades_axis("faults", (y for _, _, faults in curves for y in faults)),
    }


def _page_figures(runs: list[Document]) -> Iterator[Figure]:
    look: Document = {"line": {"shape": "hv"}, "mode": "lines"}
    for number, first in enumerate(runs[0]["pages"]["pages"]):
        size = first["page_size"]
        pages = [run["pages"]["pages"][number] for run in runs]
        curves = [_fault_curve(run["allocator"], page, size) for run, page in zip(runs, pages)]
        yield _curves(
            f"faults-{size}",
            f"Replacement faults, pages of {format_whole_bytes(size)}",
            "Each line ends at the memory from which on nothing is replaced: what the program "
            "touches in all. Down and left is better.",
            curves,
            FAULT_HOVER,
            _fault_layout(curves),
            _fault_samples(runs, number),
            **look,
        )
        for place, (run, page) in enumerate(zip(runs, pages)):
            if len(page["by_class"]) < 2:
                continue
            parts = [_fault_curve(part["class"], part, size) for part in page["by_class"]]
            yield Figure(
                name=f"faults-{size}-{place}",
                title=f"{run['allocator']}: whose references fault, "
                f"pages of {format_whole_bytes(size)}",
                caption="Memory is shared by all; a fault belongs to whose reference it was.",
                data=[_line(*part, shade, FAULT_HOVER, **look) for shade, part in enumerate(parts)],
                layout=layout(showlegend=True, legend=legend(), **_fault_layout(parts)),
            )


# Caches


def _cache_sections(runs: list[Document]) -> Iterator[Section]:
    yield Section("Cache misses", figures=list(_miss_figures(runs)))
    causes = list(_cause_figures(runs))
    if causes:
        yield Section("Why they miss", [CAUSES_TEXT], causes)


def _shape_sections(runs: list[Document]) -> Iterator[Section]:
    for number, shape in enumerate(_shapes(runs[0])):
        yield Section(
            f"{shape['shape']}: {format_bytes(shape['bytes'])}, {shape['sets']:,} sets of "
            f"{shape['ways']} blocks of {shape['block']} bytes",
            figures=list(_shape_figures(runs, number)),
            tables=[_function_table(runs, number), *_line_tables(runs, number)],
        )


CAUSES_TEXT = (
    "Cold: the first touch of a block. Capacity: what a fully associative cache of the "
    "same size misses beyond that. Conflict: the rest; it is negative where limited "
    "associativity does better than that."
)


def _results(run: Document, block: int, ways: int) -> list[Document]:
    return results_of(run["caches"], block, ways)


@dataclass(frozen=True)
class _Unit:
    """What the misses of a figure are told in."""

    title: str
    axis: str
    hover: str
    caption: str


COUNT = _Unit("misses", "misses", "%{y:,} misses", "")
RATE = _Unit("miss rate", "misses, %", "%{y:.4g} %", " A share of the touches of {}.")


def _unit(runs: list[Document]) -> _Unit:
    return RATE if len(runs) == 1 else COUNT


def _in_unit(runs: list[Document], kind: str, block: int, misses: list[int]) -> list[float | None]:
    share = 100 / touches_of(runs[0][kind], block) if _unit(runs) is RATE else 1
    return [count * share or None for count in misses]


def _miss_figures(runs: list[Document]) -> Iterator[Figure]:
    unit = _unit(runs)
    for block in (one["block"] for one in runs[0]["caches"]["blocks"]):
        for ways in associativities(runs[0]["caches"], block):
            curves: list[Curve] = []
            for run in runs:
                results = _results(run, block, ways)
                misses = _in_unit(runs, "caches", block, [one["misses"] for one in results])
                curves.append((run["allocator"], [one["bytes"] for one in results], misses))
            yield _curves(
                f"misses-{block}-{ways}",
                f"{unit.title.capitalize()}, {kind_of(ways)}, blocks of {block} bytes",
                "Each cache stands alone and sees every reference." + unit.caption.format("blocks"),
                curves,
                f"%{{x:.4s}}B: {unit.hover}",
                _miss_layout(unit, bytes_axis, "cache", curves),
            )


def _miss_layout(
    unit: _Unit, scale: Callable[..., Document], title: str, curves: Sequence[Curve]
) -> Document:
    return {
        "xaxis": scale(title, (x for _, sizes, _ in curves for x in sizes)),
        "yaxis": decades_axis(unit.axis, (y for _, _, misses in curves for y in misses)),
    }


TLBS = (
    "A TLB is a cache whose blocks are pages. Each stands alone, is LRU, and sees every data "
    "reference; instruction fetches and the kernel's own references are not seen."
)


def _tlb_figures(runs: list[Document]) -> Iterator[Figure]:
    for page in (one["block"] for one in runs[0]["tlb"]["blocks"]):
        pages = f"pages of {format_whole_bytes(page)}"
        yield _tlb_figure(
            runs,
            page,
            f"tlb-{page}-fully",
            f"fully associative, {pages}",
            [_fully_associative(run["tlb"], page) for run in runs],
        )
        ways = associativities(runs[0]["tlb"], page)[-1]
        yield _tlb_figure(
            runs,
            page,
            f"tlb-{page}-{ways}",
            f"{kind_of(ways)}, {pages}",
            [
                [(one["sets"] * ways, one["misses"]) for one in results_of(run["tlb"], page, ways)]
                for run in runs
            ],
        )


def _fully_associative(document: Document, page: int) -> list[tuple[int, int]]:
    sizes = tlb_entries(document, page)
    return [(entries, misses_with(document, page, entries)) for entries in sizes]


def _tlb_figure(
    runs: list[Document], page: int, name: str, title: str, curves: list[list[tuple[int, int]]]
) -> Figure:
    """curves: entries and misses, for each run."""
    unit = _unit(runs)
    shown: list[Curve] = []
    for run, curve in zip(runs, curves):
        misses = _in_unit(runs, "tlb", page, [count for _, count in curve])
        shown.append((run["allocator"], [entries for entries, _ in curve], misses))
    caption = "Down and left is better." + unit.caption.format("pages")
    look = _miss_layout(unit, count_axis, "entries", shown)
    title = f"TLB {unit.title}, {title}"
    return _curves(name, title, caption, shown, f"%{{x:,}} entries: {unit.hover}", look)


def _stack(name: str, x: Sequence[Any], y: Sequence[float], fill: str) -> Document:
    return {
        "type": "bar",
        "name": name,
        "x": list(x),
        "y": list(y),
        "marker": {"color": fill},
        "hovertemplate": f"%{{x}}: %{{y:,}} {name}<extra></extra>",
    }


def _stacked(title: str) -> Document:
    return layout(
        barmode="relative",
        xaxis=axis("", type="category"),
        yaxis=axis(title),
        showlegend=True,
        legend=legend(),
    )


def _cause_figures(runs: list[Document]) -> Iterator[Figure]:
    """The first of the simulated block sizes, direct-mapped."""
    block = runs[0]["caches"]["blocks"][0]["block"]
    for place, run in enumerate(runs):
        results = _results(run, block, 1)
        if results[0]["cold"] is None:
            return
        names = [short_bytes(one["bytes"]) for one in results]
        yield Figure(
            name=f"causes-{place}",
            title=f"{run['allocator']}: direct-mapped, blocks of {block} bytes",
            caption="Misses by cause.",
            data=[
                _stack(cause, names, [one[cause] for one in results], fill)
                for cause, fill in CAUSES
            ],
            layout=_stacked("misses"),
        )


def _shape_figures(runs: list[Document], number: int) -> Iterator[Figure]:
    shapes = [_shapes(run)[number] for run in runs]
    names = [plain(run["allocator"]) for run in runs]

    def bars(name: str, title: str, caption: str, parts: Parts, fills: Mapping[str, str]) -> Figure:
        """parts: the misses of each part of a shape."""
        misses = [parts(shape) for shape in shapes]
        data = [
            _stack(key, names, [of.get(key, 0.0) for of in misses], fill)
            for key, fill in fills.items()
        ]
        look = _stacked("misses")
        return Figure(f"shape-{number}-{name}", title, caption, data, look)

    if all(shape["cold"] is not None for shape in shapes):
        said = "Cold, capacity and conflict."
        yield bars("causes", "Misses by cause", said, _by_cause, dict(CAUSES))
    said = "Program, allocator, or the collector's phases."
    fills = _colours(shapes, _by_class)
    yield bars("classes", "Misses by whose reference", said, _by_class, fills)
    if fills := _colours(shapes, _by_region):
        said = "Whose reference, and what it touched."
        yield bars("regions", "Misses by class and region", said, _by_region, fills)
    yield _sets_figure(runs, number)
    yield _windows_figure(runs, number)


Parts = Callable[[Document], dict[str, float]]


def _colours(shapes: list[Document], parts: Parts) -> dict[str, str]:
    """A colour for each part that any of the shapes has."""
    keys = dict.fromkeys(key for shape in shapes for key in parts(shape))
    return {key: colour(place) for place, key in enumerate(keys)}


def _by_cause(shape: Document) -> dict[str, float]:
    return {cause: float(shape[cause]) for cause, _ in CAUSES}


def _by_class(shape: Document) -> dict[str, float]:
    return {key: float(misses) for key, misses in shape["misses_by_class"].items()}


def _by_region(shape: Document) -> dict[str, float]:
    found: dict[str, float] = {}
    for one in shape.get("misses_by_region") or []:
        key = f"{one['class']}, {one['region']}"
        found[key] = found.get(key, 0.0) + one["misses"]
    return found


def _sets_figure(runs: list[Document], number: int) -> Figure:
    caption = "Even is good: peaks are blocks that fight for the same places."
    if _shapes(runs[0])[number]["sets"] > MOST_SETS:
        caption += " The most of each group of sets."
    hover = "set %{x}: %{y:,} misses"
    data = []
    for place, run in enumerate(runs):
        misses = _shapes(run)[number]["misses_by_set"]
        curve = _by_set(misses)
        thin_line = {"width": 1.5}
        data.append(_line(run["allocator"], *curve, place, hover, mode="lines", line=thin_line))
    return Figure(
        f"shape-{number}-sets",
        "Misses by set",
        caption,
        data,
        layout(
            xaxis=axis("set"),
            yaxis=axis("misses", rangemode="tozero"),
            showlegend=True,
            legend=legend(),
        ),
        height=430,
    )


def _windows(run: Document) -> Document:
    found: Document = next(run[kind] for kind in ("caches", "tlb") if kind in run)["windows"]
    return found


def _windows_figure(runs: list[Document], number: int) -> Figure:
    """Misses over time: of one run alone what each window's references cost, of several all misses
    so far, whose last points are what the allocators are compared by."""
    by_bytes = _windows(runs[0])["clock"] == "allocated bytes"
    unit, time = (1 << 20, "MiB allocated") if by_bytes else (1e6, "million references")
    alone = len(runs) == 1
    told = "misses per thousand references" if alone else "misses so far"
    data = []
    for place, run in enumerate(runs):
        windows, misses = _windows(run), _shapes(run)[number]["misses_by_window"]
        values = _window_rates(windows, misses) if alone else list(accumulate(misses, initial=0))
        times = [window * windows["width"] / unit for window in range(len(values))]
        hover = f"%{{x:.4g}} {time}: %{{y{':.4g' if alone else ':,'}}} {told}"
        look = {"mode": "lines", "line": {"width": 1.5, "shape": "hv" if alone else "linear"}}
        data.append(_line(run["allocator"], times, values, place, hover, **look))
    return Figure(
        f"shape-{number}-windows",
        "Misses over time",
        _windows_caption(runs),
        data,
        layout(
            xaxis=axis(time, rangemode="tozero"),
            yaxis=axis("per thousand references" if alone else "misses so far", rangemode="tozero"),
            showlegend=True,
            legend=legend(),
        ),
        height=HEIGHT,
        wide=True,
    )


def _window_rates(windows: Document, misses: list[int]) -> list[float | None]:
    """Windows without references are gaps."""
    return [
        1e3 * count / references if references else None
        for count, references in zip(misses, windows["references"])
    ]


def _windows_caption(runs: list[Document]) -> str:
    if len(runs) > 1:
        return (
            "All misses from the start to here, as the program runs: a steep part is a phase "
            "that costs. Where a line ends is what the allocators are compared by."
        )
    windows = _windows(runs[0])
    by_bytes, width = windows["clock"] == "allocated bytes", windows["width"]
    said = format_bytes(width) if by_bytes else f"{width:,} references"
    text = f"By windows of {said}, as the program runs: phases, and what they cost."
    return text + (" Windows in which nothing was simulated are gaps." if _gaps(runs) else "")


def _gaps(runs: list[Document]) -> bool:
    return any(0 in _windows(run)["references"] for run in runs)


def _by_set(misses: list[int]) -> tuple[list[int], list[int]]:
    group = -(-len(misses) // MOST_SETS)
    starts = list(range(0, len(misses), group))
    return starts, [max(misses[start : start + group]) for start in starts]


# Tables


def _function_table(runs: list[Document], number: int) -> Table:
    rows = []
    for run in runs:
        shape = _shapes(run)[number]
        worst = sorted(shape["misses_by_function"], key=itemgetter("misses"), reverse=True)
        for one in worst[: MOST_FUNCTIONS if len(runs) == 1 else 8]:
            name = one["name"] or f"function {one['function']}"
            share = one["misses"] / shape["misses"]
            rows.append([run["allocator"], name, f"{one['misses']:,}", f"{share:.2%}"])
    header = ["allocator", "function", "misses", "share"]
    return Table("Functions that miss most", header, rows, text_columns=2, folded=True)


def _line_tables(runs: list[Document], number: int) -> Iterator[Table]:
    rows = []
    for run in runs:
        shape = _shapes(run)[number]
        if "misses_by_line" in shape:
            rows += [[run["allocator"], *row] for row in line_table(shape)[1:]]
    if rows:
        header = ["allocator", "line", "function", "misses", "share"]
        yield Table("Lines that miss most", header, rows, text_columns=3, folded=True)


def _tables(runs: list[Document]) -> Iterator[Table]:
    if "pages" in runs[0]:
        yield from _fault_tables(runs)
    if "caches" in runs[0]:
        for title, (header, *rows) in cache_tables(runs):
            yield Table(title, header, rows)
    if "tlb" in runs[0]:
        for title, (header, *rows) in tlb_tables(runs):
            yield Table(title, header, rows)
    rows = []
    for run in runs:
        whole = _any(run)["references"]
        for part in _any(run)["classes"]:
            references = [f"{part['references']:,}", f"{part['references'] / whole:.2%}"]
            rows.append([run["allocator"], part["class"], *references, f"{part['stores']:,}"])
    header = ["allocator", "class", "references", "share", "stores"]
    yield Table("References by class", header, rows, text_columns=2)


def _fault_tables(runs: list[Document]) -> Iterator[Table]:
    for number, first in enumerate(runs[0]["pages"]["pages"]):
        size = first["page_size"]
        parts = [run["pages"]["pages"][number] for run in runs]
        most = max(part["curve"][-1]["frames"] for part in parts)
        rows = []
        for power in range(most.bit_length() + 1):
            faults = [faults_with(part["curve"], 1 << power) - part["cold"] for part in parts]
            rows.append([format_bytes(size << power), *(f"{count:,}" for count in faults)])
        rows.append(["first touches", *(f"{part['cold']:,}" for part in parts)])
        header = ["memory", *(run["allocator"] for run in runs)]
        yield Table(f"Replacement faults, pages of {format_whole_bytes(size)}", header, rows)


# Words


def _advice(runs: list[Document], threaded: bool) -> Iterator[Sentence]:
    yield from sentences(runs)
    for run in runs:
        if "simulated" in run:
            yield Sentence("note", "Whose references", f"{describe_line(run)}.")
        shares = {
            part["class"]: part["references"] / _any(run)["references"]
            for part in _any(run)["classes"]
        }
        if len(shares) > 1:
            listed = ", ".join(f"{name} {share:.1%}" for name, share in shares.items())
            said = f"{_any(run)['references']:,}, of which {listed}."
            yield Sentence("finding", f"References under {run['allocator']}", said)
    yield from _samples(runs[0])
    if not all(_any(run)["whole"] for run in runs):
        yield CUT_SHORT
    if only := filter_text(_any(runs[0])):
        yield Sentence("note", "Only a part", f"of all references these were simulated: {only}.")
    if threaded:
        yield Sentence("note", "Threads", f"the program has several: {THREADED}.")
    yield Sentence(
        "note",
        "What is seen",
        "data references of the program's own code, by virtual address; the kernel's and "
        "instruction fetches are not.",
    )


def _samples(run: Document) -> Iterator[Sentence]:
    """A trace alone is sampled, so there is one run."""
    parts = [
        (f"pages of {format_whole_bytes(page['page_size'])}", page)
        for page in run.get("pages", {}).get("pages", [])
    ]
    blocks = run.get("caches", {}).get("blocks", [])
    parts += [(f"blocks of {block['block']} bytes", block) for block in blocks]
    for of, part in parts:
        if line := describe_sample(part):
            yield Sentence("note", "Sample", f"{of}: {line}.")
