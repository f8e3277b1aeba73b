# SPDX-License-Identifier: MIT
"""How a program's references are recorded: the command line of allotrope-trace-record."""

import json
import os
from datetime import datetime, timezone
from pathlib import Path

import click

from ...system import allocators
from ...system.executables import find_program, preload_obstacle, refusal
from ...system.places import PLACES, built


def allocator_environment(
    program: Path, name: str, spec: str | None, plain: bool
) -> dict[str, str]:
    """The environment to record `program` in. One that nothing can be preloaded into is recorded
    as it is, unless an allocator was asked for."""
    chosen = allocators.for_program(allocators.choose(spec or "glibc"), name)
    obstacle = preload_obstacle(program, chosen.ours)
    if plain:
        if chosen.library is not None and obstacle is not None:
            raise refusal(name, obstacle, chosen.ours)
        return chosen.environment()
    if obstacle is None:
        return chosen.watched_environment()
    if spec is not None:
        raise refusal(name, obstacle, chosen.ours)
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
    # Of processes that are followed, each one's consumer says its own command.
    own = {} if "%p" in output else {"command": list(command)}
    description = own | {
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
