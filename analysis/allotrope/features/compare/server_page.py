# SPDX-License-Identifier: MIT
"""What the page of a comparison has only for a server: its quantities, its memory over time, and
how it was loaded."""

import shlex
from typing import Any, Callable, Mapping, Sequence

from ...output.page import SERIES, Figure, Section, Table, axis, colour, layout, plain
from ...output.plots import legend
from ...output.units import (
    MEBIBYTE,
    format_bytes,
    format_count,
    format_figure,
    format_seconds_with_unit,
)
from ..server.run import METRIC
from .servers import title_of

Document = Mapping[str, Any]
Quantity = tuple[str, str, Callable[[float], str]]


def format_request_time(seconds: float) -> str:
    return f"{format_figure(1e6 * seconds)} µs"


def command_line(document: Document) -> str:
    """The command on top of the page."""
    server = document.get("server")
    if not server:
        return shlex.join(document["command"])
    return f"{server['server']} · loaded by: {server['load']}"


def server_quantities(document: Document) -> list[Quantity]:
    """Quantity, its title, how a figure of it is written."""
    found: list[Quantity] = [
        ("cpu_per_request_seconds", "CPU time per request", format_request_time),
        ("cpu_seconds", "CPU time under the load", format_seconds_with_unit),
        ("user_seconds", "CPU time under the load, in the program", format_seconds_with_unit),
        ("system_seconds", "CPU time under the load, in the kernel", format_seconds_with_unit),
        ("wall_seconds", "How long the load lasted", format_seconds_with_unit),
    ]
    for one in document["server"]["metrics"]:
        title = f"What the load said: {title_of(one['name'])}"
        found.append((METRIC + one["name"], title, format_figure))
    return [
        *found,
        ("tree_peak_bytes", "Memory of all processes at most", format_bytes),
        ("memory_mean_bytes", "Memory of all processes under the load, mean", format_bytes),
        ("memory_end_bytes", "Memory of all processes at the load's end", format_bytes),
        ("peak_rss_bytes", "Peak memory of the largest process", format_bytes),
        ("minor_faults", "Minor page faults under the load", format_count),
        ("major_faults", "Major page faults under the load", format_count),
        ("start_seconds", "Time until the server was ready", format_seconds_with_unit),
    ]


def server_sections(document: Document, prefix: str) -> list[Section]:
    if not document.get("server"):
        return []
    known = [
        (place, one) for place, one in enumerate(document["results"]) if one["memory_timeline"]
    ]
    figures = [_memory_figure(known, prefix)] if known else []
    return [Section("Memory over time", _words(document), figures, [_asked(document)])]


def _words(document: Document) -> list[str]:
    server = document["server"]
    where = ", ".join(map(str, server["server_processors"]))
    beside = ", ".join(map(str, server["load_processors"]))
    several = "processors" if "," in where else "processor"
    lines = [
        f"The server ran on {several} {where}, the load on {beside}."
        if where != beside
        else "The machine has one processor: the load and the server took turns on it."
    ]
    if not server["metrics"]:
        lines.append(
            "The load printed no figures that are known here, so there are none of its own and no "
            "CPU time per request."
        )
    if server["killed"]:
        lines.append(
            f"The server did not end within {server['stop_timeout_seconds']:g} s of TERM and was "
            "killed each time, after it was measured."
        )
    return lines


def _memory_figure(known: Sequence[tuple[int, Mapping[str, Any]]], prefix: str) -> Figure:
    data = []
    for place, one in known:
        timeline = one["memory_timeline"]
        data.append(
            {
                "type": "scatter",
                "mode": "lines",
                "name": plain(one["spec"]),
                "x": timeline["seconds"],
                "y": [round(value / MEBIBYTE, 3) for value in timeline["bytes"]],
                "line": {
                    "color": colour(place),
                    "width": 1.5,
                    "dash": "solid" if place < SERIES else "dash",
                },
                "hovertemplate": f"<b>{plain(one['spec'])}</b><br>%{{x:.2f}} s: %{{y:.1f}} MiB"
                "<extra></extra>",
            }
        )
    return Figure(
        name=f"{prefix}server-memory",
        title="Memory of the server's processes",
        caption="All processes together (PSS), in the last round, seen from outside every 50 ms. "
        "The load begins at 0.",
        data=data,
        layout=layout(
            xaxis=axis("s after the load began"),
            yaxis=axis("MiB", rangemode="tozero"),
            showlegend=True,
            legend=legend(),
        ),
        height=340,
        wide=True,
    )


def _asked(document: Document) -> Table:
    server = document["server"]
    keys = ("server", "ready", "load", "setup", "cleanup")
    rows = [[key, server[key]] for key in keys if server[key] is not None]
    return Table("The commands", [], rows, words=True)
