# SPDX-License-Identifier: MIT
"""`allotrope lifetimes`, the command."""

import click

from ..features.lifetimes.output import print_tables, rows
from ..output.files import check_outputs, deliver, output_options
from ..output.terminal import terminal
from .words import Word


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
@output_options
def lifetimes(
    file: str, site_count: int, json_path: str | None, csv_path: str | None, html_path: str | None
) -> int:
    """How long objects live, how large they are, and who asks for them. FILE is a recording of
    `allotrope events`, whose ages are in time, or a trace of `allotrope record`, whose ages are in
    instructions; in bytes both."""
    from ..features.lifetimes.measure import document, read_lives

    check_outputs(json_path, csv_path, html_path, file)
    lives = read_lives(file)
    if lives.warning is not None:
        click.echo(f"allotrope: {lives.warning}", err=True)
    found = document(lives, file)

    def page() -> str:
        from ..features.lifetimes.page import lifetimes_page
        from ..output.page import render

        return render(lifetimes_page(found))

    if deliver(found, rows(found), page, json_path, csv_path, html_path):
        print_tables(found, site_count, terminal())
    return 0 if lives.warning is None else 1
