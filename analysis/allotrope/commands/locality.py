# SPDX-License-Identifier: MIT
"""`allotrope locality`: a program's page faults and cache misses under several allocators, each
recorded and simulated at the same time, without a trace on disk."""

import signal
import sys

import click

from ..features.locality.measure import choose_all, run_one
from ..features.locality.output import print_runs, rows
from ..features.locality.simulate import Document
from ..output.files import check_outputs, deliver, output_options
from .words import TAKES_COMMAND, Word, need_command

SCHEMA = "allotrope.locality/1"


@click.command(cls=Word, context_settings=TAKES_COMMAND)
@click.option(
    "-a",
    "--allocator",
    "specs",
    multiple=True,
    metavar="ALLOCATOR",
    help="under this one; repeatable (default: glibc)",
)
@click.option("--page-size", metavar="LIST", help="in bytes; default 4096")
@click.option(
    "--block", metavar="LIST", help="cache blocks in bytes, as BLOCK[:WAYS]; default 32:1,64:8"
)
@click.option("--causes", is_flag=True, help="cold, capacity and conflict misses: slower")
@click.option(
    "--shape",
    "shapes",
    multiple=True,
    metavar="NAME|BLOCK:SETS:WAYS",
    help="also this cache, by set, class, region and function; repeatable",
)
@output_options
@click.argument("command", nargs=-1)
def locality(
    specs: tuple[str, ...],
    page_size: str | None,
    block: str | None,
    causes: bool,
    shapes: tuple[str, ...],
    json_path: str | None,
    csv_path: str | None,
    html_path: str | None,
    command: tuple[str, ...],
) -> int:
    """Page faults and cache misses of CMD for every memory and cache size, under each allocator.
    CMD runs once for each; where its output is asked for as JSON or CSV on standard output, CMD's
    own goes to standard error."""
    need_command(command, "locality [-a ALLOCATOR]...")
    check_outputs(json_path, csv_path, html_path)
    given = {"page-size": page_size, "block": block}
    options = [f"--{name}={value}" for name, value in given.items() if value is not None]
    options += [*(["--causes"] * causes), *(f"--shape={shape}" for shape in shapes)]
    to_stdout = "-" in (json_path, csv_path, html_path)
    runs: list[Document] = []
    interrupted = False
    try:
        for allocator in choose_all(specs, command):
            runs.append(run_one(allocator, options, command, sys.stderr if to_stdout else None))
    except KeyboardInterrupt:
        interrupted = True
        under = ", ".join(run["allocator"] for run in runs) or "none"
        click.echo(f"allotrope: interrupted; allocators measured: {under}", err=True)
        if not runs:
            raise
    about = {"schema": SCHEMA, "command": list(command)}
    document = {**about, "interrupted": interrupted, "runs": runs}

    def page() -> str:
        from ..features.locality.page import locality_page
        from ..output.page import render

        return render(locality_page(document))

    if deliver(document, rows(runs), page, json_path, csv_path, html_path):
        print_runs(runs)
    if interrupted:
        return 128 + signal.SIGINT
    return 0 if alike(runs) else 1


def alike(runs: list[Document]) -> bool:
    """Whether CMD ended in the same way under every allocator; says so where it did not."""
    statuses = {run["status"] for run in runs}
    if len(statuses) > 1:
        each = ", ".join(f"{run['status']} under {run['allocator']}" for run in runs)
        click.echo(f"allotrope: the exit status is not the same: {each}", err=True)
    return len(statuses) == 1
