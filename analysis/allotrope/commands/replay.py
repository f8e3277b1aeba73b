# SPDX-License-Identifier: MIT
"""`allotrope replay`, the command."""

import signal

import click

from ..features.replay.measure import (
    SCHEMA,
    Document,
    Replayer,
    choose_all,
    make_operations,
    measure,
)
from ..features.replay.output import print_results, rows
from ..features.replay.page import replay_page
from ..output.files import Files, Outputs, as_csv, as_json
from ..output.page import render
from ..output.terminal import terminal
from ..system.scratch import scratch_folder
from .words import RESULTS, Word, allocators_option, output_options, rounds_option


@click.command("replay", cls=Word)
@click.argument("recording")
@allocators_option(
    "under this one; repeatable (default: glibc, each explicit one of ours, and the installed "
    "peers)"
)
@rounds_option(5, "how often each is timed")
@output_options(RESULTS)
def replay(recording: str, specs: tuple[str, ...], rounds: int, files: Files) -> int:
    """Play the allocations and frees of RECORDING (of `allotrope events` or `record`) under
    several allocators: heap, memory and time.

    \b
    allotrope replay run.ale
    allotrope replay -a glibc -a blocks --rounds 11 --html page.html run.ale
    """
    outputs = Outputs(files, [recording])
    chosen = choose_all(specs)
    with scratch_folder() as folder:
        operations = folder / "operations"
        facts, warning = make_operations(recording, operations)
        if warning is not None:
            click.echo(f"allotrope: {warning}", err=True)
        measured = measure(Replayer(operations, folder), chosen, rounds, facts["most_live_bytes"])
    kept = {key: value for key, value in facts.items() if key not in ("schema", "maps")}
    document: Document = {"schema": SCHEMA, "file": recording, **kept, **measured}
    outputs.write(
        {
            "--json": lambda: as_json(document),
            "--csv": lambda: as_csv(rows(document)),
            "--html": lambda: render(replay_page(document)),
        },
        lambda: None if outputs.takes_stdout else print_results(document, terminal()),
    )
    if document["interrupted"]:
        click.echo(f"allotrope: interrupted; whole rounds: {document['rounds']}", err=True)
        return 128 + signal.SIGINT
    failed = any(one["failure"] is not None for one in document["results"])
    return 1 if failed or warning is not None else 0
