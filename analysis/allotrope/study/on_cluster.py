# SPDX-License-Identifier: MIT
"""A study on a cluster: a share of it, one program as a rule, is one task of one machine.

    share whose steps are not all there ──> a worker: allotrope study NAME --only PROGRAM --out ...
    all files below steps/ <──────────────  refused by name where a fingerprint is not ours

The steps come into the study's own store, so the page is drawn as that of one machine. A share is
taken whole or not at all: all its figures are of one machine. A run that failed is a result.
"""

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Mapping, Sequence

from ..features.cluster.connection import PATIENCE_SECONDS
from ..features.cluster.machines import Machines
from ..features.cluster.shipment import Shipment, files_below, named_paths, own_shipment
from ..features.cluster.submission import (
    Announce,
    Result,
    Tasks,
    ended_badly,
    installed_files,
    measure_tasks,
)
from ..output.sentences import counted
from .measured_by import LACKING, MACHINES, places_of
from .store import Step, read_step
from .work import Share, Work


@dataclass(frozen=True)
class OnCluster:
    """The cluster, how much noise is borne there, and what is shipped beside what the programs
    name; None: nothing is."""

    address: str
    noise: float
    ship: Sequence[Path] | None


def measure_on_cluster(
    work: Work[Any], words: Sequence[str], where: OnCluster, announce: Announce
) -> None:
    """Measures what is not in the work's store. words: of the command, but for the programs."""
    shares = Shares(work, words, where)
    for name, why in shares.failures.items():
        announce(f"{name}: {why}")
    done = len(shares.shares) - len(shares.failures) - len(shares.missing())
    tasks = counted(len(shares.shares), "task")
    announce(tasks + (f", {done} done before" if done else ""))
    try:
        measure_tasks(shares, where.address, announce, PATIENCE_SECONDS)
    finally:
        shares.note_lacking()


class Shares(Tasks):
    scratch = "--out"
    returned = ("study.json", "steps/*/*.json")

    def __init__(self, work: Work[Any], words: Sequence[str], where: OnCluster) -> None:
        shares = work.shares()
        super().__init__(Machines(where.noise, replicate=1), _shipment(shares, words, where.ship))
        self.store, self.words = work.store, words
        self.shares: dict[str, Share[Any]] = {share.name: share for share in shares}
        self.failures = {name: one.missing for name, one in self.shares.items() if one.missing}
        self.due = [name for name, share in self.shares.items() if not self._is_done(share)]
        # Also of machines that are gone when a study is resumed.
        self.found: dict[str, dict[str, Any]] = self.store.study().get(MACHINES, {})

    def _is_done(self, share: Share[Any]) -> bool:
        """All of it is there, and is one machine's."""
        places = places_of(self.store.study())
        hosts = {places.get(name) for name in _names(share)}
        there = all(self.store.get(one.step) is not None for one in share.planned)
        return there and len(hosts) == 1 and None not in hosts

    def missing(self) -> Mapping[str, int]:
        return {name: 1 for name in self.due if name not in self.failures}

    def depends_on(self) -> list[str]:
        """Everything else is in the steps' fingerprints. libc is an allocator without a library."""
        return [*installed_files(), *mapped_libc()]

    def command(self, name: str) -> Sequence[str]:
        only = [word for program in self.shares[name].programs for word in ("--only", program)]
        return [sys.executable, "-I", sys.argv[0], *self.words, *only]

    def keep(self, name: str, result: Result) -> str | None:
        share, files = self.shares[name], result["files"]
        texts = {}
        for planned in share.planned:
            path = self.store.path(planned.step)
            texts[path] = files.get(str(path.relative_to(self.store.folder)), "")
            if why := refusal(planned.step, texts[path]):
                ended = _said_of(share, result["errors"]) or ended_badly(result, good=(0,))
                said = f"{planned.step.kind} · {planned.step.name} {why}"
                return f"{said}: {ended}" if ended else said
        # First who it is: without this nothing may be there.
        self._enter(share, result["host"], json.loads(files["study.json"])["machine"])
        for planned in share.planned:
            self.store.take(planned.step, texts[self.store.path(planned.step)])
        self.due.remove(name)
        return None

    def _enter(self, share: Share[Any], host: str, facts: Mapping[str, Any]) -> None:
        for one in self.found.values():
            one["programs"] = [name for name in one["programs"] if name not in _names(share)]
        self.save()
        self.found[host]["programs"] += _names(share)
        self.found[host]["facts"] = facts
        self.store.note(**{MACHINES: self.found})

    def save(self) -> None:
        for host, machine in self.machines.hosts.items():
            was = self.found.get(host, {"programs": [], "facts": {}})
            self.found[host] = was | machine.facts()
        self.store.note(**{MACHINES: self.found})

    def note_lacking(self) -> None:
        self.store.note(
            **{
                LACKING: {
                    program: self.failures.get(name, "not measured")
                    for name, share in self.shares.items()
                    if name in self.failures or name in self.due
                    for program in share.programs
                }
            }
        )

    def goes_on(self) -> str:
        kept = len(self.due) < len(self.shares)
        return f"; --resume --out {self.store.folder} continues" if kept else ""


def _shipment(
    shares: Sequence[Share[Any]], words: Sequence[str], more: Sequence[Path] | None
) -> Shipment | None:
    if more is None:
        return None
    texts = [text for share in shares for text in share.needs]
    named = [file for path in named_paths([*words, *texts]) for file in files_below(path)]
    return own_shipment([*named, *more])


def _names(share: Share[Any]) -> list[str]:
    return [*share.programs, *share.more]


def refusal(step: Step, text: str) -> str | None:
    """Why a step's file from elsewhere is not taken."""
    saved = read_step(text)
    if saved is None:
        return "was not measured"
    if saved["fingerprint"] != step.fingerprint():
        return "is of other programs or allocators than are here"
    return None


def _said_of(share: Share[Any], errors: str) -> str | None:
    """Why a program cannot be measured, where the study has said so."""
    starts = tuple(f"{name}: " for name in share.programs)
    said = (line for line in errors.splitlines() if line.startswith(starts))
    return next(said, "").partition(": ")[2] or None


def mapped_libc() -> list[str]:
    lines = Path("/proc/self/maps").read_text().splitlines()
    return sorted({line.split(maxsplit=5)[5] for line in lines if line.endswith("/libc.so.6")})
