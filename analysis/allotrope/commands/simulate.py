# SPDX-License-Identifier: MIT
"""`allotrope simulate pages`, `caches` and `tlb`, the commands."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import click

from ..features.cluster.simulate import simulate_on_cluster
from ..features.locality.lines import add_lines, line_table, need_shape, wants_windows
from ..features.locality.output import say_more
from ..features.locality.page import simulation_page
from ..features.locality.simulate import (
    Document,
    cache_rows,
    cache_table,
    closing_line,
    describe_sample,
    need_references,
    page_rows,
    page_table,
    run_simulator,
    shape_table,
    simulate_words,
    tlb_table,
)
from ..output.files import Files, Outputs, as_csv, as_json
from ..output.page import render
from ..output.terminal import print_in_parts, print_wrapped, terminal
from ..output.units import format_whole_bytes
from ..system.errors import UserError
from .filter_options import filter_options, lines_option, window_options
from .words import RESULTS, Group, Word, output_options

if TYPE_CHECKING:
    from rich.console import Console


@click.group(cls=Group)
def simulate() -> None:
    """Page faults, cache misses and TLB misses of a recorded run.

    \b
    allotrope simulate pages run.alt
    allotrope simulate tlb --tlb 4K,2M run.alt
    allotrope simulate caches --html page.html run.alt
    """


def common_options(command: Any) -> Any:
    for decorator in (
        filter_options,
        click.argument("trace"),
        output_options(RESULTS),
        click.option("--threads", type=int, help="default: the processors online"),
        click.option(
            "--jobs",
            type=int,
            metavar="N",
            help="N threads, among which each size is shared out; the result is the same",
        ),
        click.option(
            "--cluster",
            metavar="ADDRESS|local:N",
            help="the same on the workers of this Dask scheduler, or of N processes here; --jobs "
            "then says how many parts there are",
        ),
        click.option(
            "--ship",
            is_flag=True,
            help="bring the simulator to workers that lack it, at the same path",
        ),
        click.option(
            "--error-over",
            type=int,
            metavar="N",
            help="hold a sample against the exact result over the first N references",
        ),
        click.option("--count", type=int, metavar="N", help="the first N references that pass"),
    ):
        command = decorator(command)
    return command


def shape_options(command: Any) -> Any:
    for decorator in (
        window_options,
        lines_option,
        click.option(
            "--straddles-once", is_flag=True, help="a straddling reference misses once in a --shape"
        ),
        click.option(
            "--shape",
            multiple=True,
            metavar="NAME|BLOCK:SETS:WAYS",
            help="also this cache or TLB, in detail; repeatable",
        ),
    ):
        command = decorator(command)
    return command


@simulate.command(cls=Word)
@common_options
@click.option("--page-size", metavar="LIST", help="in bytes or as 64K; default 4K,8K")
@click.option("--sample", is_flag=True, help="follow 8192 to 17536 pages only, if there are more")
def pages(trace: str, files: Files, **options: Any) -> int:
    """LRU page faults for every memory size. TRACE is a file of `allotrope record`, the text of
    valgrind --tool=lackey --trace-mem=yes, or - for standard input.

    \b
    allotrope simulate pages run.alt
    allotrope simulate pages --class program --region heap --references 1000000: run.alt
    allotrope simulate pages --page-size 4096,65536 --sample --csv - run.alt
    allotrope simulate pages --cluster head:8786 /shared/run.alt
    """
    return simulated("pages", trace, options, files, page_rows, show_pages)


@simulate.command(cls=Word)
@common_options
@click.option(
    "--block",
    metavar="LIST",
    help="block sizes from 16 to 4096, BLOCK[:WAYS]; default 32,64, up to 16 ways",
)
@click.option("--sample", type=int, metavar="N", help="simulate N of 32 slices of the sets")
@click.option("--no-causes", is_flag=True, help="no cold, capacity and conflict misses: faster")
@shape_options
def caches(trace: str, files: Files, **options: Any) -> int:
    """Misses and write-backs of every cache of 2^5 to 2^17 sets. TRACE is a file of `allotrope
    record`, the text of valgrind --tool=lackey --trace-mem=yes, or - for standard input.

    \b
    allotrope simulate caches run.alt
    allotrope simulate caches --shape zen5-l1d --window-bytes 1M --html page.html run.alt
    allotrope simulate caches --shape zen5-l1d --lines run.alt
    allotrope simulate caches --thread 1,2 --function 'hash_*' --shape zen5-l1d run.alt
    allotrope simulate caches --block 16:4,64:8 --shape zen5-l1d --html page.html run.alt
    allotrope simulate caches --cluster local:2 run.alt
    allotrope record -o - -- ./program 2>/dev/null | allotrope simulate caches -
    """
    return simulated("caches", trace, options, files, cache_rows, show_caches)


@simulate.command(cls=Word)
@common_options
@click.option(
    "--tlb",
    metavar="LIST",
    help="page sizes from 4K to 1G, PAGE[:WAYS]; default 4K,2M, up to 16 ways",
)
@shape_options
def tlb(trace: str, files: Files, **options: Any) -> int:
    """Misses of every TLB: fully associative ones of every size, and those of 4 to 16,384 sets. A
    TLB is a cache whose blocks are pages. TRACE is as for `simulate caches`.

    \b
    allotrope simulate tlb run.alt
    allotrope simulate tlb --tlb 4K:4,64K:4,2M:4 --json tlb.json run.alt
    allotrope simulate tlb --shape 4K:16:4 --shape skylake-stlb --html page.html run.alt
    """
    return simulated("tlb", trace, options, files, cache_rows, show_tlbs)


def simulated(
    kind: str,
    trace: str,
    options: dict[str, Any],
    files: Files,
    rows: Callable[[Document], Iterator[list[Any]]],
    show: Callable[[Document, Console, bool], None],
) -> int:
    """Runs the simulator with its options, writes the outputs and shows the tables, unless an
    output takes their place. Returns the status, as of `trace info`: 1 for a result of a trace that
    is damaged or cut."""
    windows = False
    if "shape" in options:
        need_shape(options)
        windows = wants_windows(options)
    outputs = Outputs(files, ["/dev/stdin" if trace == "-" else trace])
    document, warning = run(kind, trace, options)
    need_references(document, trace, warning)
    if warning is not None:
        click.echo(f"allotrope: {warning}; the result is of what came before", err=True)
    add_lines(document)
    outputs.write(
        {
            "--json": lambda: as_json(document),
            "--csv": lambda: as_csv(rows(document)),
            "--html": lambda: render(simulation_page(trace, kind, document)),
        },
        lambda: None if outputs.takes_stdout else show(document, terminal(), windows),
    )
    return 0 if warning is None else 1


def run(kind: str, trace: str, options: dict[str, Any]) -> tuple[Document, str | None]:
    """Here, or on a cluster; there a terminal is shown what is left."""
    cluster, ship = options.pop("cluster"), options.pop("ship")
    if cluster is None:
        if ship:
            raise UserError("--ship needs --cluster")
        return run_simulator(simulate_words(kind, trace, options))
    with terminal(stderr=True).status("looking for workers") as status:
        return simulate_on_cluster(
            cluster,
            kind,
            trace,
            options,
            lambda left, workers: status.update(
                f"simulate {kind}: parts left: {left}; workers: {workers}",
                spinner="dots",  # a spinner given anew is drawn at once
            ),
            ship,
        )


def show_pages(document: Document, console: Console, _windows: bool) -> None:
    for page in document["pages"]:
        title = f"LRU faults, pages of {format_whole_bytes(page['page_size'])}"
        print_in_parts(console, page_table(page, document["references"]), title)
        say_sample(console, page)
    say_closing_line(document, console, "faults include first touches.")


def say_sample(console: Console, part: Document) -> None:
    if line := describe_sample(part):
        print_wrapped(console, line)


def say_closing_line(document: Document, console: Console, text: str) -> None:
    """A pattern of --function may look like rich's markup."""
    for line in closing_line(document, text).split("\n"):
        print_wrapped(console, line)


