# SPDX-License-Identifier: MIT
"""`allotrope record`: a program's references, into a trace.

The work is done by allotrope-trace-record (trace/record_main.c), which becomes this process.
"""

import json
import os
import sys
from datetime import datetime, timezone
from pathlib import Path

import click

from ..system import allocators
from ..system.errors import UserError
from ..system.executables import STATUS_CANNOT_EXECUTE, find_program, preload_obstacle
from ..system.places import PLACES, built
from .words import TAKES_COMMAND, Word, need_command


def allocator_environment(
    program: Path, name: str, spec: str | None, plain: bool
) -> dict[str, str]:
    """The environment to record `program` in. One that nothing can be preloaded into is recorded
    as it is, unless an allocator was asked for."""
    chosen = allocators.choose(spec or "glibc")
    obstacle = preload_obstacle(program)
    if plain:
        if chosen.library is not None and obstacle is not None:
            raise UserError(f"{name}: this program {obstacle}", STATUS_CANNOT_EXECUTE)
        return chosen.environment()
    if obstacle is None:
        return chosen.watched_environment()
    if spec is not None:
        raise UserError(f"{name}: this program {obstacle}", STATUS_CANNOT_EXECUTE)
    click.echo(
        f"allotrope: {name}: this program {obstacle}; it is recorded as it is, and its "
        "allocator's references count as the program's",
        err=True,
    )
    return {}


def recorder_tools() -> str:
    """The folder of the Valgrind tool, which records."""
    return str(built(PLACES.tools / "allotrope-amd64-linux").parent)


def recorder_line(
    output: str,
    command: tuple[str, ...],
    spec: str | None,
    level: int,
    progress: bool,
    plain: bool = False,
) -> list[str]:
    """The command line that records `command`; raises UserError where that cannot work."""
    recorder = built(PLACES.recorder)
    program = find_program(command[0])
    line = [str(recorder), "--tools", recorder_tools(), "--output", output]
    description = {
        "command": list(command),
        "allocator": spec or "glibc",
        "recorded": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "machine": os.uname().release,
    }
    line += ["--description", json.dumps(description), "--level", str(level)]
    if progress:
        line.append("--progress")
    for name, value in allocator_environment(program, command[0], spec, plain).items():
        line += ["--env", f"{name}={value}"]
    return [*line, "--", *command]


@click.command("record", cls=Word, context_settings=TAKES_COMMAND)
@click.option("-o", "--output", required=True, metavar="FILE",
              help="the trace to write; - is standard output; with %p, a process id, forks and "
                   "execs are followed, each into a trace of its own")  # fmt: skip
@click.option("-a", "--allocator", "spec", metavar="ALLOCATOR",
              help="record CMD under this allocator (default: its own)")  # fmt: skip
@click.option("--level", type=click.IntRange(1, 19), default=1, show_default=True,
              help="zstd's level: higher is smaller and slower")  # fmt: skip
@click.option("--plain", is_flag=True,
              help="preload nothing that tells the allocator's references from CMD's")  # fmt: skip
@click.argument("command", nargs=-1)
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
    need_command(command, "record -o run.alt")
    line = recorder_line(output, command, spec, level, sys.stderr.isatty(), plain)
    if spec is not None or not plain:
        for name in allocators.OWN_VARIABLES:
            os.environ.pop(name, None)
    sys.stdout.flush()
    os.execv(line[0], line)
