# SPDX-License-Identifier: MIT
"""Which references the simulators are given, and how time is measured: options that several of
their commands have."""

from typing import Any

import click


def filter_options(command: Any) -> Any:
    for decorator in (
        click.option(
            "--references", metavar="FROM:TO", help="these only, by number from 0; TO not included"
        ),
        click.option(
            "--function",
            multiple=True,
            metavar="PATTERN",
            help="by functions of that name only, as in 'luaV_*'; repeatable",
        ),
        click.option(
            "--region", metavar="LIST", help="only to these: stack, heap, static (data), other"
        ),
        click.option(
            "--class",
            metavar="LIST",
            help="only of these: program, allocator, collector, roots, mark, sweep",
        ),
        click.option("--thread", metavar="LIST", help="of these threads only, from 1 on"),
    ):
        command = decorator(command)
    return command


lines_option = click.option(
    "--lines",
    "instructions",
    is_flag=True,
    help="the lines of source whose references miss most in a --shape",
)


def window_options(command: Any) -> Any:
    """Of the misses of a --shape over time."""
    for decorator in (
        click.option(
            "--window-bytes", metavar="SIZE", help="the same, by bytes asked of malloc, as 64K"
        ),
        click.option(
            "--window", metavar="N", help="a --shape's misses over time, by N references at least"
        ),
    ):
        command = decorator(command)
    return command
