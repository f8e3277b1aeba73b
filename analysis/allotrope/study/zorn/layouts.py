# SPDX-License-Identifier: MIT
"""The two layouts of the study's tables: a row for each program and allocator (`Lines`), or a row
for each program with a column for each allocator (`grid`). Both keep a record beside each cell or
row, for those who read data and not tables."""

from typing import Any, Callable, Iterable, Mapping, Sequence

from ..sheets import ABSENT, Record, Sheet
from . import paper
from .evidence import Pair
from .pairs import heading, measured
from .results import Results


class Lines:
    """A table of programs and allocators as it grows: a row for people, a record for data."""

    def __init__(self) -> None:
        self.rows: list[list[str]] = []
        self.records: list[Record] = []

    def add(self, program: str, pair: Pair, cells: Iterable[str], **fields: Any) -> None:
        self.rows.append([program, heading(pair), *cells])
        self.records.append(record(program, pair, **fields))

    def sheet(self, name: str, title: str, caption: str, header: Sequence[str]) -> Sheet:
        """One that the paper has not."""
        header = ["program", "allocator", *header]
        return Sheet(name, title, caption, self.records, header, self.rows, 2, beyond=True)


def record(program: str, pair: Pair, **fields: Any) -> Record:
    return {"program": program, "form": pair[0], "allocator": pair[1], **fields}


def grid(
    results: Results,
    name: str,
    title: str,
    caption: str,
    pairs: Sequence[Pair],
    cell: Callable[[str, Pair], tuple[str, dict[str, Any]]],
    printed: Mapping[str, Mapping[str, paper.Cell]] | None,
    row: str = "1992",
    beyond: bool = False,
) -> Sheet:
    """A row for each program, a column for each configuration; below it what the paper printed."""
    pairs = measured(results, pairs)
    header = ["program", *map(heading, pairs)]
    rows, records = [], []
    for program in results.row(row):
        cells = []
        for pair in pairs:
            text, fields = cell(program.name, pair)
            failure = results.failure(program.name, *pair)
            cells.append("failed" if text == ABSENT and failure else text)
            known = (printed or {}).get(program.name, {}).get(pair[1])
            if known:
                fields |= {"paper_value": known.ratio, "paper_absolute": known.absolute}
            records.append(record(program.name, pair, **fields, failure=failure))
        rows.append([program.name, *cells])
        if printed and program.name in printed:
            rows.append(_printed_row(printed[program.name], pairs))
    return Sheet(name, title, caption, records, header, rows, beyond=beyond)


def _printed_row(cells: Mapping[str, paper.Cell], pairs: Sequence[Pair]) -> list[str]:
    known = [cells.get(spec) for _, spec in pairs]
    texts = [f"{one.ratio:.2f} ({one.absolute:,g})" if one else "" for one in known]
    return ["  in 1992", *texts]
