# SPDX-License-Identifier: MIT
"""`allotrope record`: a program's references, into a trace.

The work is done by allotrope-trace-record (trace/record_main.c), which becomes this process.
"""

import json
import os
import sys
from datetime import datetime, timezone

import click

from . import allocators
from .errors import UserError
from .executables import STATUS_CANNOT_EXECUTE, find_program, preload_obstacle
from .places import PLACES
from .words import Word


def recorder_line(
    output: str, command: tuple[str, ...], spec: str | None, level: int, progress: bool
) -> list[str]:
    """The command line that records `command`; raises UserError where that cannot work."""
    if not PLACES.recorder.exists() or not (PLACES.tools / "allotrope-amd64-linux").exists():
        raise UserError(f"the recorder is not built: {PLACES.recorder} is missing; run make")
    program = find_program(command[0])
    line = [str(PLACES.recorder), "--tools", str(PLACES.tools), "--output", output]
    description = {
        "command": list(command),
        "allocator": spec or "glibc",
        "recorded": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "machine": os.uname().release,
    }
    line += ["--description", json.dumps(description), "--level", str(level)]
    if progress:
        line.append("--progress")
    if spec is not None:
        chosen = allocators.choose(spec)
        obstacle = preload_obstacle(program) if chosen.library is not None else None
        if obstacle is not None:
            raise UserError(f"{command[0]}: this program {obstacle}", STATUS_CANNOT_EXECUTE)
        for name, value in chosen.environment().items():
            line += ["--env", f"{name}={value}"]
    return [*line, "--", *command]


@click.command("record", context_settings={"allow_interspersed_args": False}, cls=Word)
@click.option("-o", "--output", required=True, metavar="FILE",
              help="the trace to write; - is standard output")  # fmt: skip
@click.option("-a", "--allocator", "spec", metavar="ALLOCATOR",
              help="record CMD under this allocator (default: its own)")  # fmt: skip
@click.option("--level", type=click.IntRange(1, 19), default=1, show_default=True,
              help="zstd's level: higher is smaller and slower")  # fmt: skip
@click.argument("command", nargs=-1)
def record(output: str, spec: str | None, level: int, command: tuple[str, ...]) -> None:
    """Record every data reference of CMD."""
    if not command:
        raise UserError("no command given; usage: allotrope record -o run.alt -- CMD...")
    if "%p" in output:
        raise UserError(
            f"'{output}': %p asks to follow forks and execs, which the recorder does not do yet; "
            "it records the first process"
        )
    line = recorder_line(output, command, spec, level, sys.stderr.isatty())
    sys.stdout.flush()
    os.execv(line[0], line)
