# SPDX-License-Identifier: MIT
"""`allotrope doctor`: what this machine offers, as lines or as JSON."""

import dataclasses
import json
from typing import Sequence

import click

from ..output.terminal import print_line, terminal
from ..output.text import wrap
from ..system.capabilities import Row, examine
from .words import Word

SCHEMA = "allotrope.doctor/1"

LEAST_LAST_COLUMN = 40


def as_json(rows: list[Row]) -> str:
    document = {"schema": SCHEMA, "rows": [dataclasses.asdict(row) for row in rows]}
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def as_lines(row: Row, widths: Sequence[int], least_last: int, width: int) -> list[str]:
    """A row as lines of at most `width`: in three columns, or in two where the last of three would
    be narrower than `least_last`."""
    start = f"{row.name:<{widths[0]}}  "
    text = f"{row.state}; {row.consequence}"
    if width - widths[0] - widths[1] - 4 >= least_last:
        start += f"{row.state:<{widths[1]}}  "
        text = row.consequence
    return wrap(start + text, width, " " * len(start))


@click.command("doctor", cls=Word)
@click.option("--json", "wants_json", is_flag=True, help="write JSON (allotrope.doctor/1)")
def doctor(wants_json: bool) -> None:
    """Show what this machine offers, and what is used instead of what is missing.

    \b
    allotrope doctor
    allotrope doctor --json
    """
    rows = examine()
    if wants_json:
        click.echo(as_json(rows), nl=False)
        return
    console = terminal()
    widths = [max(len(row.name) for row in rows), max(len(row.state) for row in rows)]
    words = (len(word) for row in rows for word in row.consequence.split())
    least_last = max(LEAST_LAST_COLUMN, *words)
    for row in rows:
        for line in as_lines(row, widths, least_last, console.width):
            print_line(console, line, "yellow" if row.available is False else "")
