# SPDX-License-Identifier: MIT
"""The page of `allotrope vm`, from its JSON (docs/vm.md)."""

from typing import Any

from ...output.page import Figure, Page, Section, Table, axis, colour, layout, plain, symbol
from ...output.plots import legend, stacked_bars
from ...output.sentences import Sentence
from ...output.units import format_nanoseconds
from .measure import ADD, Document, figure, median_ns
from .output import (
    PROVIDERS,
    STEPS,
    cut_short,
    how,
    other_figures,
    other_rows,
    page_counts,
    paper_notes,
    provider_rows,
    refusals,
    stop_rows,
    table_1,
)
from .paper import TABLE_1

OWN = "this machine"


def vm_page(document: Document) -> Page:
    return Page(
        title="What virtual memory costs",
        subtitle=how(document),
        advice=advice(document),
        sections=[
            Section(
                "Appel and Li, 1991",
                ["Their benchmark, run again, beside the machines of their Table 1."],
                [figure_2(document)],
                [_table("Table 1", table_1(document), 2)],
            ),
            *provider_sections(document),
            *stop_sections(document),
            *other_sections(document),
        ],
    )


def _table(caption: str, rows: list[list[str]], text_columns: int = 1) -> Table:
    return Table(caption, rows[0], rows[1:], text_columns=text_columns)


def advice(document: Document) -> list[Sentence]:
    add, prot_n = median_ns(document, ADD), median_ns(document, "trap+protN+unprot")
    sentences = []
    if add and prot_n:
        paper = sorted(one.prot_n / one.add for one in TABLE_1)
        text = (
            f"a page that is protected with others, trapped and unprotected costs "
            f"{prot_n / add:,.0f} adds; {paper[0]:,.0f} to {paper[-1]:,.0f} in 1991."
        )
        sentences.append(Sentence("finding", "Traps", text))
    writes = {provider: figure(document, "first write", provider) for provider in PROVIDERS}
    last = {name: found[-1] for name, found in writes.items() if found and found[-1]["ns"]}
    if "async" in last and "mprotect" in last:
        times = {name: format_nanoseconds(one["ns"]["median"]) for name, one in last.items()}
        text = (
            f"the first write to one of {last['async']['count']:,} protected pages costs "
            f"{times['async']} under async, {times['mprotect']} under mprotect with SIGSEGV."
        )
        sentences.append(Sentence("finding", "Dirty pages", text))
    sentences += [Sentence("refused", "Not measured", line) for line in refusals(document)]
    notes = [Sentence("note", "Mind", note) for note in paper_notes()]
    return [*sentences, *cut_short(document), *notes]


def figure_2(document: Document) -> Figure:
    """Horizontal bars of adds: protN, and what prot1 takes besides."""
    add, prot1 = median_ns(document, ADD), median_ns(document, "trap+prot1+unprot")
    prot_n = median_ns(document, "trap+protN+unprot")
    bars = [
        (f"{one.machine}, {one.system}", one.prot_n / one.add, one.prot1 / one.add)
        for one in TABLE_1
    ]
    if add and prot1 and prot_n:
        bars.insert(0, (OWN, prot_n / add, prot1 / add))
    names = [plain(name) for name, _, _ in bars]
    batched = [batch for _, batch, _ in bars]
    besides = [max(0.0, single - batch) for _, batch, single in bars]
    hover = "%{y}: %{x:,.0f} adds<extra></extra>"
    return Figure(
        "figure-2",
        "Adds for prot + trap + unprot",
        "Their Figure 2: pages protected in batches, and what protecting one by one takes besides.",
        [
            stacked_bars("protN, in batches", names, batched, "var(--part-0)", hover),
            stacked_bars("prot1, one by one, besides", names, besides, "var(--part-1)", hover),
        ],
        layout(
            barmode="stack",
            xaxis=axis("adds"),
            yaxis=axis("", autorange="reversed", type="category"),
            showlegend=True,
            legend=legend(),
        ),
        height=120 + 26 * len(bars),
        wide=True,
    )


def _line(place: int, name: str, found: list[Document], unit: str) -> dict[str, Any]:
    known = [one for one in found if one["ns"] is not None and one["ns"]["median"] > 0]
    texts = [format_nanoseconds(one["ns"]["median"]) for one in known]
    return {
        "type": "scatter",
        "mode": "lines+markers",
        "name": plain(name),
        "x": [one["count"] for one in known],
        "y": [one["ns"]["median"] / 1000 for one in known],
        "text": texts,
        "line": {"color": colour(place), "width": 1.5},
        "marker": {"color": colour(place), "symbol": symbol(place), "size": 8},
        "hovertemplate": f"<b>{plain(name)}</b><br>%{{x:,}} {unit}: %{{text}}<extra></extra>",
    }


def _lines(name: str, title: str, caption: str, lines: list[dict[str, Any]], unit: str) -> Figure:
    return Figure(
        name,
        title,
        caption,
        lines,
        layout(
            xaxis=axis(unit, type="log", dtick=1),
            yaxis=axis("µs", type="log", dtick=1),
            showlegend=True,
            legend=legend(),
        ),
        height=340,
    )


def provider_sections(document: Document) -> list[Section]:
    if not page_counts(document):
        return []
    figures = [
        _lines(
            f"provider-{step.replace(' ', '-')}",
            step,
            "A page's share, by how many pages there are. Down is faster.",
            [
                _line(place, provider, figure(document, step, provider), "pages")
                for place, provider in enumerate(PROVIDERS)
            ],
            "pages",
        )
        for step in STEPS[:2]
    ]
    text = (
        "async is the kernel's own (vm/kernel/dirty.h): no signal, and system calls succeed. The "
        "other two trap each first write; system calls that write into a protected page fail."
    )
    table = _table("A page's share", provider_rows(document), 2)
    return [Section("Which pages were written", [text], figures, [table])]


def stop_sections(document: Document) -> list[Section]:
    rows = stop_rows(document)
    if len(rows) < 2:
        return []
    lines = [
        _line(place, state, figure(document, "stop the world", state), "threads")
        for place, state in enumerate(("running", "blocked"))
    ]
    drawn = _lines(
        "stops",
        "Until the last thread has stopped",
        "By a signal to each. With more running threads than processors, each waits for its turn.",
        lines,
        "threads",
    )
    return [Section("Stopping the world", (), [drawn], [_table("By threads", rows)])]


def other_sections(document: Document) -> list[Section]:
    if not other_figures(document):
        return []
    table = _table("Whole calls", other_rows(document), 2)
    return [Section("Other operations", tables=[table])]
