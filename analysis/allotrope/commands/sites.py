# SPDX-License-Identifier: MIT
"""`allotrope sites`: runs a command and tells where in it the memory was allocated."""

import datetime
import shlex
import sys
import tempfile
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table

from ..features.sites.measure import Sites, read_sites
from ..features.sites.output import as_document, as_profile, sentences
from ..features.sites.page import as_terminal_rows, sampling, sites_page
from ..features.sites.run import choose, ending, environment_for, run
from ..output.files import STDOUT, Files, Outputs, as_json
from ..output.page import render
from ..output.pprof import encode
from ..system.allocators import own_version
from ..system.errors import UserError
from .words import allocator_option, frames_option, output_options, takes_command

TABLE_WIDTH = 100
MOST_ROWS = 10
WRITTEN = {
    "--html": "write a page with flame graphs",
    "--pprof": "write a profile that pprof reads",
    "--json": "write everything as JSON",
}


@takes_command("sites", "[-a ALLOCATOR]")
@allocator_option("see `allotrope list`; default: the first there")
@click.option(
    "--rate",
    metavar="BYTES",
    help="look at one allocation in so many bytes, e.g. 64K; 1 looks at each; default: "
    "as many as cost some hundredth of the time",
)
@frames_option(32, "callers to keep of each", metavar="N")
@output_options(WRITTEN, "FILE")
def sites(
    spec: str | None, rate: str | None, frames: int, files: Files, command: tuple[str, ...]
) -> int:
    """Run CMD and show where in it the memory was allocated that it held at its peak, and what it
    never freed. The report goes to standard error; standard output and the status are CMD's.

    \b
    allotrope sites -- ./program
    allotrope sites --rate 1 --html page.html -- ./program
    allotrope sites --pprof heap.pb.gz -- ./program && pprof -http : heap.pb.gz
    """
    for option, file in files.items():
        if file == STDOUT:
            raise UserError(f"{option}: standard output is the command's; name a file")
    outputs = Outputs(files)
    chosen = choose(spec, command)
    environment = environment_for(chosen, rate, frames)
    date = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")
    with tempfile.TemporaryDirectory(prefix="allotrope-sites-") as folder:
        environment["ALLOTROPE_SITES"] = f"{folder}/%p.json"
        status = run(command, environment)
        found = read_sites(Path(folder), chosen)
    if found is None:
        raise UserError(
            f"{command[0]}: no process of the command wrote what it saw; that is done at exit, so "
            f"not by one that ends by a signal, _exit or exec (it {ending(status)})",
            status or 1,
        )
    write(outputs, found, command, date)
    return status


def write(outputs: Outputs, found: Sites, command: tuple[str, ...], date: str) -> None:
    about = {"date": date, "command_line": list(command)}
    outputs.write(
        {
            "--html": lambda: render(sites_page(found, shlex.join(command), date), own_version()),
            "--pprof": lambda: encode(as_profile(found)),
            "--json": lambda: as_json({**about, **as_document(found)}, indent=1),
        },
        lambda: report(found),
    )


def report(found: Sites) -> None:
    console = Console(stderr=True, width=None if sys.stderr.isatty() else TABLE_WIDTH)
    for moment, title in (("peak", "Where the peak was allocated"), ("exit", "Never freed")):
        rows = as_terminal_rows(found, moment, MOST_ROWS)
        if not rows:
            continue
        table = Table(title=f"{title} ({sampling(found)})", title_justify="left")
        for name in ("bytes", "share", "blocks"):
            table.add_column(name, justify="right", overflow="fold", no_wrap=True)
        for name in ("allocated at", "called by"):
            table.add_column(name, justify="left", overflow="fold")
        for row in rows:
            table.add_row(*row)
        console.print(table, highlight=False, markup=False)
    for sentence in sentences(found):
        console.print(str(sentence), markup=False, highlight=False)
