# SPDX-License-Identifier: MIT
"""`allotrope sites`: runs a command and tells where in it the memory was allocated; looks at a
process that runs; compares two reports."""

import datetime
import shlex
from typing import Any

import click

from ..features.reach import served
from ..features.sites.difference import (
    change_of_all,
    change_rows,
    holds,
    parse_period,
    read_report,
)
from ..features.sites.measure import Sites, read_sites, with_names
from ..features.sites.output import as_document, as_profile, sentences
from ..features.sites.page import as_terminal_rows, sampling, sites_page
from ..features.sites.run import choose, ending, environment_for, run
from ..features.sites.snapshot import SiteTable, Unreadable, need_table
from ..features.sites.snapshot import every as repeated
from ..features.sites.timeline import Timeline, Timelines
from ..output.files import Files, Outputs, as_json
from ..output.page import render
from ..output.pprof import encode
from ..output.terminal import print_line, print_table, print_wrapped, say, terminal
from ..system.allocators import Allocator, own_version
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

MOST_ROWS = 10
COLUMNS = ["bytes", "share", "blocks", "allocated at", "called by"]
PLACES = (3, 4)  # the columns that are words
# These words ask about our diff, not about the program of that name.
ASKS_ABOUT_DIFF = (("diff", "--help"), ("diff", "-h"))
WRITTEN = {
    "--html": "write a page with flame graphs",
    "--pprof": "write a profile that pprof reads",
    "--json": "write everything as JSON",
}


@takes_command("sites")
@allocator_option("see `allotrope list`; default: the first there")
@click.option(
    "--rate",
    metavar="BYTES",
    help="look at one allocation in so many bytes, e.g. 64K; 1 looks at each; default: "
    "as many as cost some hundredth of the time",
)
@frames_option(32, "callers to keep of each", metavar="N")
@click.option(
    "--pid",
    type=click.IntRange(min=1),
    metavar="PID",
    help="look at a process that was started under `allotrope sites`; it notices nothing",
)
@click.option(
    "--every",
    metavar="SECONDS",
    help="with --pid: look again and again, e.g. 10s, and show what changed; in the file that "
    "--json names %n is the number of the look",
)
@output_options(WRITTEN, "FILE")
@click.pass_context
def sites(
    context: click.Context,
    spec: str | None,
    rate: str | None,
    frames: int,
    pid: int | None,
    every: str | None,
    files: Files,
    command: tuple[str, ...],
) -> int:
    """Run CMD and show where in it the memory was allocated that it held at its peak, and what it
    never freed. The report goes to standard error; standard output and the status are CMD's.

    \b
    allotrope sites -- ./prog data
    allotrope sites --rate 1 --html page.html -- ./prog data
    allotrope sites --pprof heap.pb.gz -- ./prog && pprof -http : heap.pb.gz
    allotrope sites -- ./server & allotrope sites --pid $!    what it holds at this moment
    allotrope sites --pid 4711 --json now.json       the same as a file
    allotrope sites --pid 4711 --every 10s           what changes
    allotrope sites diff before.json after.json      two files of --json
    """
    if pid is not None:
        return look_at(context, pid, every, files["--json"])
    if every is not None:
        raise UserError("--every needs --pid, the process to look at")
    if command in ASKS_ABOUT_DIFF:
        click.echo(context.get_help())
        return 0
    if is_difference(command):
        return show_difference(context, command[1], command[2])
    need_command(command, "sites [-a ALLOCATOR]")
    outputs = Outputs(files)
    outputs.leave_stdout_to_the_command()
    chosen = choose(spec, command)
    environment = environment_for(chosen, command[0], rate, frames)
    date = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")
    with scratch_folder() as folder:
        environment["ALLOTROPE_SITES"] = reports = f"{folder}/%p.json"
        mark = f"ALLOTROPE_SITES={reports}"
        timelines, onlooker = Timelines(files["--html"] is not None, mark), Onlooker(mark)
        with timelines, onlooker:
            status = run(command, environment, (timelines.follow, onlooker.follow))
        found = read_sites(folder, chosen, onlooker)
    if found is None:
        raise nothing_written(command, chosen, onlooker, status)
    write(outputs, found, timelines.of(found.raw["pid"]), command, date)
    return status


