# SPDX-License-Identifier: MIT
"""`allotrope compare --from`: what --json wrote is shown, judged or held against an earlier file,
and nothing is measured."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Mapping, Sequence

import click

from ..features.compare import output as compare_output
from ..features.compare.difference import (
    Difference,
    compare_pair,
    difference_csv,
    difference_document,
    difference_lines,
    difference_markdown,
    difference_rows,
    difference_sentences,
    judge_changes,
    text_columns,
)
from ..features.compare.difference_page import difference_page
from ..features.compare.findings import Document
from ..features.compare.gate import Condition, Judgement, check_conditions, judge
from ..features.compare.page import as_html, compare_page
from ..features.suite import output as suite_output
from ..features.suite.difference import change_tables, compare_suites
from ..features.suite.gate import judge_programs, print_judged, status_of_all
from ..features.suite.page import suite_page
from ..features.suite.tables import is_scan, marks_legend
from ..output.files import Files, Outputs, as_json, made_from, read_json
from ..output.terminal import print_in_parts, print_table, print_wrapped, say, terminal
from ..system.errors import UserError
from .words import given_options, only_draws

if TYPE_CHECKING:
    from rich.console import Console

# What --against writes. A page alone is drawn without it, too.
DIFFERENCE_FILES = ("json_file", "html_file", "csv_file", "markdown_file")
ONE_COMMAND = "a comparison of one command or server"
PAGES = {compare_output.SCHEMA: compare_page, suite_output.SCHEMA: suite_page}


def show_again(
    context: click.Context,
    source: str,
    against: str | None,
    gate: Sequence[Condition],
    files: Files,
) -> int:
    """What the file of an earlier comparison says: its page, its difference, its gate."""
    if gate or against is not None:
        return judge_again(context, source, against, gate, files)
    only_draws(context, "html_file", "--html FILE")
    return draw_again(source, files["--html"])


def draw_again(source: str, html_file: str | None) -> int:
    """The page of a document that --json wrote."""
    outputs = Outputs({"--html": html_file}, [source])
    document = read_json(source)
    kind_of(source, document)
    with made_from(source):
        page = PAGES[document["schema"]](document)
    outputs.write({"--html": lambda: as_html(page)})
    return 0


def judge_again(
    context: click.Context,
    source: str,
    against: str | None,
    gate: Sequence[Condition],
    files: Files,
) -> int:
    """A document that --json wrote, and perhaps an earlier one, on the terminal."""
    fitting = {"source", "against", "conditions"}
    if against is not None:
        fitting.update(DIFFERENCE_FILES)
    for name, written in given_options(context).items():
        if name in DIFFERENCE_FILES and name not in fitting:
            raise UserError(f"{written} writes a difference, so beside --from it needs --against")
        if name not in fitting:
            raise UserError(f"--from judges what was measured before; leave out {written}")
    if against is not None:
        return show_difference(source, against, gate, files)
    document = read_json(source)
    kind = kind_of(source, document)
    with made_from(source):
        _check_gate_again(gate, document, document["rounds"])
        if kind != ONE_COMMAND:
            judged = judge_programs(gate, document)
        else:
            judged = {"": judge(gate, document)}
    print_judged(terminal(), judged)
    return status_of_all(judged)


def show_difference(source: str, against: str, gate: Sequence[Condition], files: Files) -> int:
    outputs = Outputs(files, [source, against])
    after, before = read_json(source), read_json(against)
    kind = kind_of(source, after)
    other_kind = kind_of(against, before)
    if kind != other_kind:
        raise UserError(
            f"{source} is {kind} and {against} {other_kind}, which have nothing in common; give "
            "two of a kind, or measure one again as the other was"
        )
    with made_from(source, against):
        _check_gate_again(gate, after, min(before["rounds"], after["rounds"]))
        if kind == ONE_COMMAND:
            difference = compare_pair((against, before), (source, after))
            judged = {"": judge_changes(gate, before, after)}
        else:
            difference = compare_suites((against, before), (source, after))
            judged = judge_programs(gate, after, before)
    outputs.write(
        {
            "--json": lambda: as_json(difference_document(difference, judged)),
            "--html": lambda: as_html(difference_page(difference)),
            "--csv": lambda: difference_csv(difference),
            "--markdown": lambda: difference_markdown(difference),
        },
        lambda: show_changes(terminal(stderr=outputs.takes_stdout), difference, judged),
    )
    return status_of_all(judged)


def show_changes(
    console: Console, difference: Difference, judged: Mapping[str, Sequence[Judgement]]
) -> None:
    """Of a suite with a dozen allocators, a row for each change would be hundreds."""
    if difference.part == "program":
        for title, rows in change_tables(difference):
            print_in_parts(console, rows, title)
        print_wrapped(console, marks_legend())
    else:
        rows = difference_rows(difference)
        left = text_columns(difference)
        if rows[1:]:
            print_table(console, rows, left=left, styles=[""] * len(rows[1:]))
    for line in difference_lines(difference):
        print_wrapped(console, line)
    say(console, difference_sentences(difference))
    print_judged(console, judged)


def kind_of(file: str, document: Any) -> str:
    """What a document is of, in words. Raises UserError for what no compare has written."""
    schema = document.get("schema") if isinstance(document, dict) else None
    if schema == compare_output.SCHEMA:
        return ONE_COMMAND
    if schema == suite_output.SCHEMA:
        return "a scan (--vary)" if is_scan(document) else "a suite (--suite)"
    raise UserError(f"{file} is not what compare --json writes ({' or '.join(PAGES)})")


def _check_gate_again(gate: Sequence[Condition], document: Document, rounds: int) -> None:
    """document: of one command or of several."""
    each = document.get("allocators") or document["results"]
    check_conditions(gate, [one["spec"] for one in each], rounds)
