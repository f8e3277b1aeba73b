# SPDX-License-Identifier: MIT
"""`allotrope record`: a program's references, into a trace.

The work is done by allotrope-trace-record (trace/references/record_main.c), which becomes this
process.
"""

import os
import sys

import click

from ..features.trace.record import recorder_line
from ..output.files import need_writable
from ..system import allocators
from ..system.children import heed_signals
from ..system.machine import need_proc
from .words import allocator_option, level_option, takes_command


@takes_command("record", "-o run.alt")
@click.option(
    "-o",
    "--output",
    required=True,
    metavar="FILE",
    help="the trace to write; - is standard output; with %p, a process id, forks and "
    "execs are followed, each into a trace of its own",
)
@allocator_option("record CMD under this allocator (default: its own)")
@level_option(1, "zstd's level: higher is smaller and slower")
@click.option(
    "--plain", is_flag=True, help="preload nothing that tells the allocator's references from CMD's"
)
def record(
    output: str, spec: str | None, level: int, plain: bool, command: tuple[str, ...]
) -> None:
    """Record every data reference of CMD, with whom it belongs to: the program, its allocator, or a
    phase of the collector; and every allocation.

    \b
    allotrope record -o run.alt -- gawk -f fill.awk words
    allotrope record -o run.alt -a bsd:classic -- ./program
    allotrope record -o 'run-%p.alt' -- sh -c './program | sort'
    allotrope record -o - -- ./program 2>/dev/null | allotrope trace info -
    """
    need_proc("record")
    need_writable({"-o": output})
    line = recorder_line(output, command, spec, level, sys.stderr.isatty(), plain)
    if spec is not None or not plain:
        for name in allocators.OWN_VARIABLES:
            os.environ.pop(name, None)
    sys.stdout.flush()
    heed_signals()
    os.execve(line[0], line, os.environ)
