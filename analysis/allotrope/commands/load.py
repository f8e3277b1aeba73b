# SPDX-License-Identifier: MIT
"""`allotrope load`: the open-loop load, for use beside a comparison."""

import os

import click

from ..system.places import PLACES, built


@click.command(
    "load",
    context_settings={
        "allow_interspersed_args": False,
        "ignore_unknown_options": True,
        "help_option_names": [],
    },
)
@click.argument("words", nargs=-1, type=click.UNPROCESSED)
def load(words: tuple[str, ...]) -> None:
    """Send requests to a server at a given rate and tell how long its answers took."""
    program = str(built(PLACES.load))
    os.execv(program, [os.path.basename(program), *words])
