# SPDX-License-Identifier: MIT
"""`allotrope stats PID`: the heap of a running process, once or again and again."""

import json
import time

import click

from ..features.stats.output import as_lines, watch_header, watch_line
from ..features.stats.process import SCHEMA, find
from ..system.errors import UserError
from ..system.machine import need_proc
from .words import Seconds, Word


@click.command("stats", cls=Word)
@click.argument("pid", type=click.IntRange(min=1))
@click.option("--json", "as_json", is_flag=True, help=f"write JSON ({SCHEMA})")
@click.option("--watch", is_flag=True, help="a line every --interval until it ends or Ctrl-C")
@click.option(
    "--interval",
    type=Seconds(min=0.01),
    default=1.0,
    show_default=True,
    metavar="SECONDS",
    help="with --watch",
)
@click.pass_context
def stats(context: click.Context, pid: int, as_json: bool, watch: bool, interval: float) -> int:
    """Show the heap of the running process PID, which is under one of allotrope's allocators.

    \b
    allotrope run -a blocks -- ./server & allotrope stats $!
    allotrope stats --watch --interval 0.5 1234
    """
    need_proc("stats")
    source = context.get_parameter_source("interval")
    if not watch and source == click.core.ParameterSource.COMMANDLINE:
        raise UserError("--interval needs --watch")
    process = find(pid)
    if not watch:
        found = process.snapshot()
        click.echo(json.dumps(found, indent=2) if as_json else "\n".join(as_lines(found)))
        return 0
    began = time.monotonic()
    if not as_json:
        click.echo(watch_header(process.has_collector))
    while True:
        try:
            found = process.snapshot()
        except UserError as error:
            click.echo(f"allotrope: {error.message}", err=True)
            return 0
        seconds = time.monotonic() - began
        line = json.dumps({"seconds": seconds} | found) if as_json else watch_line(found, seconds)
        click.echo(line)
        time.sleep(interval)
