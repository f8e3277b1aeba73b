# SPDX-License-Identifier: MIT
"""What the pictures of every study's page have in common: the canvas, marks and colours, the SVG.

They are drawn on white, for print. Curves are told apart by marks as well as by colours, so that a
print without colours can be read. A picture is an SVG that stands in the page itself: no script
draws it, and it is small."""

import io
import re
from typing import Any

PAPER = "#b0b0b0"  # what the paper gives
MARKS = ("o", "s", "^", "D", "v", "P", "X", "*", "<", ">", "h", "p", "d", "H")
COLOURS = (
    *("#000000", "#0b62b8", "#b8470b", "#0d7a4f", "#7a3fa0", "#8c6d00"),
    *("#b01f5c", "#4d6270", "#5f8f1f", "#006d77", "#5b4636", "#1b3a8c", "#a0522d", "#708238"),
)


def canvas(rows: int, columns: int, width: float, height: float) -> tuple[Any, Any]:
    import matplotlib

    matplotlib.use("svg")
    from matplotlib import pyplot

    pyplot.rcParams.update(
        {
            "font.family": "sans-serif",
            "font.size": 9,
            "svg.fonttype": "none",
            "svg.hashsalt": "allotrope",
            "axes.spines.top": False,
            "axes.spines.right": False,
            "axes.linewidth": 0.7,
            "grid.linewidth": 0.4,
            "grid.color": "#c8c8c8",
            "legend.frameon": False,
            "figure.facecolor": "white",
        }
    )
    figure, axes = pyplot.subplots(
        rows, columns, figsize=(width, height), squeeze=False, layout="constrained"
    )
    return figure, axes


def svg_of(figure: Any, name: str) -> str:
    """The picture as an element; its ids are made the figure's own, several stand in a page."""
    from matplotlib import pyplot

    out = io.StringIO()
    figure.savefig(out, format="svg", bbox_inches="tight", metadata={"Date": None, "Creator": None})
    pyplot.close(figure)
    text = out.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    text = re.sub(r'\bid="', f'id="{name}-', text)
    text = re.sub(r'(xlink:href="#|url\(#)', rf"\g<1>{name}-", text)
    # Sized by the page; the names of fonts are the page's.
    text = re.sub(r'(<svg[^>]*?) width="[^"]*"', r"\1", text)
    text = re.sub(r'(<svg[^>]*?) height="[^"]*"', r"\1", text)
    return re.sub(r"font: ([\d.]+px)[^;\"]*", r"font: \1 system-ui, sans-serif", text)
