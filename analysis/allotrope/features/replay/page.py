# SPDX-License-Identifier: MIT
"""The page of `allotrope replay`, from its JSON (docs/events-format.md)."""

from operator import itemgetter
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
from ...output.sentences import Sentence, counted, enumerate_names, too_few_rounds
from ...output.units import MEBIBYTE, format_bytes, format_nanoseconds
from ...statistics.intervals import JUDGED_CONFIDENCE, LEAST_JUDGED_ROUNDS, estimate_ratio
from ...statistics.verdicts import THRESHOLD, Outcome, judge, tells_chance
from .measure import notes

Document = dict[str, Any]
NOT_PLAYED = (
    "what the program does between its calls is not played, so caches are warmer than its own. "
    "allotrope compare runs it whole."
)


def replay_page(document: Document) -> Page:
    played = [one for one in document["results"] if one["failure"] is None]
    return Page(
        title="One program's allocations under every allocator",
        command=recorded_command(document),
        subtitle=f"Replay of {document['file']}: {document['objects']:,} objects, at most "
        f"{format_bytes(document['most_live_bytes'])} live; {counted(document['rounds'], 'round')}",
        advice=advice(document, played),
        sections=[
            Section("Time against memory", figures=[trade_off(played)] if played else []),
            Section("The heap", figures=[heap_figure(document, played)] if played else []),
            Section("Figures", method(document), tables=[results_table(document)]),
        ],
    )


def advice(document: Document, played: list[Document]) -> list[Sentence]:
    sentences = []
    if played:
        fastest = min(played, key=itemgetter("cpu_seconds"))
        leanest = min(played, key=itemgetter("rss_growth_bytes"))
        live = format_bytes(document["most_live_bytes"])
        grew = f"{format_bytes(leanest['rss_growth_bytes'])} resident for {live} live"
        sentences.append(_on_speed(fastest, [one for one in played if one is not fastest]))
        sentences.append(Sentence("finding", "Leanest", f"{leanest['allocator']}, {grew}."))
    for one in document["results"]:
        if one["failure"] is not None:
            text = f"{one['allocator']}: {one['failure']}"
            sentences.append(Sentence("refused", "Failed", text))
    sentences.append(Sentence("note", "Mind", NOT_PLAYED))
    return sentences


def _on_speed(fastest: Document, others: list[Document]) -> Sentence:
    """Only who is faster than each other one, by the interval, is called the fastest."""
    took = f"{fastest['allocator']}, {format_nanoseconds(1e9 * fastest['cpu_seconds'])}"
    rounds = len(fastest["cpu_seconds_rounds"])
    if not tells_chance(rounds, LEAST_JUDGED_ROUNDS):
        text = (
            f"{too_few_rounds(rounds)}; it takes {LEAST_JUDGED_ROUNDS} "
            f"(--rounds). Least processor time: {took}."
        )
        return Sentence("undecided", "Not decided", text)
    near = [one["allocator"] for one in others if not _is_slower(one, fastest)]
    if near:
        verb = "is" if len(near) == 1 else "are"
        text = (
            f"least processor time: {took}; {enumerate_names(near)} {verb} not told from it at "
            f"{THRESHOLD:.0%}."
        )
        return Sentence("undecided", "Not decided", text)
    return Sentence("choice", "Fastest", f"{took} of processor time.")


def _is_slower(one: Document, fastest: Document) -> bool:
    rounds = one["cpu_seconds_rounds"], fastest["cpu_seconds_rounds"]
    ratio = estimate_ratio(*rounds, confidence=JUDGED_CONFIDENCE)
    return ratio is not None and judge(ratio) is Outcome.WORSE


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
