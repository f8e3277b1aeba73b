# SPDX-License-Identifier: MIT
"""Pieces of plotly figures that several pages draw."""

import math
from typing import Any, Callable, Iterable, Mapping, Sequence

from .page import axis, colour, layout, plain, symbol
from .units import format_nanoseconds, format_ratio, short_bytes


# What of a heap is not the program's (allotrope.stats/1, `waste`), in the order of its bars; the
# colours go on from that of what the program asked for, var(--part-0).
WASTE_TITLES = {
    "header": "headers",
    "rounding": "rounding",
    "alignment": "alignment",
    "external": "external",
    "cached": "cached",
}


def legend(**more: Any) -> dict[str, Any]:
    """A legend above the plot, which makes room for it. Below there are labels, and how far they
    reach is known to plotly alone."""
    return {"orientation": "h", "x": 0, "y": 1.02, "yanchor": "bottom"} | more


MOST_TICKS = 7  # so many labels have room on a telephone
MOST_WIDE_TICKS = 5  # of labels with a unit


def _ticks(exponents: range, most: int) -> range:
    """So few of the exponents that their labels do not touch."""
    step = -(-len(exponents) // most)
    return range(exponents.start, exponents.stop, max(step, 1))


def _log_axis(
    title: str,
    base: int,
    values: Iterable[float | None],
    label: Callable[[float], str],
    most_ticks: int = MOST_TICKS,
    **more: Any,
) -> dict[str, Any]:
    """A logarithmic axis with ticks at powers of the base; its ends lie outside all values, so that
    no line or symbol is cut."""
    shown = [value for value in values if value] or [1.0]
    least, most = math.log(min(shown), base), math.log(max(shown), base)
    margin = 0.03 * max(most - least, 1)
    inside = range(math.ceil(least - margin), math.floor(most + margin) + 1)
    exponents = _ticks(inside, most_ticks)
    ticks = [float(base) ** exponent for exponent in exponents]
    ends = [(least - margin) * math.log10(base), (most + margin) * math.log10(base)]
    look = {"type": "log", "range": ends, "tickmode": "array", "tickvals": ticks}
    return axis(title, **look, ticktext=[label(tick) for tick in ticks], **more)


def bytes_axis(title: str, sizes: Iterable[float], **more: Any) -> dict[str, Any]:
    """Sizes in bytes, with ticks at powers of two: 4K, 16K."""
    return _log_axis(title, 2, sizes, lambda size: short_bytes(round(size)), **more)


def count_axis(title: str, counts: Iterable[float], **more: Any) -> dict[str, Any]:
    """Numbers of entries, with ticks at powers of two: 64, 1K is 1,024."""
    return _log_axis(title, 2, counts, lambda n: short_bytes(round(n)).replace("B", ""), **more)


def times_axis(title: str, nanoseconds: Iterable[float], **more: Any) -> dict[str, Any]:
    """Times, with ticks at powers of ten: 100 ns, 10 µs."""
    return _log_axis(title, 10, nanoseconds, format_nanoseconds, MOST_WIDE_TICKS, **more)


def decades_axis(title: str, values: Iterable[float | None], **more: Any) -> dict[str, Any]:
    """Rates and counts, with ticks at powers of ten, or as they come where there are none such."""
    shown = [value for value in values if value]
    if not shown:
        return axis(title, **more)
    if max(shown) < 100 * min(shown):
        return _steps_axis(title, min(shown), max(shown), **more)
    return _log_axis(title, 10, shown, _decimal, **more)


LINEAR = {"nticks": 5, "exponentformat": "none", "separatethousands": True}


def _steps_axis(title: str, least: float, most: float, **more: Any) -> dict[str, Any]:
    """A logarithmic axis over less than two decades, with ticks at 1, 2 and 5; where no two of them
    fall between the ends it is linear, and of a single value it begins at 0."""
    if least == most:
        return axis(title, **LINEAR, range=[0, 2 * most], **more)
    first = math.floor(math.log10(least))
    steps = [step * 10.0**exponent for exponent in range(first, first + 4) for step in (1, 2, 5)]
    margin = 0.03 * math.log10(most / least)
    start, end = math.log10(least) - margin, math.log10(most) + margin
    ticks = [step for step in steps if start <= math.log10(step) <= end]
    if len(ticks) < 2:
        return axis(title, **LINEAR, **more)
    look = {"type": "log", "range": [start, end]}
    labels = [f"{tick:,.6f}".rstrip("0").rstrip(".") for tick in ticks]
    return axis(title, **look, tickmode="array", tickvals=ticks, ticktext=labels, **more)


def _decimal(power_of_ten: float) -> str:
    digits = max(0, -round(math.log10(power_of_ten)))
    return f"{power_of_ten:,.{digits}f}"


Curve = tuple[str, Sequence[float], Sequence[float | None]]  # name, x, y


def ratio_panel(curves: Sequence[Curve], base: int, hover: str) -> list[dict[str, Any]]:
    """Below a plot of curves that overlap: each divided by that in place `base`, wherever both have
    a value at the same x; `hover` shows x."""
    of_base = dict(zip(curves[base][1], curves[base][2]))
    lines = []
    for place, (name, x, y) in enumerate(curves):
        ratios = [
            value / divisor if value and (divisor := of_base.get(at)) else None
            for at, value in zip(x, y)
        ]
        lines.append(
            {
                "type": "scatter",
                "mode": "lines+markers" if len(x) < 40 else "lines",
                "x": list(x),
                "y": ratios,
                "yaxis": "y2",
                "showlegend": False,
                "connectgaps": False,
                "line": {"color": colour(place), "width": 1.5},
                "marker": {"symbol": symbol(place), "size": 5},
                "hovertemplate": f"<b>{plain(name)}</b><br>{hover}: %{{y:.4g}} times "
                f"{plain(curves[base][0])}<extra></extra>",
            }
        )
    return lines


def with_ratio_panel(
    look: dict[str, Any], panel: list[dict[str, Any]], base: str
) -> dict[str, Any]:
    """The layout of a plot with the panel below it."""
    ratios = [ratio for line in panel for ratio in line["y"] if ratio]
    title = f"times {plain(base)}"
    if ratios and max(ratios) > 2 * min(ratios):
        below = _log_axis(title, 2, ratios, lambda ratio: f"{ratio:g}")
    else:
        below = axis(title, nticks=5)
    ends = {"xref": "paper", "x0": 0, "x1": 1, "yref": "y2", "y0": 1, "y1": 1}
    parts: dict[str, Any] = {
        "xaxis": look["xaxis"] | {"anchor": "y2"},
        "yaxis": look["yaxis"] | {"domain": [0.36, 1]},
        "yaxis2": below | {"domain": [0, 0.28]},
        "shapes": [{"type": "line", **ends, "line": {"color": "var(--muted)", "width": 1}}],
        "legend": legend(),
    }
    return look | parts


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


Interval = tuple[float, float, float]  # low, middle, high


def ratio_bar(place: int, name: str, row: float, ratio: Interval, **more: Any) -> dict[str, Any]:
    """That of a ratio, called by the allocator's name."""
    low, middle, high = ratio
    hover = f"<b>{plain(name)}</b><br>{format_ratio(middle, low, high)}<extra></extra>"
    return interval_bar(place, row, ratio, 10, hover, name=plain(name)) | more


def grouped_ratio_bars(
    rows: Sequence[Mapping[int, Interval]], names: Sequence[str]
) -> list[dict[str, Any]]:
    """In each row the ratios of some allocators, by their places among the names, below each
    other."""
    bars = []
    named: set[int] = set()
    for row, ratios in enumerate(rows):
        for place, ratio in ratios.items():
            offset = 0.7 * ((place + 0.5) / len(names) - 0.5)
            group = {"legendgroup": str(place), "showlegend": place not in named}
            bars.append(ratio_bar(place, names[place], row + offset, ratio, **group))
            named.add(place)
    return bars


def grouped_ratio_layout(labels: Sequence[str], base: str) -> dict[str, Any]:
    """Of grouped_ratio_bars()."""
    return ratio_layout(labels, base, showlegend=True, legend=legend(itemsizing="constant"))


def grouped_ratio_height(labels: Sequence[str], names: Sequence[str]) -> int:
    return 150 + (24 + 9 * len(names)) * len(labels)


def ratio_layout(labels: Sequence[str], base: str, **more: Any) -> dict[str, Any]:
    """Rows with these labels, first on top, over an axis of ratios with a line at 1."""
    rows = {"tickmode": "array", "tickvals": list(range(len(labels))), "ticktext": labels}
    ends = {"x0": 1, "x1": 1, "yref": "paper", "y0": 0, "y1": 1}
    return layout(
        xaxis=axis(f"times {plain(base)}"),
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
