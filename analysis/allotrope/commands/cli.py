# SPDX-License-Identifier: MIT
"""The command line as a whole: its words, and how it ends."""

import codecs
import errno
import io
import os
import signal
import sys
from types import FrameType
from typing import Mapping, NoReturn

import click

from ..output.text import printable
from ..system.children import heed_children, ignore_hangups, repeat_lost_interruptions
from .complaints import in_our_words
from .words import Words

PROGRAM = "allotrope"
# ASCII characters that replace our others where the locale has only ASCII. One for one, so that
# columns stay aligned.
ASCII = {"–": "-", "×": "x", "µ": "u", "·": "-", "…": "~", "←": "<", "→": ">", "⋮": ":"}
ASCII |= {"─": "-", "━": "-", "█": "#", "▏": "|", "’": "'", "“": '"', "”": '"', "≤": "<", "≥": ">"}
_CODEC = codecs.lookup("ascii")
ASCII_CODEC = codecs.CodecInfo(
    *_CODEC, _CODEC.incrementalencoder, _CODEC.incrementaldecoder, name="allotrope_ascii"
)

# The words of the command line, in the order of --help, each with the name of its function. The
# module has the name of the word.
WORDS = {
    "run": "run",
    "list": "list_allocators",
    "compare": "compare_allocators",
    "load": "load",
    "doctor": "doctor",
    "verify-gc": "verify_gc",
    "record": "record",
    "trace": "trace",
    "simulate": "simulate",
    "locality": "locality",
    "sites": "sites",
    "leaks": "leaks",
    "stats": "stats",
    "events": "events",
    "replay": "replay",
    "lifetimes": "lifetimes",
    "study": "study",
    "zorn": "zorn",
    "vm": "vm",
    "help": "show_help",
}


def main() -> NoReturn:
    """Runs the command line; what the user can mend is one line on standard error."""
    stand_in_for_closed_streams()
    if locale_is_ascii(os.environ):
        speak_ascii()
    else:
        replace_what_it_lacks(sys.stdout)
    # These end us as Ctrl-C does: what we have started ends too, what was measured is written,
    # temporary files are removed.
    for number, ends in ((signal.SIGTERM, signal.default_int_handler), (signal.SIGHUP, hang_up)):
        if signal.getsignal(number) == signal.SIG_DFL:
            signal.signal(number, ends)
    heed_children()
    repeat_lost_interruptions()
    try:
        status = cli.main(prog_name=PROGRAM, standalone_mode=False)
        sys.stdout.flush()
    except click.ClickException as error:
        end(error.exit_code, in_our_words(error))
    except (click.Abort, KeyboardInterrupt):
        end(128 + signal.SIGINT)
    except SystemExit:
        # This is how click tells that the reader of our output has closed it.
        if isinstance(sys.stdout, click.utils.PacifyFlushWrapper):
            os._exit(128 + signal.SIGPIPE)
        raise
    except OSError as error:
        if error.errno == errno.EPIPE:
            end(128 + signal.SIGPIPE)
        what = "write to standard output" if error.filename is None else f"use {error.filename}"
        end(2, f"cannot {what}: {error.strerror or error}")
    sys.exit(status or 0)


def hang_up(number: int, frame: FrameType | None) -> None:
    """Ends us as Ctrl-C does, once."""
    ignore_hangups()
    signal.default_int_handler(number, frame)


def stand_in_for_closed_streams() -> None:
    """Replaces streams that the caller has closed. Every write to standard output then fails, as on
    a full disk. What goes to standard error is dropped."""
    if sys.stdout is None:
        sys.stdout = os.fdopen(os.open(os.devnull, os.O_RDONLY), "w")
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")


def locale_is_ascii(environment: Mapping[str, str]) -> bool:
    """Whether the user's is C or POSIX. (Python itself takes these for UTF-8.)"""
    names = ("LC_ALL", "LC_CTYPE", "LANG")
    chosen = next((environment[name] for name in names if environment.get(name)), "C")
    return chosen in ("C", "POSIX")


def replace_what_it_lacks(stream: object) -> None:
    """What the encoding has no sign for is written as in ASCII, and bytes that are no text as they
    are."""
    codecs.register_error(PROGRAM, in_ascii)
    if isinstance(stream, io.TextIOWrapper):
        stream.reconfigure(errors=PROGRAM)


def speak_ascii() -> None:
    """From now on our output is ASCII (ASCII above). Bytes that are no text stay as they are. The
    encoding has a name of its own, because click takes a stream whose encoding is called ascii
    for misconfigured, and writes UTF-8 past it."""
    codecs.register_error(PROGRAM, in_ascii)
    codecs.register(lambda name: ASCII_CODEC if name == ASCII_CODEC.name else None)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding=ASCII_CODEC.name, errors=PROGRAM)


def in_ascii(error: UnicodeError) -> tuple[str | bytes, int]:
    """An error handler of codecs."""
    assert isinstance(error, UnicodeEncodeError)
    sign = error.object[error.start]
    if "\udc80" <= sign <= "\udcff":
        return bytes([ord(sign) - 0xDC00]), error.start + 1
    return ASCII.get(sign) or sign.encode(errors="backslashreplace"), error.start + 1


def end(status: int, message: str | None = None) -> NoReturn:
    """Ends at once: what could not be written before is not tried again on the way out."""
    try:
        if message is not None:
            click.echo(f"{PROGRAM}: {printable(message)}", err=True)
        sys.stdout.flush()
    except OSError:
        pass
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (sys.stdout, sys.stderr):
        os.dup2(nowhere, stream.fileno())
    sys.exit(status)


def print_version(context: click.Context, _: click.Parameter, wanted: bool) -> None:
    """The native side's version is the project's."""
    if wanted:
        from ..system.allocators import own_version

        click.echo(f"{PROGRAM} {own_version() or '(not built)'}")
        context.exit()


@click.group(cls=Words, where=WORDS, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=print_version,
    help="show the version and exit",
)
def cli() -> None:
    """Runs, compares and explains allocators under programs that exist already."""
