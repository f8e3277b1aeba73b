# SPDX-License-Identifier: MIT
"""What the page of a comparison says of the heap: what its memory consisted of, its course over
time, collections and their pauses, and where and in what sizes the program allocates."""

from typing import Any, Callable, Mapping, Sequence

from ...output.page import SERIES, Figure, Section, Table, axis, colour, layout, plain
from ...output.plots import WASTE_TITLES, legend, stacked_layout
from ...output.units import MEBIBYTE, format_bytes, format_nanoseconds, short_bytes
from ...system.native import by_power
from .collector import causes_in_words, collected, given_up_in_words, kinds, least_running

Document = Mapping[str, Any]
Result = dict[str, Any]

# What a heap's memory consists of when the program holds most, and the colour of each part.
PARTS = (
    ("requested", "asked for by the program", "var(--part-0)"),
    *(
        (key, title, f"var(--part-{place})")
        for place, (key, title) in enumerate(WASTE_TITLES.items(), start=1)
    ),
)


# What it is made of


def waste_section(document: Document, prefix: str) -> Section:
    """What the heap's memory consisted of when the program asked for most."""
    known = [one for one in document["results"] if one.get("heap") and one["heap"]["waste"]]
    paragraphs = _no_account(document, [one["spec"] for one in known])
    if not known:
        return Section("What the heap is made of", paragraphs or ["No account was taken."])
    names = [plain(one["spec"]) for one in known]
    bars = [
        {
            "type": "bar",
            "orientation": "h",
            "name": title,
            "y": names,
            "x": [(_part(one["heap"], key) or 0) / MEBIBYTE for one in known],
            "text": [format_bytes(_part(one["heap"], key) or 0) for one in known],
            "textposition": "none",
            "marker": {"color": fill, "line": {"color": "var(--panel)", "width": 1}},
            "hovertemplate": f"<b>%{{y}}</b><br>{title}: %{{text}}<extra></extra>",
        }
        for key, title, fill in PARTS
    ]
    figure = Figure(
        name=f"{prefix}waste",
        title="The heap when the program asked for most",
        caption="Headers and rounding are paid for every block; external is free room between "
        "blocks; cached is freed memory kept for reuse by size or by thread. "
        "Untouched parts of it may not be resident.",
        data=bars,
        layout=stacked_layout(legend(traceorder="normal")),
        height=200 + 46 * len(known),
    )
    return Section("What the heap is made of", paragraphs, [figure], [_heap_table(known)])


def _part(heap: Result, key: str) -> float | None:
    value = heap["at_peak"]["requested_bytes"] if key == "requested" else heap["waste"].get(key)
    return None if value is None else float(value)


def _no_account(document: Document, known: Sequence[str]) -> list[str]:
    without = [one for one in document["results"] if one["spec"] not in known]
    foreign = [one["spec"] for one in without if not one["heap_missing"]]
    lines = [f"{one['spec']}: {one['heap_missing']}." for one in without if one["heap_missing"]]
    if foreign:
        lines.append(
            f"No account of the heap exists for {', '.join(foreign)}; only allotrope's "
            "own allocators that ran keep one."
        )
    return lines


def _heap_table(known: Sequence[Result]) -> Table:
    def size(value: float | None) -> str:
        return "–" if value is None else format_bytes(value)

    rows = []
    for one in known:
        heap = one["heap"]
        live = (heap.get("live") or {}).get("requested_bytes")
        fragmentation = heap["fragmentation"]
        rows.append(
            [
                one["spec"],
                size(heap["requested_peak_bytes"]),
                size(heap["mapped_peak_bytes"]),
                "–" if fragmentation is None else f"{fragmentation:.2f}",
                size(live),
                *(size(_part(heap, key)) for key, _, _ in PARTS[1:]),
            ]
        )
    parts = [title for _, title, _ in PARTS[1:]]
    header = ["allocator", "asked for at most", "heap at most", "ratio", "held at exit", *parts]
    return Table("The heap's own account", header, rows)


# Over time


