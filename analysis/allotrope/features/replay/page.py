# SPDX-License-Identifier: MIT
"""The page of `allotrope replay`, from its JSON (docs/events-format.md)."""

from typing import Any

from ...output.page import (
    Figure,
    Page,
    Section,
    Table,
    axis,
    colour,
    layout,
    plain,
    recorded_command,
    symbol,
)
from ...output.plots import WASTE_TITLES, legend, stacked_bars, stacked_layout
from ...output.sentences import counted
from ...output.units import MEBIBYTE, format_bytes, format_nanoseconds
from .advice import advice
from .measure import notes

Document = dict[str, Any]


def replay_page(document: Document) -> Page:
    played = [one for one in document["results"] if one["failure"] is None]
    resident = [one for one in played if one["rss_growth_bytes"] is not None]
    return Page(
        title="One program's allocations under every allocator",
        command=recorded_command(document),
        subtitle=f"Replay of {document['file']}: {document['objects']:,} objects, at most "
        f"{format_bytes(document['most_live_bytes'])} live; {counted(document['rounds'], 'round')}",
        advice=advice(document),
        sections=[
            Section("Time against memory", figures=[trade_off(resident)] if resident else []),
            Section("The heap", figures=[heap_figure(document, played)] if played else []),
            Section("Figures", method(document), tables=[results_table(document)]),
        ],
    )


def method(document: Document) -> list[str]:
    return [
        "Times are of the calls and of writing once to each page of each block. RSS growth is "
        "the most that was resident, less what was before the first call. The heap's peak is the "
        "allocator's own account, its metadata included.",
        *notes(document),
    ]


def trade_off(played: list[Document]) -> Figure:
    data = [
        {
            "type": "scatter",
            "mode": "markers",
            "name": plain(one["allocator"]),
            "x": [one["rss_growth_bytes"] / MEBIBYTE],
            "y": [one["cpu_seconds"]],
            "marker": {"color": colour(place), "symbol": symbol(place), "size": 12},
            "hovertemplate": f"<b>{plain(one['allocator'])}</b><br>%{{x:.4g}} MiB, %{{y:.3f}} s"
            "<extra></extra>",
        }
        for place, one in enumerate(played)
    ]
    return Figure(
        "trade-off",
        "Processor time against resident memory",
        "Down is faster, left is leaner.",
        data,
        layout(
            xaxis=axis("RSS growth, MiB", rangemode="tozero"),
            yaxis=axis("s", rangemode="tozero"),
            showlegend=True,
            legend=legend(),
        ),
        height=400,
    )


def heap_figure(document: Document, played: list[Document]) -> Figure:
    known = [one for one in played if one["waste"] is not None]
    names = [plain(one["allocator"]) for one in known]
    live = document["most_live_bytes"] / MEBIBYTE
    hover = "%{x:.4g} MiB<extra></extra>"
    asked = [live] * len(known)
    data = [stacked_bars("asked for", names, asked, "var(--part-0)", f"%{{y}}: {hover}")]
    for place, (key, title) in enumerate(WASTE_TITLES.items(), start=1):
        sizes = [(one["waste"].get(key) or 0) / MEBIBYTE for one in known]
        fill = f"var(--part-{place})"
        data.append(stacked_bars(title, names, sizes, fill, f"%{{y}}, {title}: {hover}"))
    return Figure(
        "heap",
        "The heap when the program asked for most",
        "Only allotrope's own allocators keep this account.",
        data,
        stacked_layout(legend(traceorder="normal")),
        height=160 + 34 * len(known),
    )


def results_table(document: Document) -> Table:
    def size(value: int | None) -> str:
        return "–" if value is None else format_bytes(value)

    rows = []
    for one in document["results"]:
        if one["failure"] is not None:
            rows.append([one["allocator"], "failed", one["failure"], "", "", ""])
            continue
        ratio = one["heap_to_live"]
        rows.append(
            [
                one["allocator"],
                size(one["heap_peak_bytes"]),
                "–" if ratio is None else f"{ratio:.2f}",
                size(one["rss_growth_bytes"]),
                format_nanoseconds(1e9 * one["cpu_seconds"]),
                f"{one['minor_faults']:,}",
            ]
        )
    header = ["allocator", "heap peak", "of live", "RSS growth", "CPU", "minor faults"]
    return Table("What each allocator needed", header, rows)
