# SPDX-License-Identifier: MIT
"""The page of a suite or a scan, from its JSON (docs/suites.md): a suite's means on top, each
program below."""

from typing import Any, Mapping

from ...output.page import Figure, Page, Section, Table, plain
from ...output.plots import (
    grouped_ratio_bars,
    grouped_ratio_height,
    grouped_ratio_layout,
    ratio_bar,
    ratio_layout,
)
from ...output.sentences import counted
from ...statistics.intervals import LEAST_JUDGED_ROUNDS
from ..compare.page import machine_section, spread_word, summary_table
from ..compare.recommendation import recommend
from ..compare.server_page import command_line
from .means import has_interval, key_of, shown_mean
from .output import recommend_suite
from .tables import legend as table_legend
from .tables import (
    Listing,
    cpu_title,
    is_scan,
    listing,
    load_tables,
    means_rows,
    name_of,
    part_word,
    servers_of,
    status_in_words,
)

Document = Mapping[str, Any]
TITLES = {
    "cpu_seconds": "CPU time",
    "wall_seconds": "Wall time",
    "memory_bytes": "Peak memory",
    "minor_faults": "Minor page faults",
}


def _titles(document: Document) -> dict[str, str]:
    titles = TITLES | {"cpu_seconds": cpu_title(document).replace("CPU", "CPU time")}
    return titles | ({"wall_seconds": "Time of the load"} if servers_of(document) else {})


def suite_page(document: Document) -> Page:
    return Page(
        title=f"Allocators compared: {document['title']}",
        subtitle=f"{document['date']}, {counted(len(document['programs']), part_word(document))}, "
        f"{counted(document['rounds'], 'round')} asked for, ratios to {document['baseline']}",
        advice=recommend_suite(document),
        sections=[
            *([] if is_scan(document) else [_means_section(document)]),
            _programs_section(document),
            *(_one_program(entry) for entry in document["programs"] if entry["comparison"]),
            machine_section(document["machine"], _asked(document)),
        ],
    )


def _asked(document: Document) -> list[list[str]]:
    versions = [[one["spec"], one["version"] or "unknown"] for one in document["allocators"]]
    asked = ["values", document["title"]] if is_scan(document) else ["suite", document["suite"]]
    return [asked, ["rounds", str(document["rounds"])], *versions]


def _means_section(document: Document) -> Section:
    figures = [
        _intervals(f"mean-{quantity.replace('_', '-')}", title, document, quantity)
        for quantity, title in _titles(document).items()
        if any(found[quantity] for found in document["means"].values())
    ]
    rows = means_rows(document, full=True)
    table = Table("Geometric means", rows[0], rows[1:])
    shown = {figure.title for figure in figures}
    said = [
        f"{title}: no mean, for want of rounds in which every program has some."
        for title in _titles(document).values()
        if title not in shown
    ]
    return Section("Over all programs", said, figures, [table])


def _intervals(name: str, title: str, document: Document, quantity: str) -> Figure:
    base = document["baseline"]
    specs = list(document["means"])
    shown = {spec: shown_mean(document["means"][spec], quantity)[0] for spec in specs}
    known = {spec: mean for spec, mean in shown.items() if mean}
    data = [
        ratio_bar(
            place, spec, place, (known[spec]["low"], known[spec]["ratio"], known[spec]["high"])
        )
        for place, spec in enumerate(specs)
        if spec in known
    ]
    interval = f"{100 * document['confidence']:.3g}% interval"
    if not all(has_interval(mean) for mean in known.values()):
        interval = f"range (an interval needs {LEAST_JUDGED_ROUNDS} rounds)"
    labels = [plain(spec) if spec in known else f"{plain(spec)} (none)" for spec in specs]
    return Figure(
        name=name,
        title=title,
        caption=f"Geometric mean of the ratios to {base} with its {interval}; left of 1 is less.",
        data=data,
        layout=ratio_layout(labels, base),
        height=90 + 32 * len(specs),
    )


def _programs_section(document: Document) -> Section:
    said = [
        f"{entry['name']} was {status_in_words(entry)}: {entry['reason']}."
        for entry in document["programs"]
        if entry["status"] != "measured"
    ]
    figures, tables = [], []
    said += table_legend(document, full=True)
    for quantity in ("cpu_seconds", "memory_bytes"):
        if any(entry["comparison"] for entry in document["programs"]):
            figures.append(_per_program(document, quantity))
        title = f"{_titles(document)[quantity]}, ratio to {document['baseline']}"
        tables.append(_as_table(listing(document, title, quantity, full=True)))
    for one in load_tables(document, full=True):
        caption = f"{one.title}, ratio to {document['baseline']}"
        tables.append(_as_table(one._replace(title=caption)))
    each = part_word(document)
    return Section(f"{each.capitalize()} by {each}", said, figures, tables)


def _as_table(one: Listing) -> Table:
    return Table(one.title, one.rows[0], one.rows[1:], text_columns=2 if one.by_row else 1)


def _per_program(document: Document, quantity: str) -> Figure:
    specs = [one["spec"] for one in document["allocators"]]
    entries = [entry for entry in document["programs"] if entry["comparison"]]
    rows = []
    for entry in entries:
        key = key_of(entry["comparison"], quantity)
        rows.append(
            {
                place: (ratio["ratio_low"], ratio["ratio"], ratio["ratio_high"])
                for place, result in enumerate(entry["comparison"]["results"])
                if (ratio := result.get(key))
                and ratio["ratio"] is not None
                and specs[place] != document["baseline"]
            }
        )
    labels = [plain(name_of(entry)) for entry in entries]
    word = spread_word(entries[0]["comparison"]) if entries else "interval"
    each = part_word(document)
    return Figure(
        name=f"programs-{quantity.replace('_', '-')}",
        title=_titles(document)[quantity],
        caption=f"Median ratio to {document['baseline']} with its {word}, {each} by {each}; "
        "left of 1 is less.",
        data=grouped_ratio_bars(rows, specs),
        layout=grouped_ratio_layout(labels, document["baseline"]),
        height=grouped_ratio_height(labels, specs),
    )


def _one_program(entry: Mapping[str, Any]) -> Section:
    comparison = entry["comparison"]
    words = [str(sentence) for sentence in recommend(comparison | {"of_suite": True})]
    command = command_line(comparison)
    table = summary_table(comparison)
    caption = f"{name_of(entry)}: medians with their {spread_word(comparison)}s"
    folded = Table(caption, table.header, table.rows, text_columns=2, folded=True)
    return Section(name_of(entry), [command, *words], tables=[folded])
