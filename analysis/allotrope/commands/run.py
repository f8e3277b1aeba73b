# SPDX-License-Identifier: MIT
"""`allotrope run`: a command under an allocator, and nothing else changed for it."""

import errno
import os

import click

from ..output.files import need_writable
from ..system import allocators
from ..system.children import heed_signals
from ..system.errors import UserError
from ..system.executables import (
    STATUS_CANNOT_EXECUTE,
    STATUS_NOT_FOUND,
    find_program,
    need_preloadable,
)
from .words import Word, allocator_option, takes_command


REPORTS = ("--stats", "--latency")
BEFORE_A_VALUE = ("-a", "--allocator", "--log")


class BareReports(Word):
    """A command whose reports may be asked for without a file, which means standard error. A file
    is given as --stats=FILE only, so that the word behind a bare --stats is never taken for one."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        words = list(args)
        place = 0
        while place < len(words) and words[place].startswith("-") and words[place] != "--":
            if words[place] in REPORTS:
                words[place] += "=-"
            place += 2 if words[place] in BEFORE_A_VALUE else 1
        return super().parse_args(ctx, words)


def from_anywhere(file: str) -> str:
    """A report's file, which is written when CMD may have changed its directory."""
    return os.path.abspath(file) if file not in ("", "-") else file


@takes_command("run", "-a ALLOCATOR", BareReports)
@allocator_option("e.g. bsd, bsd:classic, jemalloc; see `allotrope list`", required=True)
@click.option(
    "--stats",
    metavar="[=FILE]",
    help="write statistics at exit, to standard error or FILE; %p in it is the pid, "
    ".json at its end asks for JSON; a process that is static or setuid, or ends by a signal, "
    "_exit or exec, writes none",
)
@click.option(
    "--latency",
    metavar="[=FILE]",
    help="write a histogram of how long each call of malloc and free took, to standard error or "
    "FILE, as --stats",
)
@click.option(
    "--log",
    metavar="FILE",
    help="append what the library says of the program (misuse of the heap, lines of the "
    "collector) to FILE instead of standard error, as a server wants it that redirects its own; "
    "%p in it is the pid; - is standard error as it is now, also when the program "
    "redirects its own or closes it, but not when it closes all its descriptors",
)
def run(
    spec: str,
    stats: str | None,
    latency: str | None,
    log: str | None,
    command: tuple[str, ...],
) -> None:
    """Run CMD under an allocator; nothing else changes for it.

    \b
    allotrope run -a jemalloc -- ./program --its-own-option
    allotrope run -a blocks --stats=stats-%p.json -- make
    allotrope run -a glibc --latency -- ./program
    allotrope run -a blocks:guard --log=heap-%p.log -- ./program
    """
    chosen = allocators.for_program(allocators.choose(spec), command[0])
    if stats is not None and not chosen.ours:
        raise UserError(f"--stats: {spec} keeps no statistics; only allotrope's own allocators do")
    if log is not None and not chosen.ours:
        raise UserError(f"--log: {spec} says nothing there; only allotrope's own allocators do")
    if chosen.kept:
        click.echo(
            f"allotrope: {command[0]} keeps the malloc of {chosen.kept}, which it calls by its own "
            "names: glibc would be given blocks to free that it does not have",
            err=True,
        )
    preloads = chosen.library is not None or latency is not None
    name = command[0]
    try:
        program = need_preloadable(name, chosen.ours) if preloads else find_program(name)
    except UserError as error:
        bare = next((word for word, file in zip(REPORTS, (stats, latency)) if file == "-"), None)
        if bare is None or (error.exit_code != STATUS_NOT_FOUND and os.access(name, os.X_OK)):
            raise
        hint = f"{error.message}; a file for {bare} is given as {bare}=FILE"
        raise UserError(hint, error.exit_code) from None
    environment = dict(os.environ)
    environment |= chosen.environment() if latency is None else chosen.watched_environment()
    if stats is not None:
        environment["ALLOTROPE_STATS"] = from_anywhere(stats)
    if latency is not None:
        environment["ALLOTROPE_LATENCY"] = from_anywhere(latency)
    if log is not None:
        environment["ALLOTROPE_LOG"] = from_anywhere(log)
    reports = {"--stats": stats, "--latency": latency, "--log": log}
    # The program writes these; a folder that is missing is told now. Devices are not looked at, nor
    # is standard error, which all may share.
    named = {name: file for name, file in reports.items() if file and file != "-"}
    need_writable({name: file for name, file in named.items() if file[:5] != "/dev/"})
    heed_signals()
    try:
        os.execve(program, command, environment)
    except OSError as error:
        if error.errno == errno.ENOEXEC:  # a script without #!: as execvp and every shell do
            os.execve("/bin/sh", ["/bin/sh", str(program), *command[1:]], environment)
        reason = error.strerror.lower()
        if error.errno == errno.ENOENT:
            reason = "the loader that it names is not installed"
        raise UserError(f"{command[0]}: cannot execute: {reason}", STATUS_CANNOT_EXECUTE) from None
