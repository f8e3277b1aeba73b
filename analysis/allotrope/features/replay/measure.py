# SPDX-License-Identifier: MIT
"""`allotrope replay`: one program's allocations and frees under every explicit allocator.

A small C program (replay_player.c) does what a recording tells, in the recorded order and in one
thread, under each allocator in turn. The heap's peak is from the allocator's own account, of a run
of its own; times and resident memory are from runs without one, interleaved.
"""

import json
import statistics
from pathlib import Path
from typing import Any

from ...system import allocators
from ...system.allocators import Allocator
from ...system.errors import UserError
from ...system.launch import Launch, launch
from ...system.native import ask, last_line, without_name
from ...system.places import PLACES, built
from ...system.recordings import need_recording

SCHEMA = "allotrope.replay/1"
COLLECTOR = "gc"

Document = dict[str, Any]


def make_operations(recording: str, operations: Path) -> tuple[Document, str | None]:
    """Writes what the player takes. Returns the recording's facts, and a warning where it is
    damaged."""
    need_recording(recording)
    answer = ask(PLACES.events, "operations", recording, operations)
    if not answer.output:
        raise UserError(answer.message or f"{recording}: cannot be read", max(answer.status, 1))
    facts: Document = json.loads(answer.output)
    if facts["objects"] == 0:
        raise UserError(f"{recording}: holds no allocations")
    return facts, answer.message or None


class Replayer:
    """Plays one recording again and again; `folder` is scratch space."""

    def __init__(self, operations: Path, folder: Path) -> None:
        self.operations = operations
        self.folder = folder

    def play(self, allocator: Allocator, settings: dict[str, str] | None = None) -> Document:
        """One run. `failure` is set where it did not come to its end."""
        result, errors = self.folder / "result.json", self.folder / "errors"
        run = launch(
            Launch(
                [str(built(PLACES.player)), str(self.operations)],
                unset=allocators.OWN_VARIABLES,
                environment={**allocator.environment(), **(settings or {})},
                stdout=result,
                stderr=errors,
            )
        )
        if run.exit_status != 0:
            said = without_name(last_line(errors.read_bytes()))
            return {"failure": run.ending() + (f" ({said})" if said else "")}
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


def measure(
    replayer: Replayer, chosen: list[Allocator], rounds: int, most_live_bytes: int
) -> Document:
    """Accounts first, then rounds in which everyone plays once. An interruption keeps the whole
    rounds; before the first one is over it is raised."""
    heaps = [replayer.heap(allocator) for allocator in chosen]
    played: list[list[Document]] = []
    try:
        for number in range(rounds):
            played.append(_one_round(replayer, chosen, number % 2 == 1))
    except KeyboardInterrupt:
        if not played:
            raise
    return {
        "rounds": len(played),
        "interrupted": len(played) < rounds,
        "results": [
            summary(allocator, heap, list(runs), most_live_bytes)
            for allocator, heap, runs in zip(chosen, heaps, zip(*played))
        ],
    }


def _one_round(replayer: Replayer, chosen: list[Allocator], backwards: bool) -> list[Document]:
    """A run of each, in the order of `chosen`."""
    runs = [replayer.play(allocator) for allocator in (chosen[::-1] if backwards else chosen)]
    return runs[::-1] if backwards else runs


def summary(
    allocator: Allocator, heap: Document | None, played: list[Document], most_live_bytes: int
) -> Document:
    failure = next((run["failure"] for run in played if run["failure"] is not None), None)
    result: Document = {
        "allocator": allocator.spec,
        "version": allocator.version,
        "failure": failure,
    }
    peak = heap["mapped_peak_bytes"] if heap else None
    result["heap_peak_bytes"] = peak
    known = peak is not None and most_live_bytes
    result["heap_to_live"] = peak / most_live_bytes if known else None
    result["waste"] = heap["peak"]["waste"] if heap else None
    if failure is not None:
        return result | dict.fromkeys(("cpu_seconds", "rss_growth_bytes", "minor_faults"))
    # Without /proc the player knows of neither.
    growth = [run["rss_peak_bytes"] - run["rss_before_bytes"] for run in played]
    resident = all(run["rss_before_bytes"] for run in played)
    return result | {
        "cpu_seconds": statistics.median(run["cpu_seconds"] for run in played),
        "cpu_seconds_rounds": [run["cpu_seconds"] for run in played],
        "rss_growth_bytes": int(statistics.median(growth)) if resident else None,
        "minor_faults": int(statistics.median(run["minor_faults"] for run in played)),
    }


def choose_all(specs: tuple[str, ...]) -> list[Allocator]:
    """By default all that free: the collector would be asked to find what is told to it."""
    if not specs:
        return [one for one in allocators.default_choice() if one.name != COLLECTOR]
    return allocators.choose_each(specs)


def notes(document: Document) -> list[str]:
    """What a reader of the figures must know."""
    lines = []
    if document["threads"] > 1:
        lines.append(
            f"The program had {document['threads']} threads; their events are played by "
            "one thread, in the order recorded."
        )
    if any(one["allocator"].split(":")[0] == COLLECTOR for one in document["results"]):
        lines.append(
            "Under the collector the player's table of live objects is the root: it "
            "holds each object until the program freed it, and objects point nowhere."
        )
    if document["unknown_frees"]:
        count = document["unknown_frees"]
        lines.append(f"{count:,} frees of blocks from before the recording were left out.")
    if document["lost_frees"]:
        lines.append(
            f"{document['lost_frees']:,} blocks were handed out again without a free "
            "that was seen; a free was put in."
        )
    return lines
