# SPDX-License-Identifier: MIT
"""The page of `allotrope sites`: a flame graph of the peak, and where the rest came from."""

from dataclasses import dataclass, field
from typing import Sequence

from ...output.page import Figure, Page, Section, Table, layout
from ...output.units import format_bytes
from .measure import Site, Sites, Tally
from .output import callers, sentences, share

MOST_ROWS = 30
# A box of the flame graph that is less than this of the whole is not drawn by itself.
LEAST_SHARE = 0.002
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
    names, parents, sizes, ids, fills, depth = [], [], [], [], [], 0
    stack: list[tuple[Node, str, int]] = [(root, "", 0)]
    while stack:
        node, parent, level = stack.pop()
        own = f"{parent}/{node.name}" if parent else node.name
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
                "labels": [short(name) for name in names],
                "parents": parents,
                "values": sizes,
                "branchvalues": "total",
                "sort": True,
                "tiling": {"orientation": "v"},
                "marker": {"colors": fills, "line": {"color": "var(--panel)", "width": 1}},
                "textfont": {"color": "var(--flame-ink)"},
                "pathbar": {"visible": False},
                "customdata": [
                    [name, format_bytes(size), share(size, root.size)]
                    for name, size in zip(names, sizes)
                ],
                "hovertemplate": "<b>%{customdata[0]}</b><br>%{customdata[1]}, %{customdata[2]}"
                "<extra></extra>",
            }
        ],
        layout=layout(
            margin={"l": 0, "r": 0, "t": 0, "b": 0}, uniformtext={"minsize": 9, "mode": "hide"}
        ),
        height=min(720, 60 + 26 * (depth + 1)),
        wide=True,
    )


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


def sites_page(found: Sites, command: str, date: str) -> Page:
    sections = []
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
        ["processes of the command", str(found.processes)],
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


def as_terminal_rows(found: Sites, moment: str, most: int) -> list[list[str]]:
    """The table's first rows for a terminal: bytes, share, blocks, place and callers."""
    whole = sum(site.at(moment).bytes for site in found.sites)
    return [
        [*figures_of(tally, whole), name, callers(site, 2)]
        for name, tally, site in found.by_place(moment)[:most]
    ]
