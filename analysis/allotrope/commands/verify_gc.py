# SPDX-License-Identifier: MIT
"""`allotrope verify-gc -- CMD`: whether a program uses blocks that the collector would reclaim."""

import json
import sys
from dataclasses import asdict

import click

from ..features.hidden.verify import verify
from ..output.text import printable
from ..system.machine import need_proc
from .words import takes_command

SCHEMA = "allotrope.verify-gc/1"
STATUSES = {"nothing found": 0, "unsafe": 1, "not judged": 3}


@takes_command("verify-gc", "[--every N]")
@click.option(
    "--every",
    type=click.IntRange(min=1),
    default=3000,
    show_default=True,
    metavar="N",
    help="collect each so many allocations",
)
@click.option(
    "--json",
    "as_json",
    is_flag=True,
    help=f"write JSON ({SCHEMA}); what CMD writes on standard output then goes to standard error",
)
def verify_gc(every: int, as_json: bool, command: tuple[str, ...]) -> int:
    """Run CMD with a collector that reclaims nothing, and tell whether CMD uses what it would have
    reclaimed: then CMD hides pointers. Ctrl-C ends CMD; what it did until then is judged.

    It runs under the recorder, which sees each load, some 50 times slower. Judged is what this run
    did in CMD's first process. The last lines say

    \b
    unsafe: BLOCK, SITE ...             status 1: run it with leaks=keep
    nothing found in N collections      status 0: another run may do more
    not judged: WHY                     status 3, as when CMD is killed

    \b
    allotrope verify-gc -- ./program
    allotrope verify-gc --every 500 -- ./program     more collections, so more to find
    """
    need_proc("verify-gc")
    judgement = verify(command, every, sys.stderr.fileno() if as_json else None)
    if as_json:
        verdict = {"schema": SCHEMA, "verdict": judgement.verdict}
        click.echo(json.dumps(verdict | asdict(judgement), indent=2))
    else:
        click.echo(printable(str(judgement)))
    return STATUSES[judgement.verdict]
