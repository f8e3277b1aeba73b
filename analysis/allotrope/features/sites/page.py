# SPDX-License-Identifier: MIT
"""The page of `allotrope sites`: a flame graph of the peak, and where the rest came from."""

from dataclasses import dataclass, field
from typing import Sequence

from ...output.page import Figure, Page, Section, Table, axis, colour, layout, plain
from ...output.plots import legend
from ...output.units import MEBIBYTE, format_bytes
from .measure import Site, Sites, Tally
from .output import callers, sentences, share
from .timeline import Part, Timeline, places_over_time, sizes_over_time

MOST_ROWS = 30
# A box of the flame graph that is less than this of the whole is not drawn by itself.
LEAST_SHARE = 0.002
# How high a box is, in pixels. In a lower one the function's name has no room.
BOX_HEIGHT, LOWEST_BOX, USUAL_HEIGHT = 26, 19, 660
TITLES = {
    "peak": "When the program held most",
    "exit": "Never freed",
    "total": "All that was allocated",
}


@dataclass
class Node:
    """A box of the flame graph: a caller, under those who called it."""

    name: str
    size: int = 0
    children: dict[str, "Node"] = field(default_factory=dict)


def tree(sites: Sequence[Site], moment: str) -> Node:
    """All stacks from the outermost caller inwards, with the bytes of `moment`."""
    root = Node("all")
    for site in sites:
        size = site.at(moment).bytes
        if not size:
            continue
        node = root
        node.size += size
        for place in reversed(site.shown_places()):
            node = node.children.setdefault(str(place), Node(str(place)))
            node.size += size
    return root


def flame_graph(found: Sites, moment: str) -> Figure | None:
    """A figure in plotly's terms; None when there is nothing to draw."""
    root = tree(found.sites, moment)
    if not root.size:
        return None
    names, parents, sizes, fills, depth = [], [], [], [], 0
    ids: list[str] = []
    stack: list[tuple[Node, str, int]] = [(root, "", 0)]
    while stack:
        node, parent, level = stack.pop()
        own = str(len(ids))  # the path would make the page grow with the square of the depth
        names.append(node.name)
        parents.append(parent)
        sizes.append(node.size)
        ids.append(own)
        fills.append("var(--part-0)" if level == 0 else f"var(--flame-{hash_of(node.name) % 5})")
        depth = max(depth, level)
        for child in node.children.values():
            if child.size >= LEAST_SHARE * root.size:
                stack.append((child, own, level + 1))
    return Figure(
        name=f"flames-{moment}",
        title="By function",
        caption="Each box is a function, as wide as what was allocated in it and in what it calls; "
        "above it is who called it. The lowest box called malloc. Click a box to look into it, "
        "click the top one to come back.",
        data=[
            {
                "type": "icicle",
                "ids": ids,
                "labels": [plain(short(name)) for name in names],
                "parents": parents,
                "values": sizes,
                "branchvalues": "total",
                "sort": True,
                "tiling": {"orientation": "v"},
                "marker": {"colors": fills, "line": {"color": "var(--panel)", "width": 1}},
                "textfont": {"color": "var(--flame-ink)"},
                "pathbar": {"visible": False},
                "customdata": [
                    [plain(name), format_bytes(size), share(size, root.size)]
                    for name, size in zip(names, sizes)
                ],
                "hovertemplate": "<b>%{customdata[0]}</b><br>%{customdata[1]}, %{customdata[2]}"
                "<extra></extra>",
            }
        ],
        layout=layout(
            margin={"l": 0, "r": 0, "t": 0, "b": 0}, uniformtext={"minsize": 9, "mode": "hide"}
        ),
        height=flames_height(depth + 1),
        wide=True,
    )


