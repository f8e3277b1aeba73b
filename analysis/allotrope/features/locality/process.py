# SPDX-License-Identifier: MIT
"""Whose references were simulated: one process's, the one that the command starts.

Its figures stand for the command only where that process did the work and the allocator served it.
The recorder tells what is certain of it: how often it asked malloc, which files its loader mapped,
how many processes it made. Where it made none it was alone. Where it made some, the command runs
once more, natively and watched, and each of its processes is asked for its allocations.

    simulated    "simulated" of a run in JSON (docs/simulate-format.md)
    why          one clause that says why the figures carry no verdict; None where they do
"""

import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Mapping

from ...output.sentences import counted
from ...system.allocators import OWN_VARIABLES, Allocator
from ...system.executables import find_program
from ...system.launch import Launch, launch
from ...system.scratch import scratch_folder
from ...system.serving import Process, Serving, Watcher, among
from ..reach import served

# Of all allocations that were counted; what made fewer does not stand for the command.
MAIN_SHARE = 0.5

Simulated = dict[str, Any]


@dataclass(frozen=True)
class Others:
    """The processes beside the simulated one. found: None where it is not known what they did, and
    `missing` then says why."""

    found: list[Process] | None
    missing: str | None = None


def describe(
    allocator: Allocator, command: tuple[str, ...], process: Mapping[str, Any], status: int
) -> Simulated:
    """process: what the recorder tells. status: how the simulated command ended."""
    files = process["files"]
    own = allocator.name if allocator.ours else None
    serving = among(files, own, process["allocations"])
    others = Others([])
    if process["children"]:
        others = _watch(allocator, command, status)
    account = served.account(others.found or [], allocator)
    simulated = {
        "command": _name(files, command),
        "allocator": serving.allocator,
        "object": serving.object,
        "allocations": serving.allocations,
        "in_reach": served.is_served_by(serving, allocator) if serving.is_known else None,
        "children": process["children"],
        "further_processes": None if others.found is None else len(others.found),
        "further_missing": others.missing,
        "further": account["rows"] if account is not None else [],
    }
    return simulated | {"no_verdict": _why(simulated, serving, others)}


def _name(files: list[str], command: tuple[str, ...]) -> str:
    """As it was called; of a script the name of its interpreter."""
    called = os.path.realpath(find_program(command[0]))
    as_called = not files or os.path.realpath(files[0]) == called
    return os.path.basename(command[0] if as_called else files[0])


def _watch(allocator: Allocator, command: tuple[str, ...], status: int) -> Others:
    standard_input = _repeatable_input()
    if standard_input is None:
        return Others(None, "its standard input cannot be read twice")
    with scratch_folder() as folder, Watcher() as watcher:
        settings = allocator.watched_environment()
        settings["ALLOTROPE_STATS"] = str(folder / "%p.json")
        run = launch(
            Launch(
                command,
                environment=settings,
                unset=OWN_VARIABLES,
                stdin=standard_input,
                stdout=os.devnull,
                stderr=os.devnull,
                watcher=watcher,
            )
        )
    if watcher.forbidden:
        return Others(None, "the kernel allows no ptrace")
    ended = 128 + run.signal if run.signal is not None else run.exit_status
    if ended != status:
        return Others(None, f"when watched, it ended otherwise: {run.ending()}")
    return Others(watcher.processes[1:])


def _repeatable_input() -> str | None:
    """Our standard input for a second run of the command: a file from its beginning."""
    try:
        kind = os.fstat(0).st_mode
    except OSError:
        return os.devnull
    if stat.S_ISREG(kind):
        return os.readlink("/proc/self/fd/0")
    null = Path(os.devnull)
    return os.devnull if stat.S_ISCHR(kind) and os.path.samestat(os.fstat(0), null.stat()) else None


def _why(simulated: Simulated, serving: Serving, others: Others) -> str | None:
    if simulated["in_reach"] is False:
        return f"the allocator did not serve {_stranger(simulated)}"
    name, own = simulated["command"], simulated["allocations"]
    if not serving.is_known:
        return f"which allocator served {name} is not known"
    if own == 0:
        return f"{name} allocated nothing"
    if not simulated["children"]:
        return None
    if others.found is None:
        return f"whether {name} made most of the allocations is not known: {others.missing}"
    return _not_main(simulated)


def _stranger(simulated: Simulated) -> str:
    row = {**simulated, "processes": 1, "unseen": None}
    return f"the simulated process, {served.stranger({'served': {'rows': [row]}})}"


def _not_main(simulated: Simulated) -> str | None:
    """Whether it made less than its share, with the others' allocations as far as known."""
    name, own, rows = simulated["command"], simulated["allocations"], simulated["further"]
    counts = [row["allocations"] for row in rows]
    unknown = [row["command"] for row in rows if row["allocations"] is None]
    elsewhere = sum(count for count in counts if count is not None)
    if own is not None and own <= MAIN_SHARE * (own + elsewhere):
        share = own / (own + elsewhere)
        return f"{name} made only {own:,} of the {own + elsewhere:,} allocations ({share:.0%})"
    if own is None or unknown:
        of = ", ".join(dict.fromkeys(unknown)) or name
        return (
            f"whether {name} made most of the allocations is not known: those of {of} were not "
            "counted"
        )
    return None


def describe_line(run: Mapping[str, Any]) -> str:
    """Which process the figures of a run are of, and which they are not of."""
    one = run["simulated"]
    own = one["allocations"]
    line = f"{run['allocator']}: simulated is the first process, {one['command']}"
    line += " (allocations not counted)" if own is None else f" ({counted(own, 'allocation')})"
    if not one["children"]:
        return f"{line}; there was no other"
    if one["further_processes"] is None:
        made = _further(one["children"])
        return f"{line}; not simulated: {made} that it made, and those that these made"
    listed = ", ".join(_row(row) for row in one["further"])
    return f"{line}; not simulated: {_further(one['further_processes'])}, allocations: {listed}"


def _further(count: int) -> str:
    return f"{count} further process" + ("" if count == 1 else "es")


def _row(row: Mapping[str, Any]) -> str:
    count = row["allocations"]
    words = f"{row['command']} " + ("not counted" if count is None else f"{count:,}")
    return words + (f" in {row['processes']} processes" if row["processes"] > 1 else "")
