# SPDX-License-Identifier: MIT
"""`allotrope sites`: runs a command and tells where in it the memory was allocated."""

import datetime
import json
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
from ..output.files import need_writable
from ..output.page import check_page_modules, render
from ..output.pprof import encode
from ..system import allocators
from ..system.errors import UserError
from .words import TAKES_COMMAND, Word, need_command

TABLE_WIDTH = 100
MOST_ROWS = 10
MOST_FRAMES = 64  # as the library keeps at most


@click.command("sites", cls=Word, context_settings=TAKES_COMMAND)
@click.option(
    "-a",
    "--allocator",
    "spec",
    metavar="ALLOCATOR",
    help="see `allotrope list`; default: the first there",
)
@click.option(
    "--rate",
    metavar="BYTES",
    help="look at one allocation in so many bytes, e.g. 64K; 1 looks at each; default: "
    "as many as cost some hundredth of the time",
)
@click.option(
    "--frames",
    type=click.IntRange(1, MOST_FRAMES),
    default=32,
    show_default=True,
    metavar="N",
    help="callers to keep of each",
)
@click.option("--html", "html_file", metavar="FILE", help="write a page with flame graphs")
@click.option("--pprof", "pprof_file", metavar="FILE", help="write a profile that pprof reads")
@click.option("--json", "json_file", metavar="FILE", help="write everything as JSON")
@click.argument("command", nargs=-1)
def sites(
    spec: str | None,
    rate: str | None,
    frames: int,
    html_file: str | None,
    pprof_file: str | None,
    json_file: str | None,
    command: tuple[str, ...],
) -> int:
    """Run CMD and show where in it the memory was allocated that it held at its peak, and what it
    never freed. The report goes to standard error; standard output and the status are CMD's."""
    need_command(command, "sites [-a ALLOCATOR]")
    outputs = {"--html": html_file, "--pprof": pprof_file, "--json": json_file}
    check_outputs(outputs)
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
    line = shlex.join(command)
    if html_file:
        catalogue = allocators.own_catalogue()
        page = render(sites_page(found, line, date), catalogue["version"] if catalogue else None)
        write(html_file, page.encode(errors="backslashreplace"))
    if pprof_file:
        write(pprof_file, encode(as_profile(found)))
    if json_file:
        document = {"date": date, "command_line": list(command), **as_document(found)}
        write(json_file, (json.dumps(document, indent=1) + "\n").encode())
    report(found)  # last: its reader may have gone
    return status


def check_outputs(outputs: dict[str, str | None]) -> None:
    """Found out before the run, not after it."""
    given = [(option, file) for option, file in outputs.items() if file is not None]
    for option, file in given:
        if file == "-":
            raise UserError(f"{option}: standard output is the command's; name a file")
    need_writable(given)
    if outputs["--html"]:
        check_page_modules()


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


def write(file: str, content: bytes) -> None:
    try:
        Path(file).write_bytes(content)
    except OSError as error:
        raise UserError(f"cannot write {file}: {error.strerror}") from None
