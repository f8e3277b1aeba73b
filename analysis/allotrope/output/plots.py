# SPDX-License-Identifier: MIT
"""Pieces of plotly figures that several pages draw."""

from typing import Any, Sequence

from .page import axis, colour, layout, symbol


# What of a heap is not the program's (allotrope.stats/1, `waste`), in the order of its bars; the
# colours go on from that of what the program asked for, var(--part-0).
WASTE_TITLES = {
    "header": "headers",
    "rounding": "rounding",
    "alignment": "alignment",
    "external": "external",
    "cached": "cached",
}


def legend(y: float, **more: Any) -> dict[str, Any]:
    """A legend below the plot; y: where its top is, in heights of the plot."""
    return {"orientation": "h", "y": y, "yanchor": "top"} | more


def interval_bar(
    place: int, row: float, interval: tuple[float, float, float], size: int, hover: str, **head: Any
) -> dict[str, Any]:
    """A symbol with a bar, in the colour of the allocator in this place. interval: low, middle,
    high. head: what a trace of several has besides."""
    marker = {"size": [1, size, 1], "symbol": symbol(place), "opacity": 1, "line": {"width": 0}}
    return {
        "type": "scatter",
        "mode": "lines+markers",
        **head,
        "x": list(interval),
        "y": [row] * 3,
        "line": {"color": colour(place), "width": 3},
        "marker": {"color": colour(place), **marker},
        "hovertemplate": hover,
    }


def ratio_layout(labels: Sequence[str], base: str, **more: Any) -> dict[str, Any]:
    """Rows with these labels, first on top, over an axis of ratios with a line at 1."""
    rows = {"tickmode": "array", "tickvals": list(range(len(labels))), "ticktext": labels}
    ends = {"x0": 1, "x1": 1, "yref": "paper", "y0": 0, "y1": 1}
    return layout(
        xaxis=axis(f"times {base}"),
        yaxis=axis("", **rows, range=[len(labels) - 0.5, -0.5], showgrid=False),
        shapes=[{"type": "line", **ends, "line": {"color": "var(--muted)", "width": 1}}],
        **more,
    )


def stacked_bars(
    title: str, names: Sequence[str], values: Sequence[float], fill: str, hover: str
) -> dict[str, Any]:
    """One part of horizontal bars, a bar for each of `names`."""
    head = {"type": "bar", "orientation": "h", "name": title, "y": names, "x": values}
    return head | {"marker": {"color": fill}, "hovertemplate": hover}


def stacked_layout(legend_at: dict[str, Any]) -> dict[str, Any]:
    """Horizontal bars of parts, in MiB, the first on top."""
    return layout(
        barmode="stack",
        xaxis=axis("MiB"),
        yaxis=axis("", autorange="reversed", type="category"),
        showlegend=True,
        legend=legend_at,
    )
