# SPDX-License-Identifier: MIT
"""Results as JSON, CSV and a page: to a file, or to standard output where it is `-`."""

import csv
import json
import os
import sys
from collections.abc import Iterable
from typing import Any, Callable, TextIO

import click

from .errors import UserError


def open_output(path: str) -> TextIO:
    if path == "-":
        return sys.stdout
    try:
        return open(path, "w", encoding="utf-8", newline="")
    except OSError as error:
        raise UserError(f"cannot write {path}: {error.strerror}") from None


def write_csv(path: str, rows: Iterable[list[Any]]) -> None:
    output = open_output(path)
    csv.writer(output, lineterminator="\n").writerows(rows)
    if output is not sys.stdout:
        output.close()


def write_json(path: str, document: Any) -> None:
    output = open_output(path)
    json.dump(document, output)
    output.write("\n")
    if output is not sys.stdout:
        output.close()


def write_text(path: str, text: str) -> None:
    output = open_output(path)
    output.write(text)
    if output is not sys.stdout:
        output.close()


def check_outputs(
    json_path: str | None, csv_path: str | None, html_path: str | None = None
) -> None:
    """All outputs are found wanting before the work, not after it."""
    given = [("--json", json_path), ("--csv", csv_path), ("--html", html_path)]
    to_stdout = [option for option, path in given if path == "-"]
    if len(to_stdout) > 1:
        raise UserError(
            f"{' - and '.join(to_stdout)} - both want standard output; name a file for one"
        )
    for _, path in given:
        if path is not None and path != "-":
            open_output(path).close()
    if html_path is not None:
        from .page import check_page_modules

        check_page_modules()
    files = [os.path.realpath(path) for _, path in given if path is not None and path != "-"]
    if len(set(files)) < len(files):
        raise UserError("two outputs have the same file; name another for one")


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
