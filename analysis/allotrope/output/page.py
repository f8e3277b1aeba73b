# SPDX-License-Identifier: MIT
"""The one look of every page: what is said on top, then sections of figures and tables.

A page is a single file that fetches nothing: what its figures use of plotly's script is packed into
it (gzip, which every browser since 2023 unpacks by itself: 0.6 MB instead of 9), and a content
security policy forbids what is not in the file. A figure is plotly's own JSON, in which colours are
written as "var(--series-0)", names of the template's CSS variables, so that light, dark and print
are the stylesheet's business alone.

To make a page of another kind: a function from its JSON document to a Page, as
features/compare/page.py has, and `check_page_modules()` before the measurements, `render(page,
version)` after them:

    figure = Figure("survival", "What lives on", "Further right is older.",
                    data=[{"type": "scatter", "x": age, "y": share, "line": {"color": colour(0)}}],
                    layout=layout(xaxis=axis("age, bytes", type="log"), yaxis=axis("share")))
    Page("Lifetimes", subtitle, [Sentence("lifetimes", "What follows", "...")],
         [Section("Survival", ["..."], [figure], [Table("Survival by age", header, rows)])])

tests/browser.py looks at pages in headless Chromium. Every figure in a picture is in a table too,
for print, for those who cannot see it, and for browsers that cannot draw.
"""

import base64
import functools
import gzip
import importlib.util
import json
import shlex
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Mapping, Sequence

from ..system.errors import UserError
from .plotting_script import script_for
from .sentences import Sentence

SERIES = 8  # colours; further ones begin again with other symbols
SYMBOLS = (
    *("circle", "square", "diamond", "triangle-up", "cross"),
    *("star", "triangle-down", "x", "pentagon", "hexagram"),
)


@dataclass(frozen=True)
class Figure:
    """One picture. `data` and `layout` are plotly's; height in CSS pixels."""

    name: str  # unique on the page, of letters, digits and dashes
    title: str
    caption: str  # how to read it, in a sentence or two
    data: list[dict[str, Any]]
    layout: dict[str, Any] = field(default_factory=dict)
    height: int = 320
    wide: bool = False  # over the whole width of the page


@dataclass(frozen=True)
class Table:
    caption: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    text_columns: int = 1  # to be set left; figures are set right
    words: bool = False  # sentences rather than figures
    folded: bool = False  # opened by a click


@dataclass(frozen=True)
class Section:
    title: str
    paragraphs: Sequence[str] = ()
    figures: Sequence[Figure] = ()
    tables: Sequence[Table] = ()


@dataclass(frozen=True)
class Page:
    title: str
    subtitle: str
    advice: Sequence[Sentence]
    sections: Sequence[Section]
    command: str | None = None


def recorded_command(document: Mapping[str, Any]) -> str:
    """The command line whose recording a document is of; the file's name where it is not told."""
    command = (document["description"] or {}).get("command")
    return shlex.join(command) if command else str(document["file"])


def need_modules(what: str, *modules: str) -> None:
    """Raises UserError for a module that the machine lacks, with the package that brings it."""
    for module in modules:
        if importlib.util.find_spec(module) is None:
            raise UserError(f"{what} needs the Debian package python3-{module}; install it")


def check_page_modules() -> None:
    need_modules("--html", "jinja2", "plotly")


def colour(place: int) -> str:
    """The colour of the allocator in this place, the same in every figure of a page."""
    return f"var(--series-{place % SERIES})"


def symbol(place: int) -> str:
    return SYMBOLS[place % len(SYMBOLS)]


def plain(text: str) -> str:
    """Text that plotly is not to take for its markup."""
    return text.replace("&", "&amp;").replace("<", "&lt;")


LONGEST_LABEL = 40  # letters: what a telephone is wide


def label(text: str) -> str:
    """A name beside a curve. A longer one, such as a path, is cut to its end."""
    return plain(text if len(text) <= LONGEST_LABEL else "…" + text[1 - LONGEST_LABEL :])


def axis(title: str, **more: Any) -> dict[str, Any]:
    """An axis in the page's look."""
    look = {
        "title": {"text": title, "standoff": 8},
        "gridcolor": "var(--line)",
        "linecolor": "var(--line)",
        "zeroline": False,
        "automargin": True,
        "fixedrange": True,  # a finger that scrolls the page must not zoom
    }
    return look | more


def layout(**more: Any) -> dict[str, Any]:
    """A figure's layout in the page's look."""
    look = {
        "autosize": True,
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "font": {"family": "system-ui, sans-serif", "size": 12, "color": "var(--ink)"},
        "hoverlabel": {
            "bgcolor": "var(--panel)",
            "bordercolor": "var(--line)",
            "font": {"color": "var(--ink)"},
            "align": "left",
        },
        "hovermode": "closest",
        "dragmode": False,
        "margin": {"l": 8, "r": 12, "t": 8, "b": 8},
        "showlegend": False,
    }
    return look | more


@functools.cache
def packed_plotly(kinds: frozenset[str]) -> str:
    """plotly's script for the template, as far as these types of figures need it: gzip, base64."""
    from plotly.offline import get_plotlyjs

    script = script_for(get_plotlyjs(), kinds).encode()
    return base64.b64encode(gzip.compress(script, 9, mtime=0)).decode()


def render(page: Page, version: str | None = None) -> str:
    """The page as HTML."""
    import jinja2
    from markupsafe import Markup

    check_page_modules()
    loader = jinja2.FileSystemLoader(Path(__file__).parent)
    template = jinja2.Environment(loader=loader, autoescape=True).get_template("page.html.j2")
    figures = [
        {"name": figure.name, "data": figure.data, "layout": figure.layout}
        for section in page.sections
        for figure in section.figures
    ]
    drawn = [figure for section in page.sections for figure in section.figures]
    kinds = frozenset(str(trace["type"]) for figure in drawn for trace in figure.data)
    # Nothing in the data may end the script element that holds it.
    text = json.dumps(figures).replace("<", "\\u003c")
    return template.render(
        page=page, version=version, figures=Markup(text), plotly=Markup(packed_plotly(kinds))
    )
