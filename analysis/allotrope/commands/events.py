# SPDX-License-Identifier: MIT
"""`allotrope events`: a program's allocations and frees, recorded natively.

The work is done by allotrope-events (trace/events/record.c), which becomes this process, and by
the preloaded library (shim/observers/events.c).
"""

import os
import sys

import click

from ..features.events.record import recording_line
from ..output.files import need_writable
from ..system.children import heed_signals
from ..system.errors import UserError
from ..system.machine import need_proc
from .words import allocator_option, frames_option, level_option, takes_command


def check_output(output: str) -> None:
    """A name that cannot be written is told of before the program runs."""
    if output == "-":
        raise UserError("-o -: a recording goes to a file, which is read from several places")
    need_writable({"-o": output})


@takes_command("events", "-o run.ale")
@click.option(
    "-o",
    "--output",
    required=True,
    metavar="FILE",
    help="the recording to write; with %p in it each process has a file",
)
@allocator_option("what serves CMD: one of allotrope's own", default="blocks", show_default=True)
@level_option(0, "zstd's level: higher is smaller and slower; 0 is raw")
@frames_option(1, "callers to keep of each allocation; beyond the first each costs time")
def events(output: str, spec: str, level: int, frames: int, command: tuple[str, ...]) -> None:
    """Record every allocation and free of CMD, natively.

    The first process alone, unless %p stands in the name of the output. A program that replaces
    itself (exec) begins the recording anew, so `sh -c` and `env` do no harm. For `allotrope
    lifetimes` and `allotrope replay`.

    \b
    allotrope events -o run.ale -- ./program
    allotrope events -o 'run-%p.ale' --frames 8 -- make
    """
    need_proc("events")
    check_output(output)
    line = recording_line(output, command, spec, level, frames)
    sys.stdout.flush()
    heed_signals()
    os.execve(line[0], line, os.environ)
