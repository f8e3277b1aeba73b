# SPDX-License-Identifier: MIT
"""`allotrope lifetimes`, the command."""

import click

from ..features.lifetimes.output import print_tables, rows
from ..features.lifetimes.page import lifetimes_page
from ..output.files import Files, Outputs, as_csv, as_json
from ..output.page import render
from ..output.terminal import terminal
from .words import RESULTS, Word, output_options


@click.command("lifetimes", cls=Word)
@click.argument("file")
@click.option(
    "--sites",
    "site_count",
    type=click.IntRange(min=0),
    default=15,
    show_default=True,
    help="how many allocation sites the table shows",
)
@output_options(RESULTS)
def lifetimes(file: str, site_count: int, files: Files) -> int:
    """How long objects live, how large they are, and who asks for them. FILE is a recording of
    `allotrope events`, whose ages are in time, or a trace of `allotrope record`, whose ages are in
    instructions; in bytes both.

    \b
    allotrope lifetimes run.ale
    allotrope lifetimes --sites 50 --html page.html run.alt
    """
    from ..features.lifetimes.measure import document, read_lives

    outputs = Outputs(files, [file])
    lives = read_lives(file)
    if lives.warning is not None:
        click.echo(f"allotrope: {lives.warning}", err=True)
    found = document(lives, file)
    outputs.write(
        {
            "--json": lambda: as_json(found),
            "--csv": lambda: as_csv(rows(found)),
            "--html": lambda: render(lifetimes_page(found)),
        },
        lambda: None if outputs.takes_stdout else print_tables(found, site_count, terminal()),
    )
    return 0 if lives.warning is None else 1
