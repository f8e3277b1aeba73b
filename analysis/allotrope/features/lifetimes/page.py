# SPDX-License-Identifier: MIT
"""The page of `allotrope lifetimes`, from its JSON (docs/events-format.md)."""

from typing import Any, Callable, Sequence

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
)
from ...output.plots import (
    bytes_axis,
    count_axis,
    decades_axis,
    legend,
    stacked_bars,
    stacked_layout,
    times_axis,
)
from ...output.sentences import CUT_SHORT, Sentence, of_lost_events
from ...output.units import MEBIBYTE, format_bytes, short_bytes
from .output import GROUP_COLUMNS, clock_text, group_cells, stack_text, summary, title_of

Document = dict[str, Any]
MOST_SITES = 40
MOST_NAME = 26  # letters of a site beside its bar, on a telephone
AGE_AXES: dict[str, Callable[[str, Sequence[float]], dict[str, Any]]] = {
    "bytes": bytes_axis,
    "nanoseconds": times_axis,
    "instructions": count_axis,
}
SITE_NAMES = (
    "Named by the function that holds the call, or by the place in the file where that has no "
    "names."
)


def lifetimes_page(found: Document) -> Page:
    recorded = (found["description"] or {}).get("recorded", "")
    return Page(
        title="How long objects live",
        command=recorded_command(found),
        subtitle=f"{recorded} {found['file']}, {found['objects']:,} objects",
        advice=advice(found),
        sections=[
            Section("Survival", figures=survival_figures(found)),
            Section("Over the run", figures=rate_figures(found)),
            Section("By size", figures=[size_figure(found)], tables=[size_table(found)]),
            Section("By site", [SITE_NAMES], [site_figure(found)], [site_table(found)]),
            Section("Figures", tables=[survival_table(found), totals_table(found)]),
        ],
    )


def advice(found: Document) -> list[Sentence]:
    """What the figures say, in words."""
    curve = found["survival"][0]
    at = {int(point["age"]): point["share"] for point in curve["at"]}
    age = 100_000 if 100_000 in at else max(at, default=0)
    sentences = [Sentence("choice", "Objects", text) for text in summary(found)[:1]]
    if age:
        text = (
            f"{1 - at[age]:.2%} of the objects are freed before {clock_text('bytes', age)} more "
            "have been allocated."
        )
        sentences.append(Sentence("finding", "Young deaths", text))
    never = found["live_bytes"] / max(sum(row["bytes"] for row in found["sizes"]), 1)
    sentences.append(
        Sentence(
            "finding",
            "Never freed",
            f"{found['live_objects']:,} objects of "
            f"{format_bytes(found['live_bytes'])} were live at the end, {never:.2%} of all bytes.",
        )
    )
    if not found["whole"]:
        sentences.append(CUT_SHORT)
    sentences += of_lost_events(found)
    if found["threads"] > 1:
        sentences.append(Sentence("note", "Threads", summary(found)[-1]))
    return sentences


def survival_figures(found: Document) -> list[Figure]:
    figures = []
    for first in range(0, len(found["survival"]), 2):
        pair = found["survival"][first : first + 2]
        clock = pair[0]["clock"]
        data = [
            {
                "type": "scatter",
                "mode": "lines",
                "name": f"share of {curve['weight']}",
                "x": [point["age"] for point in curve["points"]],
                "y": [100 * point["share"] for point in curve["points"]],
                "line": {"color": colour(place), "width": 2, "shape": "hv", "dash": dash},
                "hovertemplate": "%{x:.3s}: %{y:.4g} %<extra></extra>",
            }
            for place, (curve, dash) in enumerate(zip(pair, ("solid", "dash")))
        ]
        ages = [point["age"] for curve in pair for point in curve["points"]]
        shares = [100 * point["share"] for curve in pair for point in curve["points"]]
        figures.append(
            Figure(
                name=f"survival-{clock}",
                title=f"Survival by {title_of(clock)}",
                caption="How much outlives an age: in objects, and in their bytes. What is never "
                "freed stays to the right.",
                data=data,
                layout=layout(
                    xaxis=AGE_AXES[clock](f"age: {title_of(clock)}", ages),
                    yaxis=decades_axis("survive, %", shares),
                    showlegend=True,
                    legend=legend(),
                ),
                height=380,
            )
        )
    return figures


