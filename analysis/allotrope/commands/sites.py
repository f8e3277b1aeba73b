# SPDX-License-Identifier: MIT
"""`allotrope sites`: runs a command and tells where in it the memory was allocated."""

import datetime
import json
import os
import shlex
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table

from ..features.sites.measure import Sites, as_document, as_profile, read_sites, sentences
from ..features.sites.page import as_terminal_rows, sampling, sites_page
from ..output.files import need_writable
from ..output.page import check_page_modules, render
from ..output.pprof import encode
from ..system import allocators
from ..system.errors import UserError
from ..system.executables import STATUS_CANNOT_EXECUTE, need_preloadable
from .words import TAKES_COMMAND, Word, need_command

TABLE_WIDTH = 100
MOST_ROWS = 10
MOST_FRAMES = 64  # as the library keeps at most


@click.command("sites", cls=Word, context_settings=TAKES_COMMAND)
@click.option("-a", "--allocator", "spec", metavar="ALLOCATOR",
              help="see `allotrope list`; default: the first there")  # fmt: skip
@click.option("--rate", metavar="BYTES",
              help="look at one allocation in so many bytes, e.g. 64K; 1 looks at each; default: "
              "as many as cost some hundredth of the time")  # fmt: skip
@click.option("--frames", type=click.IntRange(1, MOST_FRAMES), default=32, show_default=True,
              metavar="N", help="callers to keep of each")  # fmt: skip
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


def choose(spec: str | None, command: tuple[str, ...]) -> allocators.Allocator:
    """The allocator to run the command under, which must be one that can be watched there."""
    missing = allocators.own_missing()
    if missing:
        raise UserError(missing)
    catalogue = allocators.own_catalogue()
    assert catalogue is not None
    chosen = allocators.choose(spec or catalogue["allocators"][0]["name"])
    need_preloadable(command[0])
    return chosen


def environment_for(chosen: allocators.Allocator, rate: str | None, frames: int) -> dict[str, str]:
    environment = {
        key: value for key, value in os.environ.items() if key not in allocators.OWN_VARIABLES
    }
    environment |= allocators.with_unwinder(chosen.watched_environment())
    environment["ALLOTROPE_SITES_FRAMES"] = str(frames)
    if rate is not None:
        environment["ALLOTROPE_SITES_RATE"] = check_rate(rate)
    return environment


def check_rate(text: str) -> str:
    """As the library reads it: digits, perhaps with K, M or G; at most 1G."""
    digits, factor = text, 1
    if text[-1:] in ("K", "M", "G"):
        digits, factor = text[:-1], 1 << 10 * (1 + "KMG".index(text[-1]))
    if not (digits.isascii() and digits.isdigit()) or not 1 <= int(digits) * factor <= 1 << 30:
        raise UserError(f"--rate: bad value '{text}'; bytes from 1 to 1G, e.g. 64K")
    return text


def run(command: tuple[str, ...], environment: dict[str, str]) -> int:
    """Runs it to its end, which an interruption from the terminal reaches by itself; the status
    as a shell has it."""
    try:
        child = subprocess.Popen(command, env=environment)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise UserError(f"{command[0]}: cannot execute: {reason}", STATUS_CANNOT_EXECUTE) from None
    while True:
        try:
            status = child.wait()
            return status if status >= 0 else 128 - status
        except KeyboardInterrupt:
            continue


def ending(status: int) -> str:
    if status > 128:
        return f"was killed by {signal.Signals(status - 128).name}"
    return f"ended with status {status}"


def report(found: Sites) -> None:
    console = Console(stderr=True, width=None if sys.stderr.isatty() else TABLE_WIDTH)
    for moment, title in (("peak", "Where the peak was allocated"), ("exit", "Never freed")):
        rows = as_terminal_rows(found, moment, MOST_ROWS)
        if not rows:
            continue
        table = Table(title=f"{title} ({sampling(found)})", title_justify="left")
        for name, justify in (("bytes", "right"), ("share", "right"), ("blocks", "right"),
                              ("allocated at", "left"), ("called by", "left")):  # fmt: skip
            table.add_column(name, justify=justify, overflow="fold",  # type: ignore[arg-type]
                             no_wrap=justify == "right")  # fmt: skip
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
