# SPDX-License-Identifier: MIT
"""The one way in which commands write files: a result to each file that an option names, or to
standard output where it is `-`; and the state of work in progress. A file is written beside its
place and then renamed, so that a full disk or an interruption leaves no half of it."""

import contextlib
import csv
import io
import json
import os
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from ..system.errors import UserError

STDOUT = "-"
ALSO_STDOUT = ("/dev/stdout", "/dev/fd/1", "/proc/self/fd/1")
Files = Mapping[str, str | None]  # by option; None: was not asked for


class Outputs:
    """What a command was asked to write, by option. All of it is found wanting before the work, not
    after it; nothing is made or emptied yet."""

    def __init__(
        self, files: Files, inputs: Iterable[str | None] = (), others: Files | None = None
    ) -> None:
        """inputs: files that are read, which no output may be. others: what is written too, but not
        by write()."""
        self.files = {
            option: STDOUT if file in ALSO_STDOUT else file
            for option, file in files.items()
            if file is not None
        }
        need_writable({**self.files, **(others or {})}, inputs)
        if "--html" in self.files:
            from .page import check_page_modules

            check_page_modules()

    @property
    def takes_stdout(self) -> bool:
        return STDOUT in self.files.values()

    def leave_stdout_to_the_command(self) -> None:
        """Refuses an output that would go where the measured command writes."""
        for option, file in self.files.items():
            if file == STDOUT:
                raise UserError(f"{option}: standard output is the command's; name a file")

    def write(
        self,
        makers: Mapping[str, Callable[[], str | bytes]],
        show: Callable[[], None] = lambda: None,
    ) -> None:
        """Makes what was asked for and writes it: files before anything is shown, so that a full
        terminal or pipe costs no result; standard output behind it. A file that cannot be made or
        written costs neither the others nor what is shown, nor does what cannot be shown (a
        condition that cannot be judged) cost standard output: each is told at the end."""
        failed: list[Exception] = []
        for_stdout = None
        for option, file in self.files.items():
            try:
                content = makers[option]()
                if file == STDOUT:
                    for_stdout = as_bytes(content)
                else:
                    write_file(file, content)
            except Exception as error:
                failed.append(error)
        try:
            show()
        except UserError as error:
            failed.append(error)
        if for_stdout is not None:
            click.echo(for_stdout, nl=False)
        if len(failed) > 1 and all(isinstance(error, UserError) for error in failed):
            raise UserError("; ".join(map(str, failed)))
        if failed:
            raise failed[0]


def as_bytes(content: str | bytes) -> bytes:
    """What no text may hold (bytes of a command line that are no UTF-8) is written as escapes."""
    return content if isinstance(content, bytes) else content.encode(errors="backslashreplace")


def write_file(file: str, content: str | bytes) -> None:
    """The file is the old one or the new one, whatever happens."""
    with _named(file):
        _replace(Path(_place_of(file)), as_bytes(content))


def replace_file(file: Path, text: str) -> None:
    """As write_file, in a folder that is made where it is missing."""
    with _named(file):
        file.parent.mkdir(parents=True, exist_ok=True)
    write_file(str(file), text)


def _place_of(file: str) -> str:
    """Where it really is, behind all links. What a descriptor of ours leads to has no other name if
    it is a pipe, as a shell's >(CMD) is, or was removed."""
    place = os.path.realpath(file)
    return place if os.path.exists(place) or not os.path.exists(file) else file


def _replace(file: Path, data: bytes) -> None:
    """Beside the file first. What is no file (a pipe, a device) or has no name, or lies where no
    other may be made, is written to as it is."""
    nameless = file.is_symlink() or (file.exists() and not file.is_file())
    if nameless or not os.access(file.parent, os.W_OK):
        file.write_bytes(data)
        return
    start = os.fsdecode(os.fsencode(file.name)[:200])  # a name has 255 bytes at most
    fresh = file.with_name(f".{start}.{os.urandom(4).hex()}.new")
    try:
        with fresh.open("xb") as output:
            if file.exists():
                os.fchmod(output.fileno(), stat.S_IMODE(file.stat().st_mode))
            output.write(data)
            output.flush()
            os.fsync(output.fileno())
        fresh.replace(file)
    except BaseException:
        fresh.unlink(missing_ok=True)
        raise


@contextlib.contextmanager
def _named(file: str | Path) -> Iterator[None]:
    """A file that cannot be written is named; standard output is commands/cli.py's to judge."""
    try:
        yield
    except OSError as error:
        raise UserError(f"cannot write {file}: {error.strerror}") from None


def read_json(path: str) -> Any:
    """A document that a command wrote. Raises UserError for a file that cannot be read."""
    try:
        return json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}") from None
    except ValueError as error:
        raise UserError(f"{path} is damaged: it is no JSON ({error})") from None


@contextlib.contextmanager
def made_from(*documents: str) -> Iterator[None]:
    """What is made of documents that a command wrote, and perhaps somebody else has changed."""
    try:
        yield
    except (AttributeError, LookupError, StopIteration, TypeError, ValueError) as error:
        names = " or ".join(documents)
        raise UserError(f"{names} is damaged: {type(error).__name__} {error}") from None


def as_csv(rows: Iterable[Sequence[Any]]) -> str:
    """None is an empty cell."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()


def as_json(document: Any, indent: int | None = None) -> str:
    return json.dumps(document, indent=indent) + "\n"


def need_writable(files: Files, inputs: Iterable[str | None] = ()) -> None:
    """Finds out before the work, and makes or empties no file yet. inputs: files that are read,
    which no output may be."""
    taken = {os.path.realpath(file): "read" for file in inputs if file and os.path.isfile(file)}
    for option, file in files.items():
        if file is None:
            continue
        if not file:
            raise UserError(f"{option}: the name is empty; give a file's, or - for what is shown")
        place = file if file == STDOUT else _place_of(file)
        if place in taken:
            raise UserError(f"{option}: {file} is already {taken[place]}; name another file")
        taken[place] = f"written by {option}"
        folder = os.path.dirname(place)
        if file == STDOUT:
            continue
        if not os.path.isdir(folder):
            raise UserError(f"{option}: cannot write {file}: there is no folder {folder}")
        if os.path.isdir(place):
            raise UserError(f"{option}: cannot write {file}: it is a folder")
        if not os.access(place if os.path.exists(place) else folder, os.W_OK):
            read_only = os.statvfs(folder).f_flag & os.ST_RDONLY
            reason = "its file system is read-only" if read_only else "permission denied"
            raise UserError(f"{option}: cannot write {file}: {reason}")
