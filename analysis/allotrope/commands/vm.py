# SPDX-License-Identifier: MIT
"""`allotrope vm`, the command."""

import signal

import click

from ..features.vm.measure import GROUPS, choose_groups, measure
from ..features.vm.output import print_results, rows
from ..features.vm.page import vm_page
from ..output.files import Files, Outputs, as_csv, as_json
from ..output.page import render
from ..output.terminal import terminal
from .words import RESULTS, Word, output_options, rounds_option


@click.command("vm", cls=Word)
@click.argument("groups", nargs=-1, metavar=f"[{'|'.join(GROUPS)}]...")
@rounds_option(9, "how often each figure is taken")
@output_options(RESULTS)
def vm(groups: tuple[str, ...], rounds: int, files: Files) -> int:
    """Measure what this machine's virtual memory costs, beside Appel and Li's machines of 1991:
    traps and protection, three ways to learn which pages were written, stopping threads, fork,
    mprotect, madvise and PAGEMAP_SCAN. Without GROUPS all of it: some ten seconds a round.

    \b
    allotrope study vm
    allotrope vm
    allotrope vm table providers --rounds 15 --html vm.html --json vm.json
    """
    outputs = Outputs(files)
    choose_groups(groups)
    document, failed = measure(groups, rounds)
    outputs.write(
        {
            "--json": lambda: as_json(document),
            "--csv": lambda: as_csv(rows(document)),
            "--html": lambda: render(vm_page(document)),
        },
        lambda: None if outputs.takes_stdout else print_results(document, terminal()),
    )
    if failed is not None:
        raise failed
    if document["interrupted"]:
        click.echo(f"allotrope: interrupted; whole rounds: {document['rounds']}", err=True)
        return 128 + signal.SIGINT
    return 0