def show_tlbs(document: Document, console: Console, windows: bool) -> None:
    for part in document["blocks"]:
        title = f"Miss rate of TLBs, pages of {format_whole_bytes(part['block'])}"
        print_in_parts(console, tlb_table(document, part), title)
    show_shapes(document, console, windows)
    text = "rates are per touch of a page; each TLB stands alone."
    say_closing_line(document, console, text)


def show_shapes(document: Document, console: Console, windows: bool) -> None:
    if document["shapes"]:
        touches = {part["block"]: part["touches"] for part in document["blocks"]}
        print_in_parts(console, shape_table(document["shapes"], touches), "Shapes")
        shapes = [(shape["shape"], document, shape) for shape in document["shapes"]]
        say_more(console, shapes, windows)
    for shape in document["shapes"]:
        if "misses_by_line" in shape:
            print_in_parts(console, line_table(shape), f"Lines that miss most: {shape['shape']}")


def show_caches(document: Document, console: Console, windows: bool) -> None:
    for part in document["blocks"]:
        title = f"Miss rate, blocks of {part['block']} bytes"
        print_in_parts(console, cache_table(part, document["results"]), title)
        say_sample(console, part)
    show_shapes(document, console, windows)
    text = "rates are per touch of a block; each cache stands alone."
    say_closing_line(document, console, text)