def timeline_sections(document: Document, prefix: str) -> list[Section]:
    """Heap and resident memory over time, of the run that took the account."""
    known = [
        (place, one)
        for place, one in enumerate(document["results"])
        if one.get("heap") and one["heap"].get("timeline")
    ]
    if not known:
        return []
    heap = _over_time(
        f"{prefix}heap-over-time",
        "The heap",
        "mapped_bytes",
        known,
        "What each heap holds of the kernel's memory; grey: what the program has asked for and "
        "not freed. What lies between is waste. A mark is where collections were since the point "
        "before: a circle where all of them were minor, else a diamond.",
    )
    resident = _over_time(
        f"{prefix}resident-over-time",
        "The heap, resident",
        "resident_bytes",
        known,
        "The part of each heap that is in memory; pages that were never touched, or were given "
        "back, are not.",
    )
    said = "Taken inside the program, in the run that keeps the account, which is slower than one "
    return [Section("Over time", [f"{said}without."], [heap, resident], [_timeline_table(known)])]


def _timeline_table(known: Sequence[tuple[int, Result]]) -> Table:
    """The figures behind the pictures, at tenths of each run."""
    titles = {"requested_bytes": "asked for", "mapped_bytes": "heap", "resident_bytes": "resident"}
    rows = []
    for _, one in known:
        times = one["heap"]["timeline"]
        last = len(times["seconds"]) - 1
        places = [round(last * tenth / 10) for tenth in range(11)]
        for key, title in titles.items():
            rows.append([one["spec"], title, *(format_bytes(times[key][at]) for at in places)])
        for key in ("collections", "minor_collections"):
            if any(times.get(key, ())):
                counts = (f"{times[key][at]:,}" for at in places)
                rows.append([one["spec"], key.replace("_", " "), *counts])
    header = ["allocator", "so far, or bytes", *(f"{tenth}/10" for tenth in range(11))]
    return Table("At tenths of the points", header, rows, text_columns=2, folded=True)


def _over_time(
    name: str, title: str, quantity: str, known: Sequence[tuple[int, Result]], caption: str
) -> Figure:
    place, longest = max(known, key=lambda one: len(one[1]["heap"]["timeline"]["seconds"]))
    times = longest["heap"]["timeline"]
    data: list[dict[str, Any]] = [
        {
            "type": "scatter",
            "mode": "lines",
            "name": "asked for",
            "x": times["seconds"],
            "y": [value / MEBIBYTE for value in times["requested_bytes"]],
            "line": {"color": "var(--part-0)", "width": 1},
            "fill": "tozeroy",
            "fillcolor": "var(--line)",
            "hovertemplate": "<b>asked for</b><br>%{x:.3f} s: %{y:.1f} MiB<extra></extra>",
        }
    ]
    for place, one in known:
        times = one["heap"]["timeline"]
        dash = "solid" if place < SERIES else "dash"
        data.append(
            {
                "type": "scatter",
                "mode": "lines",
                "name": plain(one["spec"]),
                "x": times["seconds"],
                "y": [value / MEBIBYTE for value in times[quantity]],
                "line": {"color": colour(place), "width": 1.5, "dash": dash, "shape": "hv"},
                "hovertemplate": f"<b>{plain(one['spec'])}</b><br>%{{x:.3f}} s: %{{y:.1f}} MiB"
                "<extra></extra>",
            }
        )
    data += [marks for place, one in known if (marks := _collection_marks(place, one, quantity))]
    return Figure(
        name=name,
        title=title,
        caption=caption,
        data=data,
        layout=layout(
            xaxis=axis("s after the start"),
            yaxis=axis("MiB", rangemode="tozero"),
            showlegend=True,
            legend=legend(),
        ),
        height=380,
    )


