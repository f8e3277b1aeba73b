# SPDX-License-Identifier: MIT
"""`allotrope leaks`: runs a command and tells what it has lost; asks one that runs."""

import dataclasses
import datetime
from typing import Any

import click

from ..features.leaks.address import in_lines, look
from ..features.leaks.ask import ask, need_reporter
from ..features.leaks.measure import Leaks, read_leaks, with_places
from ..features.leaks.output import (
    WORDY,
    Before,
    as_document,
    as_profile,
    change_of_all,
    headline,
    read_before,
    rows,
    sentences,
)
from ..features.leaks.suppressions import read_rules, suppress
from ..features.reach import served
from ..features.sites.run import choose, ending, environment_for, run
from ..features.sites.snapshot import Unreadable
from ..output.files import Files, Outputs, as_json
from ..output.pprof import encode
from ..output.terminal import print_line, print_table, say, terminal
from ..output.text import one_line
from ..system.allocators import Allocator, with_option
from ..system.errors import UserError
from ..system.machine import need_proc
from ..system.scratch import scratch_folder
from ..system.serving import Onlooker
from .words import (
    allocator_option,
    frames_option,
    given_options,
    need_command,
    output_options,
    takes_command,
)

MOST_ROWS = 20
WRITTEN = {
    "--json": "write everything as JSON",
    "--pprof": "write a profile that pprof reads",
}


@takes_command("leaks")
@allocator_option("the collector with other options; default: gc")
@frames_option(32, "callers to keep of each", metavar="N")
@click.option("--suppressions", metavar="FILE", help="a pattern in each line: leaks not to tell")
@click.option(
    "--since", metavar="FILE", help="show what has grown since a report that --json wrote"
)
@click.option(
    "--address",
    metavar="0x…",
    help="of a PID: which block lies there, who allocated it, and who points to it",
)
@output_options(WRITTEN, "FILE")
@click.pass_context
def leaks(
    context: click.Context,
    spec: str | None,
    frames: int,
    suppressions: str | None,
    since: str | None,
    address: str | None,
    files: Files,
    command: tuple[str, ...],
) -> int:
    """Run CMD and show what it has leaked at its end: blocks that it did not free and that nothing
    reaches. CMD is PID: ask a process that was started so, which stands still a moment.

    The report of CMD goes to standard error; standard output and the status are CMD's. A direct
    leak is one that no other leads to; what only leaks lead to is indirect.

    \b
    allotrope leaks -- ./prog data
    allotrope leaks --json leaks.json 4711           a process that runs under `leaks`
    allotrope leaks --since leaks.json 4711          what has grown
    allotrope leaks --address 0x7f32c0 4711          what lies there, and who points to it
    allotrope leaks --suppressions known -- ./prog   a function, file or file:line in each line
    """
    need_proc("leaks")
    rules = read_rules(suppressions) if suppressions is not None else []
    before = read_before(since, rules) if since is not None else None
    need_command(command, "leaks [-a gc:OPTIONS]")
    if address is not None:
        return show_address(context, address, command)
    outputs = Outputs(files)
    if command[0].isdecimal():
        found = running(context, command)
    else:
        outputs.leave_stdout_to_the_command()
        found, status = at_the_end(choose_reporter(spec, command), frames, command)
    found = suppress(found, rules)
    asked = bool(found.about.get("running"))
    write(outputs, found, before, asked, () if asked else command)
    return 0 if asked else status


def choose_reporter(spec: str | None, command: tuple[str, ...]) -> Allocator:
    """The collector, which reports."""
    chosen = choose(spec or "gc", command)
    if chosen.name != "gc" or chosen.preset != "default":
        raise UserError(f"-a {chosen.spec}: only gc finds leaks; give it as gc:free=ignore, say")
    if "leaks=" in chosen.choice:
        raise UserError(f"-a {chosen.spec}: leaks= is what this word sets; leave it out")
    return dataclasses.replace(chosen, choice=with_option(chosen.choice, "leaks=report"))


def at_the_end(chosen: Allocator, frames: int, command: tuple[str, ...]) -> tuple[Leaks, int]:
    environment = environment_for(chosen, command[0], None, frames)
    with scratch_folder() as folder:
        environment["ALLOTROPE_SITES"] = reports = f"{folder}/%p.json"
        with Onlooker(f"ALLOTROPE_SITES={reports}") as onlooker:
            status = run(command, environment, (onlooker.follow,))
        found = read_leaks(folder, chosen, onlooker)
    if found is None:
        clauses = served.seen_by(onlooker, chosen, ()).clauses()
        raise UserError(
            f"{command[0]}: no process of the command reported its leaks; that is done at exit, so "
            "not by one that is linked statically, was started with an emptied environment, or "
            "ends by a signal, _exit or exec " + "; ".join([f"(it {ending(status)})", *clauses]),
            status or 1,
        )
    if found.allocations == 0:
        raise UserError(
            f"{command[0]}: {chosen.spec} served no allocation of the command, so nothing is known "
            "of its leaks; it has a malloc of its own, or is linked statically",
            status or 1,
        )
    return found, status


def running(context: click.Context, command: tuple[str, ...]) -> Leaks:
    if len(command) > 1:
        raise UserError(f"options stand before the process: leaks … {command[0]}")
    for name, written in given_options(context).items():
        if name in ("spec", "frames"):
            raise UserError(f"process {command[0]} runs already; leave out {written}")
    table = need_reporter(int(command[0]))
    try:
        return with_places([ask(table, lambda text: click.echo(text, err=True))])
    except (Unreadable, OSError) as error:
        raise UserError(f"process {command[0]} did not answer: {error}", 1) from None


def show_address(context: click.Context, address: str, command: tuple[str, ...]) -> int:
    for name, written in given_options(context).items():
        if name not in ("address", "command"):
            raise UserError(f"--address looks at one block; leave out {written}")
    if len(command) != 1 or not command[0].isdecimal():
        raise UserError("--address needs PID, the process to look at")
    try:
        number = int(address, 0)
    except ValueError:
        raise UserError(f"--address: '{address}' is no number; write it as 0x7f32c0") from None
    table = need_reporter(int(command[0]))
    try:
        memory, found = look(table, number)
        lines = in_lines(memory, found)
    except (Unreadable, OSError) as error:
        raise UserError(f"process {command[0]} cannot be read: {error}", 1) from None
    for line in lines:
        click.echo(one_line(line))
    return 0


def write(
    outputs: Outputs, found: Leaks, before: Before | None, asked: bool, command: tuple[str, ...]
) -> None:
    date = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")
    about: dict[str, Any] = {"date": date, "command_line": list(command) or None}
    outputs.write(
        {
            "--json": lambda: as_json({**about, **as_document(found)}, indent=1),
            "--pprof": lambda: encode(as_profile(found)),
        },
        lambda: report(found, before, stderr=not asked or outputs.takes_stdout),
    )


def report(found: Leaks, before: Before | None, stderr: bool) -> None:
    console = terminal(stderr)
    print_line(console, headline(found), "bold")
    if before is not None:
        print_line(console, change_of_all(found, before))
    table = rows(found, before, MOST_ROWS)
    if table[1:]:
        columns = len(table[0])
        words = tuple(range(columns - WORDY, columns))
        print_table(console, table, left=words, styles=[""] * len(table[1:]))
    say(console, sentences(found))
