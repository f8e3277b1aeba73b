# SPDX-License-Identifier: MIT
"""`allotrope replay`: one program's allocations and frees under every explicit allocator.

A small C program (replay_player.c) does what a recording tells, in the recorded order and in one
thread, under each allocator in turn. The heap's peak is from the allocator's own account, of a run
of its own; times and resident memory are from runs without one, interleaved.
"""

import json
import statistics
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from . import allocators
from .allocators import Allocator
from .errors import UserError
from .events import tool
from .launch import launch
from .outputs import check_outputs, deliver, output_options
from .places import PLACES
from .terminal import print_table, print_wrapped, terminal
from .units import format_bytes
from .words import Word

SCHEMA = "allotrope.replay/1"
COLLECTOR = "gc"

Document = dict[str, Any]


def player() -> Path:
    program = PLACES.launcher.parent / "allotrope-replay"
    if not program.exists():
        raise UserError(f"{program} is missing; run make")
    return program


def make_operations(recording: str, operations: Path) -> tuple[Document, str | None]:
    """Writes what the player takes. Returns the recording's facts, and a warning where it is
    damaged."""
    done = subprocess.run(
        [tool(), "operations", recording, operations], capture_output=True, text=True, check=False
    )
    message = done.stderr.strip().removeprefix("allotrope: ")
    if not done.stdout:
        raise UserError(message or f"{recording}: cannot be read", 1)
    facts: Document = json.loads(done.stdout)
    if facts["objects"] == 0:
        raise UserError(f"{recording}: holds no allocations")
    return facts, message or None


class Replayer:
    """Plays one recording again and again; `folder` is scratch space."""

    def __init__(self, operations: Path, folder: Path) -> None:
        self.operations = operations
        self.folder = folder

    def play(self, allocator: Allocator, settings: dict[str, str] | None = None) -> Document:
        """One run. `failure` is set where it did not come to its end."""
        result, errors = self.folder / "result.json", self.folder / "errors"
        run = launch(
            [str(player()), str(self.operations)],
            environment={**allocator.environment(), **(settings or {})},
            stdout=result,
            stderr=errors,
        )
        if run.exit_status != 0:
            said = errors.read_text(errors="replace").strip().splitlines()
            detail = f" ({said[-1].removeprefix('allotrope: ')})" if said else ""
            return {"failure": run.ending() + detail}
        played: Document = json.loads(result.read_text())
        return played | {"failure": None}

    def heap(self, allocator: Allocator) -> Document | None:
        """The allocator's own account of a run; None where it keeps none."""
        if not allocator.ours:
            return None
        account = self.folder / "account.json"
        account.unlink(missing_ok=True)
        played = self.play(allocator, {"ALLOTROPE_STATS": str(account)})
        if played["failure"] is not None or not account.exists():
            return None
        read: Document = json.loads(account.read_text())
        return read


def measure(replayer: Replayer, chosen: list[Allocator], rounds: int, live: int) -> list[Document]:
    """Accounts first, then rounds in which everyone plays once. live: the most bytes that the
    program held."""
    heaps = [replayer.heap(allocator) for allocator in chosen]
    runs: list[list[Document]] = [[] for _ in chosen]
    for number in range(rounds):
        order = range(len(chosen)) if number % 2 == 0 else reversed(range(len(chosen)))
        for place in order:
            runs[place].append(replayer.play(chosen[place]))
    return [summary(allocator, heap, played, live)
            for allocator, heap, played in zip(chosen, heaps, runs)]  # fmt: skip


def summary(
    allocator: Allocator, heap: Document | None, played: list[Document], live: int
) -> Document:
    failure = next((run["failure"] for run in played if run["failure"] is not None), None)
    result: Document = {"allocator": allocator.spec, "version": allocator.version,
                        "failure": failure}  # fmt: skip
    peak = heap["mapped_peak_bytes"] if heap else None
    result["heap_peak_bytes"] = peak
    result["heap_to_live"] = peak / live if peak is not None and live else None
    result["waste"] = heap["peak"]["waste"] if heap else None
    if failure is not None:
        return result | dict.fromkeys(("cpu_seconds", "rss_growth_bytes", "minor_faults"))
    growth = [run["rss_peak_bytes"] - run["rss_before_bytes"] for run in played]
    return result | {
        "cpu_seconds": statistics.median(run["cpu_seconds"] for run in played),
        "cpu_seconds_rounds": [run["cpu_seconds"] for run in played],
        "rss_growth_bytes": int(statistics.median(growth)),
        "minor_faults": int(statistics.median(run["minor_faults"] for run in played)),
    }


def choose_all(specs: tuple[str, ...]) -> list[Allocator]:
    """By default all that free: the collector would be asked to find what is told to it."""
    if not specs:
        return [one for one in allocators.default_choice() if one.name != COLLECTOR]
    chosen = [allocators.choose(spec) for spec in specs]
    for number, allocator in enumerate(chosen):
        if any(allocator.same_choice(other) for other in chosen[:number]):
            raise UserError(f"-a {allocator.spec}: given twice")
    return chosen


def notes(document: Document) -> list[str]:
    """What a reader of the figures must know."""
    lines = []
    if document["threads"] > 1:
        lines.append(f"The program had {document['threads']} threads; their events are played by "
                     "one thread, in the order recorded.")  # fmt: skip
    if any(one["allocator"].split(":")[0] == COLLECTOR for one in document["results"]):
        lines.append(
            "Under the collector the player's table of live objects is the root: it "
            "holds each object until the program freed it, and objects point nowhere."
        )
    if document["unknown_frees"]:
        lines.append(f"{document['unknown_frees']:,} frees of blocks from before the recording "
                     "were left out.")  # fmt: skip
    if document["lost_frees"]:
        lines.append(f"{document['lost_frees']:,} blocks were handed out again without a free "
                     "that was seen; a free was put in.")  # fmt: skip
    return lines


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
    check_outputs(json_path, csv_path, html_path)
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
        from .page import render
        from .replay_page import replay_page

        return render(replay_page(document))

    if deliver(document, rows(document), page, json_path, csv_path, html_path):
        print_results(document, terminal())
    return 1 if any(one["failure"] is not None for one in results) else 0
