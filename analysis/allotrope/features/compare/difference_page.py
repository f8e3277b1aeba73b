# SPDX-License-Identifier: MIT
"""The page of two comparisons, suites or scans that are held against each other."""

from ...output.page import Figure, Page, Section, Table, plain
from ...output.plots import grouped_ratio_bars, grouped_ratio_height, grouped_ratio_layout
from .difference import (
    MEAN,
    Difference,
    difference_lines,
    difference_rows,
    difference_sentences,
    difference_title,
)


def difference_page(difference: Difference) -> Page:
    (_, before), (_, after) = difference.before, difference.after
    rows = difference_rows(difference)
    table = Table("Every change", rows[0], rows[1:], text_columns=2 + (difference.part is not None))
    names = dict.fromkeys(one.name for one in difference.found)
    figures = [_figure(difference, place, name) for place, name in enumerate(names)]
    return Page(
        title=f"What has changed: {difference_title(difference)}",
        subtitle=f"{after.get('date')} against {before.get('date')}, ratios to {after['baseline']}",
        advice=difference_sentences(difference),
        sections=[Section("Changes", difference_lines(difference), figures, [table])],
    )


def _figure(difference: Difference, place: int, name: str) -> Figure:
    """A quantity's changes: a row for each part."""
    changed = [one for one in difference.found if one.name == name and one.change is not None]
    specs = list(dict.fromkeys(one.spec for one in difference.found))
    parts = list(dict.fromkeys(one.part for one in changed))
    rows: list[dict[int, tuple[float, float, float]]] = [{} for _ in parts]
    for one in changed:
        assert one.change is not None
        interval = one.change.low, one.change.median, one.change.high
        rows[parts.index(one.part)][specs.index(one.spec)] = interval
    alone = "the command" if difference.part is None else MEAN
    labels = [plain(part or alone) for part in parts]
    return Figure(
        name=f"change-{place}",
        title=name[:1].upper() + name[1:],
        caption="After over before; the bar goes as far as both measurements allow. Left of 1 is "
        "less.",
        data=grouped_ratio_bars(rows, specs),
        layout=grouped_ratio_layout(labels, "before"),
        height=grouped_ratio_height(labels, specs),
    )