def _collection_marks(place: int, one: Result, quantity: str) -> dict[str, Any] | None:
    times = one["heap"]["timeline"]
    found = collected(times)
    if not found:
        return None
    spec = plain(one["spec"])
    return {
        "type": "scatter",
        "mode": "markers",
        "name": f"{spec}, collections",
        "showlegend": False,
        "x": [times["seconds"][one.place] for one in found],
        "y": [times[quantity][one.place] / MEBIBYTE for one in found],
        "text": [one.in_words() for one in found],
        "marker": {
            "color": colour(place),
            "size": 7,
            "symbol": ["diamond" if one.full else "circle-open" for one in found],
        },
        "hovertemplate": f"<b>{spec}</b><br>%{{x:.3f}} s: %{{text}}<extra></extra>",
    }


# Collections


def collector_sections(document: Document, prefix: str) -> list[Section]:
    """Collections and the pauses that they made, of the run that took the account."""
    known = [
        (place, one, one["heap"]["collector"])
        for place, one in enumerate(document["results"])
        if one.get("heap") and one["heap"].get("collector")
    ]
    if not known:
        return []
    rows = [
        [
            one["spec"],
            f"{gc['collections']:,}",
            causes_in_words(gc["causes"]),
            given_up_in_words(gc),
            format_nanoseconds(gc["pause_ns"]),
            format_nanoseconds(gc["longest_pause_ns"]),
            least_running(gc) or "–",
            _if_known(gc, "longest_stop_ns", format_nanoseconds),
            _spent(gc, "root_ns", "root_bytes", "root_indirect_bytes"),
            _spent(gc, "mark_ns", "marked_bytes"),
            _if_known(gc, "marked_bytes", format_bytes),
            _if_known(gc, "freed_bytes", format_bytes),
        ]
        for _, one, gc in known
    ]
    header = ["allocator", "collections", "why", "given up", "paused in all", "longest pause"]
    header += [
        "least running in 1, 10, 100 ms",
        "longest to stop",
        "reading roots",
        "marking",
        "marked",
        "reclaimed",
    ]
    pauses = [(place, one["spec"], gc["pauses"]) for place, one, gc in known if gc["pauses"]]
    idle = [one["spec"] for _, one, gc in known if not gc["collections"]]
    paragraphs = [f"{', '.join(idle)}: no collection came due."] if idle else []
    figures = [_pauses(prefix, pauses)] if pauses else []
    tables = [Table("Collections", header, rows)]
    by_kind = [row for _, one, gc in known for row in _kind_rows(one["spec"], gc)]
    if by_kind:
        paragraphs.append(
            "By kind: a minor collection follows young blocks and what was written; most of a "
            "cycle is marked in slices, in which only the thread stands that allocates. The last "
            "stop of a cycle counts as full."
        )
        tables.append(Table("Pauses by kind", KIND_HEADER, by_kind, text_columns=2))
    generations = [
        _generation_row(one["spec"], gc) for _, one, gc in known if gc.get("generations")
    ]
    if generations:
        tables.append(Table("Generations and cycles", GENERATION_HEADER, generations))
    return [Section("Collections", paragraphs, figures, tables)]


KIND_HEADER = ["allocator", "kind", "number", "in all", "longest", "mean"]
KIND_HEADER += ["stopping", "roots", "marking", "sweeping"]


def _kind_rows(spec: str, gc: Mapping[str, Any]) -> list[list[str]]:
    return [
        [
            spec,
            kind.name,
            f"{kind.count:,}",
            format_nanoseconds(kind.time_ns),
            format_nanoseconds(kind.longest_ns),
            format_nanoseconds(kind.time_ns / kind.count),
            *([format_nanoseconds(time) for time in kind.phases_ns.values()] or ["–"] * 4),
        ]
        for kind in kinds(gc)
    ]


GENERATION_HEADER = ["allocator", "dirty pages", "read again", "promoted", "pages protected"]
GENERATION_HEADER += ["cycles", "given up", "dirty at last stops"]


def _generation_row(spec: str, gc: Mapping[str, Any]) -> list[str]:
    generations, cycles = gc["generations"], gc.get("cycles")
    return [
        spec,
        f"{generations['dirty_pages']:,}",
        format_bytes(generations["rescanned_bytes"]),
        format_bytes(generations["promoted_bytes"]),
        f"{generations['protected_pages']:,}",
        *(f"{cycles[key]:,}" if cycles else "–" for key in ("begun", "given_up", "last_pages")),
    ]