def flames_height(levels: int) -> int:
    return 60 + levels * max(LOWEST_BOX, min(BOX_HEIGHT, USUAL_HEIGHT // levels))


def hash_of(name: str) -> int:
    """The same colour for the same function on every page."""
    value = 0
    for letter in name.partition(" (")[0]:
        value = (value * 31 + ord(letter)) & 0xFFFFFFFF
    return value


def short(name: str) -> str:
    """What fits into a box: templates and arguments are for the hover."""
    bare = name.partition(" (")[0].partition("(")[0]
    return bare if len(bare) <= 60 else bare[:57] + "..."


def figures_of(tally: Tally, whole: int) -> list[str]:
    """Bytes, their share, and blocks."""
    return [format_bytes(tally.bytes), share(tally.bytes, whole), f"{tally.blocks:,}"]


def table(found: Sites, moment: str) -> Table:
    whole = sum(site.at(moment).bytes for site in found.sites)
    rows = [
        [name, *figures_of(tally, whole), callers(site) or "–"]
        for name, tally, site in found.by_place(moment)[:MOST_ROWS]
    ]
    header = ["allocated at", "bytes", "share", "blocks", "called by (of the largest)"]
    return Table("By place of allocation", header, rows, folded=moment == "total")


def sampling(found: Sites) -> str:
    if found.is_exact:
        return "every allocation was looked at"
    return f"estimated from {found.raw['samples']:,} samples"


def sites_page(found: Sites, command: str, date: str, over_time: Timeline | None = None) -> Page:
    sections = timeline_sections(found, over_time) if over_time else []
    for moment, title in TITLES.items():
        figure = flame_graph(found, moment)
        if figure is None:
            sections.append(Section(title, ["Nothing."]))
            continue
        tables = [table(found, moment)]
        sections.append(Section(title, figures=[figure], tables=tables))
    allocator = found.raw["allocator"]
    if found.raw["preset"] not in ("default", None):
        allocator += f":{found.raw['preset']}"
    settings: list[Sequence[str]] = [
        ["process", f"{found.raw['command']}, pid {found.raw['pid']}"],
        ["processes that wrote what they saw", str(found.processes)],
        ["allocator", allocator],
        ["samples", f"{found.raw['samples']:,}"],
        ["bytes between samples, at the end", format_bytes(found.raw["rate_bytes"])],
        ["callers kept", str(found.raw["frames"])],
    ]
    sampled = Table("Sampling", [], settings, words=True)
    sections.append(Section("How it was looked at", tables=[sampled]))
    return Page(
        title="Where the memory is",
        subtitle=f"{date}, under {allocator}; {sampling(found)}",
        advice=sentences(found),
        sections=sections,
        command=command,
    )


def timeline_sections(found: Sites, over_time: Timeline) -> list[Section]:
    """What was held over time: by place of allocation, and by size."""
    if len(over_time.seconds) < 2:
        return []
    by_place, by_size = places_over_time(found, over_time), sizes_over_time(over_time)
    read = (
        "Drag over a stretch of time to look into it, or move the ends of the strip below; "
        "double-click to come back. Click a name to take it out, double-click it to see it alone."
    )
    figures = [
        _areas("held-by-place", "By place of allocation", read, over_time.seconds, by_place),
        _areas(
            "held-by-size",
            "By size of block",
            f"Sizes are what was asked for, in powers of two. {read}",
            over_time.seconds,
            by_size,
        ),
    ]
    return [
        Section(
            "Held over time",
            [
                "Seen from outside while the program ran; what it held for less than the time "
                "between two looks may be missing."
            ],
            figures,
            [_timeline_table(over_time.seconds, [*by_place, *by_size])],
        )
    ]


def _areas(
    name: str, title: str, caption: str, seconds: Sequence[float], parts: Sequence[Part]
) -> Figure:
    titles = [short(part.name) for part in parts]
    data = [
        {
            "type": "scatter",
            "mode": "lines",
            "name": part.name if titles.count(titles[place]) > 1 else titles[place],
            "x": list(seconds),
            "y": [round(value / MEBIBYTE, 4) for value in part.values],
            "stackgroup": "held",
            "line": {"width": 0.5, "color": colour(place)},
            "fillcolor": colour(place),
            "hovertemplate": f"<b>{plain(part.name)}</b><br>%{{x:.2f}} s: %{{y:.2f}} MiB"
            "<extra></extra>",
        }
        for place, part in enumerate(parts)
    ]
    # No title: plotly keeps too little room for one below the strip.
    time = axis("", ticksuffix=" s", fixedrange=False, rangeslider={"thickness": 0.08})
    return Figure(
        name=name,
        title=title,
        caption=caption,
        data=data,
        layout=layout(
            xaxis=time,
            yaxis=axis("MiB", rangemode="tozero"),
            dragmode="zoom",
            showlegend=True,
            legend=legend(traceorder="normal"),
        ),
        height=500,
        wide=True,
    )


def _timeline_table(seconds: Sequence[float], parts: Sequence[Part]) -> Table:
    """The figures behind the pictures, at tenths of the looks; of fewer than eleven, at each."""
    last = len(seconds) - 1
    places = sorted({round(last * tenth / 10) for tenth in range(11)})
    rows = [[part.name, *(format_bytes(part.values[place]) for place in places)] for part in parts]
    header = ["held", *(f"{seconds[place]:.2f} s" for place in places)]
    title = "At tenths of the looks" if last > 10 else "At each look"
    return Table(title, header, rows, folded=True)


def as_terminal_rows(found: Sites, moment: str, most: int) -> list[list[str]]:
    """The table's first rows for a terminal: bytes, share, blocks, place and callers."""
    whole = sum(site.at(moment).bytes for site in found.sites)
    return [
        [*figures_of(tally, whole), name, callers(site, 2)]
        for name, tally, site in found.by_place(moment)[:most]
    ]
