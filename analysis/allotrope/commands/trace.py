# SPDX-License-Identifier: MIT
"""`allotrope trace`: what is in a trace, as text, and a part of it."""

import json
import os
import sys
from typing import NoReturn

import click

from ..features.trace.output import print_info
from ..system.errors import UserError
from ..system.native import ask
from ..system.places import PLACES, built
from .words import Group, Word


def run_tracer(*arguments: str) -> NoReturn:
    """Becomes allotrope-trace."""
    tracer = str(built(PLACES.tracer))
    sys.stdout.flush()
    os.execv(tracer, [tracer, *arguments])


def need_trace(file: str) -> None:
    if file != "-" and not os.path.exists(file):
        raise UserError(f"{file}: no such file; `allotrope record -o {file} -- CMD` makes one")


@click.group("trace", cls=Group)
def trace() -> None:
    """Look into traces, which `allotrope record` makes. A trace may come through a pipe: -.

    What a damaged or truncated trace still holds is delivered, then the error says at which byte it
    ends; the status is 1. A file that is no trace: 2.

    \b
    allotrope trace info run.alt
    allotrope trace dump run.alt | head
    """


@trace.command("info", cls=Word)
@click.argument("file")
@click.option("--json", "as_json", is_flag=True, help="write JSON (allotrope.trace.info/1)")
def info(file: str, as_json: bool) -> None:
    """Show totals, phases, threads, regions and events of a trace, and whether it is sound.

    \b
    allotrope trace info run.alt
    allotrope trace info --json run.alt | jq .totals.by_class
    """
    need_trace(file)
    answer = ask(PLACES.tracer, "info", file)
    found = answer.output.decode(errors="replace")
    if not found:
        raise UserError(answer.message, answer.status)
    if as_json:
        click.echo(found, nl=False)
    else:
        print_info(file, json.loads(found))
    if answer.status != 0:
        raise UserError(answer.message, 1)


@trace.command("dump", cls=Word)
@click.argument("file")
@click.option(
    "--format",
    "form",
    type=click.Choice(["csv", "din", "drmemtrace", "lackey", "xdin"]),
    default="csv",
    show_default=True,
    help="xdin is Dinero IV's, din Dinero III's, which has no sizes, lackey Valgrind's, drmemtrace "
    "DynamoRIO's (binary)",
)
@click.option("--events", is_flag=True, help="the events instead of the references, as CSV")
def dump(file: str, form: str, events: bool) -> None:
    """Print a trace as text, a line for each reference, or as another program's format.

    \b
    allotrope trace dump run.alt | head
    allotrope trace dump --format xdin run.alt | dineroIV -l1-dsize 32k -l1-dbsize 64 -informat D
    allotrope trace dump --format drmemtrace run.alt >run.trace
    allotrope trace dump --events run.alt | grep ,malloc,
    """
    need_trace(file)
    if events and form != "csv":
        raise UserError(f"--events is written as csv, not as {form}")
    run_tracer(*(["events"] if events else ["dump", form]), file)


@trace.command("cut", cls=Word)
@click.argument("file")
@click.option(
    "--count",
    type=click.IntRange(min=0),
    required=True,
    metavar="N",
    help="keep the first N references",
)
@click.option("-o", "--output", required=True, metavar="FILE", help="- is standard output")
def cut(file: str, count: int, output: str) -> None:
    """Write the beginning of a trace as a trace of its own; the totals of the run stay in it.

    \b
    allotrope trace cut --count 1000000 -o short.alt run.alt
    """
    need_trace(file)
    source = "/dev/stdin" if file == "-" else file
    if output != "-" and os.path.exists(output) and os.path.samefile(source, output):
        raise UserError(f"{output}: is the trace itself; name another --output")
    run_tracer("cut", str(count), output, file)