def nothing_written(
    command: tuple[str, ...], chosen: Allocator, onlooker: Onlooker, status: int
) -> UserError:
    """What is to be said when there is no report."""
    clauses = served.seen_by(onlooker, chosen, ()).clauses()
    return UserError(
        f"{command[0]}: no process of the command wrote what it saw; that is done at exit, so not "
        "by one that ends by a signal, _exit or exec, and never by one that is linked statically "
        "or was started with an emptied environment "
        + "; ".join([f"(it {ending(status)})", *clauses]),
        status or 1,
    )


def look_at(context: click.Context, pid: int, every: str | None, file: str | None) -> int:
    """One look at a process, or many."""
    for name, written in given_options(context).items():
        if name not in ("pid", "every", "json_file"):
            raise UserError(f"--pid looks at a process that runs; leave out {written}")
    seconds = None if every is None else parse_period(every)
    need_proc("sites --pid")
    table = need_table(pid)
    before: Sites | None = None
    for number, moment in enumerate(repeated(seconds or 1)):
        try:
            now = with_names(table.report() | about_table(table), 1)
        except (Unreadable, OSError) as error:
            has_ended = not table.is_there()
            if has_ended and before is not None:
                return 0  # as processes do
            why = f"process {pid} " + ("has ended" if has_ended else f"cannot be read: {error}")
            if has_ended or seconds is None:
                raise UserError(f"--pid: {why}", 1) from None
            click.echo(f"{moment:.1f} s: {why}", err=True)
            continue
        outputs = Outputs({"--json": file and file.replace("%n", f"{number:04}")})
        outputs.write(
            {"--json": lambda: as_json({**about_now(), **as_document(now)}, indent=1)},
            lambda: show_look(
                outputs.takes_stdout, now, before, f"{moment:.1f} s: " if every else ""
            ),
        )
        if seconds is None:
            return 0
        before = now
    return 0


def about_now() -> dict[str, Any]:
    date = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")
    return {"date": date, "command_line": None}


def about_table(table: SiteTable) -> dict[str, Any]:
    return {"allocator": table.published.allocator, "preset": table.published.preset}


def show_look(stderr: bool, now: Sites, before: Sites | None, moment: str) -> None:
    console = terminal(stderr)
    print_wrapped(console, f"{moment}{holds(now)}")
    if before is None:
        rows = [COLUMNS, *as_terminal_rows(now, "exit", MOST_ROWS)]
    else:
        rows = change_rows(before, now, "exit")[: MOST_ROWS + 1]
    if rows[1:]:
        print_table(console, rows, left=PLACES, styles=[""] * len(rows[1:]))


def is_difference(command: tuple[str, ...]) -> bool:
    """`sites diff A B` with two reports; the program diff under sites is /usr/bin/diff."""
    files = command[1:]
    if command[:1] != ("diff",) or (files and not any(one.endswith(".json") for one in files)):
        return False
    if len(files) != 2:
        given = {0: "none is", 1: "one is"}.get(len(files), f"{len(files)} are")
        raise UserError(
            f"sites diff takes two files that --json wrote; {given} given (the program diff is "
            "/usr/bin/diff)"
        )
    return True


def show_difference(context: click.Context, before: str, after: str) -> int:
    for name, written in given_options(context).items():
        if name != "command":
            raise UserError(f"sites diff compares what was written before; leave out {written}")
    console = terminal()
    documents = read_report(before), read_report(after)
    for moment, title in (("peak", "At the peak"), ("exit", "Held at the end, or at the look")):
        rows = change_rows(*documents, moment)[: MOST_ROWS + 1]
        print_line(console, f"{title}: {change_of_all(*documents, moment)}", "bold")
        if rows[1:]:
            print_table(console, rows, left=PLACES, styles=[""] * len(rows[1:]))
    return 0


def write(
    outputs: Outputs, found: Sites, over_time: Timeline | None, command: tuple[str, ...], date: str
) -> None:
    about = {"date": date, "command_line": list(command)}
    outputs.write(
        {
            "--html": lambda: render(
                sites_page(found, shlex.join(command), date, over_time), own_version()
            ),
            "--pprof": lambda: encode(as_profile(found)),
            "--json": lambda: as_json({**about, **as_document(found)}, indent=1),
        },
        lambda: report(found),
    )


def report(found: Sites) -> None:
    console = terminal(stderr=True)
    for moment, title in (("peak", "Where the peak was allocated"), ("exit", "Never freed")):
        rows = as_terminal_rows(found, moment, MOST_ROWS)
        if rows:
            print_line(console, f"{title} ({sampling(found)})", "bold")
            print_table(console, [COLUMNS, *rows], left=PLACES, styles=[""] * len(rows))
    say(console, sentences(found))
