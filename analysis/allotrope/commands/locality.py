# SPDX-License-Identifier: MIT
"""`allotrope locality`: a program's page faults, cache and TLB misses under several allocators,
each recorded and simulated at the same time, without a trace on disk."""

import signal
import sys
from typing import Any

import click

from ..features.locality.lines import add_lines, need_shape, wants_windows
from ..features.locality.measure import choose_all, run_one
from ..features.locality.output import print_runs, rows
from ..features.locality.page import locality_page
from ..features.locality.simulate import Document, option_words
from ..features.locality.verdicts import MOST_LAYOUTS, no_verdict, verdicts
from ..output.files import Files, Outputs, as_csv, as_json
from ..output.page import render
from ..system.machine import need_proc
from .filter_options import filter_options, lines_option, window_options
from .words import RESULTS, allocators_option, output_options, takes_command

SCHEMA = "allotrope.locality/1"


@takes_command("locality", "[-a ALLOCATOR]...")
@allocators_option("under this one; repeatable (default: glibc)")
@click.option("--page-size", metavar="LIST", help="in bytes or as 64K; default 4K")
@click.option(
    "--block", metavar="LIST", help="cache blocks in bytes, as BLOCK[:WAYS]; default 32:1,64:8"
)
@click.option("--tlb", metavar="LIST", help="TLBs too, for pages of PAGE[:WAYS], as in 4K:4,2M:4")
@click.option(
    "--layouts",
    type=click.IntRange(1, MOST_LAYOUTS),
    default=1,
    metavar="N",
    help="record with N places of the stack: from 9 on differences have intervals",
)
@click.option("--causes", is_flag=True, help="cold, capacity and conflict misses: slower")
@click.option(
    "--shape",
    multiple=True,
    metavar="NAME|BLOCK:SETS:WAYS",
    help="also this cache or TLB, by set, class, region, function and time; repeatable",
)
@lines_option
@window_options
@filter_options
@output_options(RESULTS)
def locality(
    specs: tuple[str, ...],
    layouts: int,
    files: Files,
    command: tuple[str, ...],
    **simulated: Any,
) -> int:
    """Page faults and cache misses of CMD for every memory and cache size, under each allocator.
    CMD runs once for each, or N times with --layouts N; a command of several processes once more,
    unrecorded, to see which of them allocate. Where its output is asked for as JSON or CSV on
    standard output, CMD's own goes to standard error.

    \b
    allotrope locality -- ./program
    allotrope locality -a glibc -a bsd --page-size 4096,65536 --html page.html -- ./program
    allotrope locality -a glibc -a blocks --tlb 4K:4,2M:4 --html page.html -- ./program
    allotrope locality -a glibc -a blocks --layouts 9 -- ./program
    allotrope locality --class allocator --shape zen5-l1d -- ./program
    allotrope locality --shape 64:64:8 --lines -- ./program
    allotrope locality --causes --shape 64:64:8 --json result.json -- ./program
    """
    need_proc("locality")
    need_shape(simulated)
    outputs = Outputs(files)
    options = option_words(simulated)
    runs: list[Document] = []
    interrupted = False
    try:
        for allocator in choose_all(specs, command):
            programs_output = sys.stderr if outputs.takes_stdout else None
            runs.append(run_one(allocator, options, command, programs_output, layouts))
            add_lines(runs[-1]["caches"])
    except KeyboardInterrupt:
        interrupted = True
        under = ", ".join(run["allocator"] for run in runs) or "none"
        click.echo(f"allotrope: interrupted; allocators measured: {under}", err=True)
        if not runs:
            raise
    about = {"schema": SCHEMA, "command": list(command)}
    decided = {"verdicts": verdicts(runs), "no_verdict": no_verdict(runs)}
    document = {**about, "interrupted": interrupted, **decided, "runs": runs}
    outputs.write(
        {
            "--json": lambda: as_json(document),
            "--csv": lambda: as_csv(rows(runs)),
            "--html": lambda: render(locality_page(document)),
        },
        lambda: None if outputs.takes_stdout else print_runs(runs, wants_windows(simulated)),
    )
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
