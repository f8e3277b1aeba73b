# SPDX-License-Identifier: MIT
"""`allotrope locality`: a program's page faults and cache misses under several allocators, each
recorded and simulated at the same time, without a trace on disk."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import click

from ..features.locality.simulate import (
    PROGRAM,
    THREADED,
    Document,
    binary_size,
    die_with_parent,
    faults_with,
)
from ..output.files import check_outputs, deliver, output_options
from ..output.terminal import print_in_parts, print_wrapped, terminal
from ..system import allocators
from ..system.allocators import Allocator
from ..system.errors import UserError
from ..system.executables import STATUS_CANNOT_EXECUTE, find_program, need_preloadable
from ..system.places import PLACES, built
from .record import allocator_environment, recorder_tools
from .words import TAKES_COMMAND, Word, need_command

SCHEMA = "allotrope.locality/1"


def run_one(allocator: Allocator, options: list[str], command: tuple[str, ...],
            stdout: Any) -> Document:  # fmt: skip
    """Runs the command once under the recorder and an allocator."""
    asked = None if allocator.name == "glibc" else allocator.spec
    environment = allocator_environment(find_program(command[0]), command[0], asked, False)
    settings = [f"--env={name}={value}" for name, value in environment.items()]
    # Memory, so that nothing stays behind; by our name for it, so that the program inherits none.
    with open(os.memfd_create("allotrope-locality"), "rb") as result:
        words = [str(built(PLACES.simulator)), "locality",
                 f"--output=/proc/{os.getpid()}/fd/{result.fileno()}", *options,
                 f"--tools={recorder_tools()}", *settings, "--", *command]  # fmt: skip
        done = subprocess.run(words, stdout=stdout, stderr=subprocess.PIPE,
                              preexec_fn=die_with_parent)  # fmt: skip
        message = done.stderr.decode(errors="replace").strip()
        text = result.read()
    if done.returncode != 0 or not text:
        raise UserError(message.removeprefix(f"{PROGRAM}: ") or "the simulation failed",
                        max(done.returncode, 1))  # fmt: skip
    if message:
        click.echo(message, err=True)
    run: Document = json.loads(text)
    if run["pages"]["references"] == 0:
        raise UserError(f"{command[0]}: cannot be run under the recorder", STATUS_CANNOT_EXECUTE)
    return {"allocator": allocator.spec, "status": run["status"],
            "pages": run["pages"], "caches": run["caches"]}  # fmt: skip


def page_tables(runs: list[Document]) -> Iterator[tuple[str, list[list[str]]]]:
    """Replacement faults: a row for each memory, a column for each allocator."""
    for number, first in enumerate(runs[0]["pages"]["pages"]):
        size = first["page_size"]
        parts = [run["pages"]["pages"][number] for run in runs]
        table = [["memory", *(run["allocator"] for run in runs)]]
        frames = 1
        while True:
            faults = [faults_with(part["curve"], frames) - part["cold"] for part in parts]
            table.append([binary_size(frames * size), *(f"{count:,}" for count in faults)])
            if not any(faults):
                break
            frames *= 2
        table.append(["first touches", *(f"{part['cold']:,}" for part in parts)])
        yield f"Replacement faults, pages of {binary_size(size)}", table


def cache_tables(runs: list[Document]) -> Iterator[tuple[str, list[list[str]]]]:
    """Miss rates at the smallest and the largest associativity simulated."""
    for number, first in enumerate(runs[0]["caches"]["blocks"]):
        block = first["block"]
        results = [r for r in runs[0]["caches"]["results"] if r["block"] == block]
        for ways in sorted({results[0]["ways"], results[-1]["ways"]}):
            kind = "direct-mapped" if ways == 1 else f"{ways} ways"
            table = [["cache", *(run["allocator"] for run in runs)]]
            for sets in sorted({result["sets"] for result in results}):
                rates = [miss_rate(run, number, block, sets, ways) for run in runs]
                table.append([binary_size(block * sets * ways), *(f"{rate:.4%}" for rate in rates)])
            yield f"Miss rate, {kind}, blocks of {block} bytes", table


def miss_rate(run: Document, number: int, block: int, sets: int, ways: int) -> float:
    wanted = (block, sets, ways)
    misses: int = next(
        result["misses"]
        for result in run["caches"]["results"]
        if (result["block"], result["sets"], result["ways"]) == wanted
    )
    touches: int = run["caches"]["blocks"][number]["touches"]
    return misses / touches


def rows(runs: list[Document]) -> Iterator[list[Any]]:
    """Everything in one table: faults by frames, and misses by sets and ways."""
    yield ["allocator", "what", "unit", "sets", "ways", "faults_or_misses", "cold_or_write_backs"]
    for run in runs:
        for page in run["pages"]["pages"]:
            for point in page["curve"]:
                yield [run["allocator"], "page faults", page["page_size"], 1, point["frames"],
                       point["faults"], point["cold"]]  # fmt: skip
        for result in run["caches"]["results"]:
            yield [run["allocator"], "cache misses", result["block"], result["sets"],
                   result["ways"], result["misses"], result["write_backs"]]  # fmt: skip


def choose_all(specs: tuple[str, ...], command: tuple[str, ...]) -> list[Allocator]:
    chosen = allocators.choose_each(specs or ("glibc",))
    find_program(command[0])
    if any(allocator.library is not None for allocator in chosen):
        need_preloadable(command[0])
    return chosen


def print_runs(runs: list[Document]) -> None:
    console = terminal()
    for title, table in [*page_tables(runs), *cache_tables(runs)]:
        print_in_parts(console, table, title)
    for run in runs:
        counts = run["pages"]
        line = (
            f"{run['allocator']}: {counts['references']:,} references, exit status {run['status']}"
        )
        shares = [f"{part['class']} {part['references'] / counts['references']:.1%}"
                  for part in counts["classes"]]  # fmt: skip
        print_wrapped(console, f"{line}; {', '.join(shares)}")
    if any(run["pages"]["threaded"] for run in runs):
        print_wrapped(console, THREADED)


@click.command(cls=Word, context_settings=TAKES_COMMAND)
@click.option("-a", "--allocator", "specs", multiple=True, metavar="ALLOCATOR",
              help="under this one; repeatable (default: glibc)")  # fmt: skip
@click.option("--page-size", metavar="LIST", help="in bytes; default 4096")
@click.option("--block", metavar="LIST",
              help="cache blocks in bytes, as BLOCK[:WAYS]; default 32:1,64:8")  # fmt: skip
@click.option("--causes", is_flag=True, help="cold, capacity and conflict misses: slower")
@click.option("--shape", "shapes", multiple=True, metavar="NAME|BLOCK:SETS:WAYS",
              help="also this cache, by set, class, region and function; repeatable")  # fmt: skip
@output_options
@click.argument("command", nargs=-1)
def locality(specs: tuple[str, ...], page_size: str | None, block: str | None, causes: bool,
             shapes: tuple[str, ...], json_path: str | None, csv_path: str | None,
             html_path: str | None, command: tuple[str, ...]) -> int:  # fmt: skip
    """Page faults and cache misses of CMD for every memory and cache size, under each allocator.
    CMD runs once for each; where its output is asked for as JSON or CSV on standard output, CMD's
    own goes to standard error."""
    need_command(command, "locality [-a ALLOCATOR]...")
    check_outputs(json_path, csv_path, html_path)
    options = [f"--{name}={value}" for name, value in (("page-size", page_size), ("block", block))
               if value is not None] + (["--causes"] if causes else [])  # fmt: skip
    options += [f"--shape={shape}" for shape in shapes]
    to_stdout = "-" in (json_path, csv_path, html_path)
    runs: list[Document] = []
    interrupted = False
    try:
        for allocator in choose_all(specs, command):
            runs.append(run_one(allocator, options, command, sys.stderr if to_stdout else None))
    except KeyboardInterrupt:
        interrupted = True
        under = ", ".join(run["allocator"] for run in runs) or "none"
        click.echo(f"allotrope: interrupted; allocators measured: {under}", err=True)
        if not runs:
            raise
    document = {"schema": SCHEMA, "command": list(command), "interrupted": interrupted,
                "runs": runs}  # fmt: skip

    def page() -> str:
        from ..features.locality.page import locality_page
        from ..output.page import render

        return render(locality_page(document))

    if deliver(document, rows(runs), page, json_path, csv_path, html_path):
        print_runs(runs)
    if interrupted:
        return 128 + signal.SIGINT
    return 0 if alike(runs) else 1


def alike(runs: list[Document]) -> bool:
    """Whether CMD ended in the same way under every allocator; says so where it did not."""
    statuses = {run["status"] for run in runs}
    if len(statuses) > 1:
        each = ", ".join(f"{run['status']} under {run['allocator']}" for run in runs)
        click.echo(f"allotrope: the exit status is not the same: {each}", err=True)
    return len(statuses) == 1