def rate_figures(found: Document) -> list[Figure]:
    clock = found["clock"]
    scale, unit = (1e9, "s") if clock == "nanoseconds" else (1e6, "million instructions")
    x = [row["until"] / scale for row in found["rates"]]
    live = {
        "type": "scatter",
        "mode": "lines",
        "x": x,
        "y": [row["live_bytes"] / MEBIBYTE for row in found["rates"]],
        "line": {"color": colour(0), "width": 2},
        "fill": "tozeroy",
        "hovertemplate": "%{x:.3g}: %{y:.4g} MiB<extra></extra>",
    }
    rate = {
        "type": "bar",
        "x": x,
        "y": [row["allocated"] for row in found["rates"]],
        "marker": {"color": colour(1)},
        "hovertemplate": "%{x:.3g}: %{y:,} objects<extra></extra>",
    }
    return [
        Figure(
            "live",
            "Live bytes",
            "What the program holds, in bytes asked for.",
            [live],
            layout(xaxis=axis(unit), yaxis=axis("MiB", rangemode="tozero")),
        ),
        Figure(
            "rate",
            "Allocations",
            "Objects allocated in each hundredth of the run.",
            [rate],
            layout(xaxis=axis(unit), yaxis=axis("objects"), bargap=0),
        ),
    ]


def size_figure(found: Document) -> Figure:
    names = [short_bytes(row["to"]).removesuffix("B") for row in found["sizes"]]
    whole = {key: max(sum(row[key] for row in found["sizes"]), 1) for key in ("objects", "bytes")}
    data = [
        {
            "type": "bar",
            "name": f"share of {key}",
            "x": names,
            "y": [100 * row[key] / whole[key] for row in found["sizes"]],
            "marker": {"color": colour(place)},
            "hovertemplate": "up to %{x}: %{y:.3g} %<extra></extra>",
        }
        for place, key in enumerate(("objects", "bytes"))
    ]
    return Figure(
        "sizes",
        "Sizes",
        "The largest size that each object was asked for; sizes that none had are left out.",
        data,
        layout(
            xaxis=axis("up to so many bytes", type="category"),
            yaxis=axis("%"),
            showlegend=True,
            legend=legend(),
        ),
    )


def site_figure(found: Document) -> Figure:
    shown = found["sites"][:15]
    lost = [row["never_freed_bytes"] for row in shown]
    freed = [row["bytes"] - row["never_freed_bytes"] for row in shown]
    names = [f"{place + 1}. {plain(_short(row['name']))}" for place, row in enumerate(shown)]
    parts = (("freed", "var(--part-0)", freed), ("never freed", "var(--part-4)", lost))
    data = [
        stacked_bars(
            title,
            names,
            [value / MEBIBYTE for value in values],
            fill,
            f"%{{y}}: %{{x:.4g}} MiB {title}<extra></extra>",
        )
        for title, fill, values in parts
    ]
    return Figure(
        "sites",
        "Bytes by site",
        "The fifteen sites that asked for most.",
        data,
        stacked_layout(legend()),
        height=140 + 24 * len(shown),
    )


def _short(name: str) -> str:
    return name if len(name) <= MOST_NAME else f"{name[: MOST_NAME - 1]}…"


def _cells(row: Document) -> list[str]:
    return [*group_cells(row), format_bytes(row["never_freed_bytes"])]


HEADINGS = [*GROUP_COLUMNS, "bytes never freed"]


def size_table(found: Document) -> Table:
    rows = [[format_bytes(row["to"]), *_cells(row)] for row in found["sizes"]]
    return Table("Objects by size", ["up to", *HEADINGS], rows, folded=True)


def site_table(found: Document) -> Table:
    rows = [[stack_text(row), *_cells(row)] for row in found["sites"][:MOST_SITES]]
    caption = f"Sites: {len(rows)} of {len(found['sites'])}"
    return Table(caption, ["site", *HEADINGS], rows, folded=True)


def survival_table(found: Document) -> Table:
    rows = [
        [
            title_of(curve["clock"]),
            curve["weight"],
            clock_text(curve["clock"], point["age"]),
            f"{point['share']:.4%}",
        ]
        for curve in found["survival"]
        for point in curve["at"]
    ]
    header = ["clock", "of", "age", "share"]
    return Table("Share that outlives an age", header, rows, text_columns=2)


def totals_table(found: Document) -> Table:
    keys = ["objects", "frees", "resizes", "bytes", "live_objects", "live_bytes"]
    keys += ["most_live_objects", "most_live_bytes"]
    keys += ["threads", "freed_by_another_thread", "unknown_frees", "lost_frees"]
    return Table("Totals", [], [[key.replace("_", " "), f"{found[key]:,}"] for key in keys])