def _if_known(gc: Mapping[str, int], key: str, shown: Callable[[float], str]) -> str:
    """gc:classic counts less than gc."""
    return shown(gc[key]) if key in gc else "–"


def _spent(gc: Mapping[str, int], time: str, *sizes: str) -> str:
    """How long a phase took in all, and how much it went through a second."""
    spent = _if_known(gc, time, format_nanoseconds)
    size = sum(gc.get(key, 0) for key in sizes)
    return f"{spent} ({format_bytes(size / gc[time] * 1e9)}/s)" if gc.get(time) else spent


def _pauses(prefix: str, known: Sequence[tuple[int, str, Mapping[str, int]]]) -> Figure:
    """As the collector counts them: by powers of two of microseconds."""
    counts = [(place, spec, by_power(pauses)) for place, spec, pauses in known]
    every = [power for _, _, found in counts for power in found]
    span = range(min(every), max(every) + 1)
    names = [format_nanoseconds(1000 * 2**power) for power in span]
    return Figure(
        name=f"{prefix}pauses",
        title="Pauses",
        caption="How many collections stopped the program for so long or longer, and less than "
        "the bar to the right.",
        data=[
            {
                "type": "bar",
                "name": plain(spec),
                "x": names,
                "y": [found.get(power, 0) for power in span],
                "marker": {"color": colour(place)},
                "hovertemplate": f"<b>{plain(spec)}</b><br>%{{y:,}} from %{{x}}<extra></extra>",
            }
            for place, spec, found in counts
        ],
        layout=layout(
            xaxis=axis("", type="category"),
            yaxis=axis("collections", rangemode="tozero"),
            bargap=0.2,
            showlegend=len(counts) > 1,
            legend=legend(),
        ),
    )


# Where the program allocates


def sites_sections(document: Document, prefix: str) -> list[Section]:
    """Where the program allocates, and in what sizes: its own doing under every allocator."""
    heaps = (one.get("heap") or {} for one in document["results"])
    sizes = next((heap["sizes"] for heap in heaps if heap.get("sizes")), None)
    found = document.get("sites")
    if not sizes and not found:
        return []
    figures = [_size_histogram(prefix, sizes)] if sizes else []
    tables, paragraphs = [], []
    if found:
        text = (
            f"Estimated from {found['samples']:,} sampled allocations of {found['command']}; "
            "allotrope sites shows it in full, with flame graphs."
        )
        if "peak_range_bytes" in found:  # comparisons of before have none
            low, high = map(format_bytes, found["peak_range_bytes"])
            text += f" The most that it held is known to lie between {low} and {high} from these."
        paragraphs.append(text)
        for moment, title in (("peak", "Held when the program held most"), ("exit", "Never freed")):
            rows = [
                [
                    row["place"],
                    row["called_by"] or "–",
                    format_bytes(row["bytes"]),
                    f"{row['blocks']:,}",
                ]
                for row in found[moment]
            ]
            if rows:
                header = ["allocated at", "called by", "bytes", "blocks"]
                tables.append(Table(title, header, rows, text_columns=2))
    return [Section("Where the program allocates", paragraphs, figures, tables)]


def _size_histogram(prefix: str, sizes: Mapping[str, int]) -> Figure:
    powers = by_power(sizes)
    span = range(min(powers), max(powers) + 1)
    names = [short_bytes(1 << power).removesuffix("B") for power in span]
    return Figure(
        name=f"{prefix}sizes",
        title="Sizes asked for",
        caption="How many allocations asked for at most so many bytes, and more than the bar to "
        "the left; the axis is logarithmic.",
        data=[
            {
                "type": "bar",
                "x": names,
                "y": [powers.get(power) for power in span],
                "marker": {"color": "var(--part-1)"},
                "hovertemplate": "up to %{x}: %{y:,} allocations<extra></extra>",
            }
        ],
        layout=layout(
            xaxis=axis("bytes", type="category"),
            yaxis=axis("allocations", type="log", dtick=1),
            bargap=0.1,
        ),
    )
