# SPDX-License-Identifier: MIT
"""`allotrope simulate pages` and `allotrope simulate caches`, the commands."""

from collections.abc import Callable, Iterator
from typing import Any

import click
from rich.console import Console

from ..features.locality.simulate import (
    binary_size,
    cache_rows,
    cache_table,
    closing_line,
    describe_error,
    need_references,
    page_rows,
    page_table,
    run_simulator,
    shape_table,
    simulate_words,
)
from ..output.files import check_outputs, deliver, output_options
from ..output.terminal import print_in_parts, terminal
from .words import Word

Document = dict[str, Any]


def page_of(trace: str, kind: str, document: Document) -> str:
    from ..features.locality.page import simulation_page
    from ..output.page import render

    return render(simulation_page(trace, kind, document))


def simulated(
    kind: str,
    trace: str,
    options: list[tuple[str, Any]],
    rows: Callable[[Document], Iterator[list[Any]]],
    outputs: tuple[str | None, str | None, str | None],
) -> tuple[Document, Console | None, int]:
    """Runs the simulator and writes the outputs (JSON, CSV, HTML). Returns the result; where its
    tables go, None when an output takes their place; and the status, as of `trace info`: 1 for
    a result of a trace that is damaged or cut."""
    check_outputs(*outputs, trace=trace)
    document, warning = run_simulator(simulate_words(kind, trace, options))
    need_references(document, trace, warning)
    if warning is not None:
        click.echo(f"allotrope: {warning}; the result is of what came before", err=True)
    tables = deliver(document, rows(document), lambda: page_of(trace, kind, document), *outputs)
    return document, terminal() if tables else None, 0 if warning is None else 1


@click.group()
def simulate() -> None:
    """Page faults and cache misses of a recorded run."""


def common_options(command: Any) -> Any:
    for decorator in (
        click.argument("trace"),
        output_options,
        click.option("--threads", type=int, help="default: the processors online"),
        click.option(
            "--error-over",
            type=int,
            metavar="N",
            help="hold a sample against the exact result over the first N references",
        ),
        click.option("--count", type=int, metavar="N", help="the first N references only"),
    ):
        command = decorator(command)
    return command


@simulate.command(cls=Word)
@common_options
@click.option("--page-size", metavar="LIST", help="in bytes; default 4096,8192")
@click.option("--sample", is_flag=True, help="follow 8192 to 17536 pages only, if there are more")
def pages(
    trace: str,
    page_size: str | None,
    sample: bool,
    json_path: str | None,
    csv_path: str | None,
    html_path: str | None,
    count: int | None,
    threads: int | None,
    error_over: int | None,
) -> int:
    """LRU page faults for every memory size. TRACE is a file of `allotrope record`, the text of
    valgrind --tool=lackey --trace-mem=yes, or - for standard input."""
    options = [
        ("page-size", page_size),
        ("sample", sample),
        ("count", count),
        ("threads", threads),
        ("error-over", error_over),
    ]
    document, console, status = simulated(
        "pages", trace, options, page_rows, (json_path, csv_path, html_path)
    )
    if console is None:
        return status
    for page in document["pages"]:
        title = f"LRU faults, pages of {binary_size(page['page_size'])}"
        print_in_parts(console, page_table(page, document["references"]), title)
        sampled = page["sample"] and f"one page in {page['sample']['of']} was followed"
        if line := describe_error(page["sample"], sampled or ""):
            console.print(line)
    console.print(closing_line(document, "faults include first touches."))
    return status


@simulate.command(cls=Word)
@common_options
@click.option(
    "--block",
    metavar="LIST",
    help="block sizes in bytes, BLOCK[:WAYS]; default 32,64, up to 16 ways",
)
@click.option("--sample", type=int, metavar="N", help="simulate N of 32 slices of the sets")
@click.option("--no-causes", is_flag=True, help="no cold, capacity and conflict misses: faster")
@click.option(
    "--shape",
    "shapes",
    multiple=True,
    metavar="NAME|BLOCK:SETS:WAYS",
    help="also this cache, in detail; repeatable",
)
@click.option(
    "--straddles-once", is_flag=True, help="a straddling reference misses once in a --shape"
)
def caches(
    trace: str,
    block: str | None,
    sample: int | None,
    no_causes: bool,
    shapes: tuple[str, ...],
    straddles_once: bool,
    json_path: str | None,
    csv_path: str | None,
    html_path: str | None,
    count: int | None,
    threads: int | None,
    error_over: int | None,
) -> int:
    """Misses and write-backs of every cache of 2^5 to 2^17 sets. TRACE is a file of `allotrope
    record`, the text of valgrind --tool=lackey --trace-mem=yes, or - for standard input."""
    options = [
        ("block", block),
        ("sample", sample),
        ("no-causes", no_causes),
        ("straddles-once", straddles_once),
        ("count", count),
        ("threads", threads),
        ("error-over", error_over),
    ]
    options += [("shape", shape) for shape in shapes]
    document, console, status = simulated(
        "caches", trace, options, cache_rows, (json_path, csv_path, html_path)
    )
    if console is None:
        return status
    for part in document["blocks"]:
        title = f"Miss rate, blocks of {part['block']} bytes"
        print_in_parts(console, cache_table(part, document["results"]), title)
        slices = part["sample"] and f"{part['sample']['slices']} of 32 slices were simulated"
        if line := describe_error(part["sample"], slices or ""):
            console.print(line)
    if document["shapes"]:
        touches = {part["block"]: part["touches"] for part in document["blocks"]}
        print_in_parts(console, shape_table(document["shapes"], touches), "Shapes")
    console.print(
        closing_line(document, "rates are per touch of a block; each cache stands alone.")
    )
    return status
