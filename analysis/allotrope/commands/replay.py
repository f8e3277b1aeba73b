# SPDX-License-Identifier: MIT
"""`allotrope replay`, the command, its table and CSV."""

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from ..features.replay.measure import SCHEMA, Replayer, choose_all, make_operations, measure, notes
from ..output.files import check_outputs, deliver, output_options
from ..output.terminal import print_table, print_wrapped, terminal
from ..output.units import format_bytes
from .words import Word

Document = dict[str, Any]

COLUMNS = ["allocator", "heap_peak_bytes", "heap_to_live", "rss_growth_bytes", "cpu_seconds",
           "minor_faults", "failure"]  # fmt: skip


def rows(document: Document) -> Iterator[list[Any]]:
    yield COLUMNS
    for one in document["results"]:
        yield [one[column] for column in COLUMNS]


def print_results(document: Document, console: Console) -> None:
    live = document["most_live_bytes"]
    print_wrapped(console, f"{document['objects']:,} objects, at most {format_bytes(live)} in "
                  f"{document['most_live_objects']:,} live")  # fmt: skip
    table = [["allocator", "heap peak", "of live", "RSS growth", "CPU, s", "faults"]]
    for one in document["results"]:
        peak = one["heap_peak_bytes"]
        if one["failure"] is not None:
            table.append([one["allocator"], "failed", "", "", "", ""])
            continue
        table.append(
            [
                one["allocator"],
                "–" if peak is None else format_bytes(peak),
                "–" if peak is None else f"{one['heap_to_live']:.2f}",
                format_bytes(one["rss_growth_bytes"]),
                f"{one['cpu_seconds']:.3f}",
                f"{one['minor_faults']:,}",
            ]
        )
    print_table(console, table, styles=[""] * len(document["results"]))
    if any(one["heap_peak_bytes"] is None for one in document["results"]):
        print_wrapped(console, "–: only allotrope's own allocators tell of their heap.")
    failed = [one for one in document["results"] if one["failure"] is not None]
    for line in [*(f"{one['allocator']}: {one['failure']}" for one in failed), *notes(document)]:
        print_wrapped(console, line)


@click.command("replay", cls=Word)
@click.argument("recording")
@click.option("-a", "--allocator", "specs", multiple=True, metavar="ALLOCATOR",
              help="under this one; repeatable (default: glibc, each explicit one of ours, and "
              "the installed peers)")  # fmt: skip
@click.option("--rounds", type=click.IntRange(min=1), default=5, show_default=True,
              help="how often each is timed")  # fmt: skip
@output_options
def replay(recording: str, specs: tuple[str, ...], rounds: int, json_path: str | None,
           csv_path: str | None, html_path: str | None) -> int:  # fmt: skip
    """Play the allocations and frees of RECORDING (of `allotrope events` or `record`) under
    several allocators: heap, memory and time."""
    check_outputs(json_path, csv_path, html_path, recording)
    chosen = choose_all(specs)
    with tempfile.TemporaryDirectory(prefix="allotrope-") as folder:
        operations = Path(folder, "operations")
        facts, warning = make_operations(recording, operations)
        if warning is not None:
            click.echo(f"allotrope: {warning}", err=True)
        results = measure(Replayer(operations, Path(folder)), chosen, rounds,
                          facts["most_live_bytes"])  # fmt: skip
    kept = {key: value for key, value in facts.items() if key not in ("schema", "maps")}
    document = {"schema": SCHEMA, "file": recording, "rounds": rounds, **kept, "results": results}

    def page() -> str:
        from ..features.replay.page import replay_page
        from ..output.page import render

        return render(replay_page(document))

    if deliver(document, rows(document), page, json_path, csv_path, html_path):
        print_results(document, terminal())
    failed = any(one["failure"] is not None for one in results)
    return 1 if failed or warning is not None else 0
