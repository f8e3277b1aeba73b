# SPDX-License-Identifier: MIT
"""Results as JSON, CSV and a page: to a file, or to standard output where it is `-`."""

import contextlib
import csv
import json
import os
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Callable, TextIO

import click

from ..system.errors import UserError


@contextlib.contextmanager
def _writing(path: str) -> Iterator[TextIO]:
    """A file that cannot be written is named; standard output is commands/cli.py's to judge."""
    if path == "-":
        yield sys.stdout
        return
    try:
        with open(path, "w", encoding="utf-8", newline="") as output:
            yield output
    except OSError as error:
        raise UserError(f"cannot write {path}: {error.strerror}") from None


def read_json(path: str) -> Any:
    """A document that a command wrote. Raises UserError for a file that cannot be read."""
    try:
        return json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}") from None
    except ValueError as error:
        raise UserError(f"{path} is damaged: it is no JSON ({error})") from None


def write_csv(path: str, rows: Iterable[list[Any]]) -> None:
    with _writing(path) as output:
        csv.writer(output, lineterminator="\n").writerows(rows)


def write_json(path: str, document: Any) -> None:
    with _writing(path) as output:
        json.dump(document, output)
        output.write("\n")


def write_text(path: str, text: str) -> None:
    with _writing(path) as output:
        output.write(text)


def need_writable(outputs: Iterable[tuple[str, str]], inputs: Iterable[str | None] = ()) -> None:
    """Finds out before the work, and makes or empties no file yet. outputs: options and their
    files. inputs: files that are read, which no output may be."""
    taken = {os.path.realpath(file): "read" for file in inputs if file and os.path.isfile(file)}
    for option, file in outputs:
        place = file if file == "-" else os.path.realpath(file)
        if place in taken:
            raise UserError(f"{option}: {file} is already {taken[place]}; name another file")
        taken[place] = f"written by {option}"
        folder = os.path.dirname(place)
        if file == "-":
            continue
        if not os.path.isdir(folder):
            raise UserError(f"{option}: cannot write {file}: there is no folder {folder}")
        if os.path.isdir(place):
            raise UserError(f"{option}: cannot write {file}: it is a folder")
        if not os.access(place if os.path.exists(place) else folder, os.W_OK):
            raise UserError(f"{option}: cannot write {file}: permission denied")


def check_outputs(
    json_path: str | None, csv_path: str | None, html_path: str | None, trace: str | None = None
) -> None:
    """All outputs are found wanting before the work, not after it. trace: what is read."""
    options = (("--json", json_path), ("--csv", csv_path), ("--html", html_path))
    source = "/dev/stdin" if trace == "-" else trace
    need_writable([(option, path) for option, path in options if path is not None], [source])
    if html_path is not None:
        from .page import check_page_modules

        check_page_modules()


def deliver(
    document: Any,
    rows: Iterable[list[Any]],
    page: Callable[[], str],
    json_path: str | None,
    csv_path: str | None,
    html_path: str | None,
) -> bool:
    """Writes what was asked for. Returns whether standard output is still free for tables."""
    if json_path is not None:
        write_json(json_path, document)
    if csv_path is not None:
        write_csv(csv_path, rows)
    if html_path is not None:
        write_text(html_path, page())
    return "-" not in (json_path, csv_path, html_path)


def output_options(command: Any) -> Any:
    """--json, --csv and --html, as json_path, csv_path and html_path."""
    for decorator in (
        click.option("--html", "html_path", metavar="FILE|-", help="a page with pictures"),
        click.option("--csv", "csv_path", metavar="FILE|-", help="every result, as CSV"),
        click.option("--json", "json_path", metavar="FILE|-", help="every result, as JSON"),
    ):
        command = decorator(command)
    return command
