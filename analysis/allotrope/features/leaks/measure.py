# SPDX-License-Identifier: MIT
"""What a program has lost, by place: blocks that it did not free and that nothing reaches.

A *direct* leak is one that no other leak leads to. What only leaks lead to is *indirect*.
"""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Iterator, Mapping, Sequence

from ...output.pprof import Frame
from ...system.allocators import Allocator
from ...system.native import read_reports
from ...system.serving import Onlooker
from ...system.symbols import Mapping as MappedFile
from ...system.symbols import Place
from ..reach import served
from ..sites.measure import Site, Tally, with_names

KINDS = ("direct", "indirect")


@dataclass(frozen=True)
class Leak:
    """What was allocated by one stack of callers in one process."""

    pid: int
    site: Site
    direct: Tally
    indirect: Tally

    @property
    def both(self) -> Tally:
        return self.direct + self.indirect


@dataclass(frozen=True)
class Leaks:
    """Of all processes of a command, or of one that runs."""

    about: Mapping[str, Any]  # allotrope.sites/1, of the process that held most
    leaks: Sequence[Leak]
    unknown: Tally  # blocks whose site is not known
    processes: int  # that wrote a report
    unanswered: int  # of these, that could make no collection
    mappings: Sequence[MappedFile]
    unnamed: Sequence[str]  # why functions have no names, in sentences
    # That the collector served, of others nothing is known; None of a process that runs.
    allocations: int | None
    strangers: tuple[str, ...]  # commands of which it served none
    not_seen: served.NotSeen | None = None  # None of a process that runs
    suppressed: Tally = Tally()
    unused_rules: tuple[str, ...] = ()

    def sum(self, kind: str) -> Tally:
        return sum((getattr(leak, kind) for leak in self.leaks), Tally())

    def by_place(self) -> list[tuple[str, Tally, Tally, Site]]:
        """Direct and indirect, of places where the program allocates; the largest first, with the
        largest site of each."""
        groups: dict[str, list[Leak]] = {}
        for leak in self.leaks:
            groups.setdefault(str(leak.site.allocates_at()), []).append(leak)
        sums = [
            (
                name,
                sum((leak.direct for leak in members), Tally()),
                sum((leak.indirect for leak in members), Tally()),
                max(members, key=lambda leak: leak.both.bytes).site,
            )
            for name, members in groups.items()
        ]
        return sorted(sums, key=lambda one: -(one[1] + one[2]).bytes)


def read_leaks(folder: Path, collector: Allocator, onlooker: Onlooker) -> Leaks | None:
    """From the files that a command's processes wrote; None when there are none. onlooker: who
    looked at them while they ran."""
    documents = [document for document in read_reports(folder) if "leaks" in document]
    if not documents:
        return None
    heard_of = {document["pid"] for document in documents if document["samples"]}
    not_seen = served.seen_by(onlooker, collector, heard_of)
    return replace(with_places(documents), not_seen=not_seen)


def with_places(documents: Sequence[dict[str, Any]]) -> Leaks:
    leaks: list[Leak] = []
    mappings: list[MappedFile] = []
    unknown, unnamed = Tally(), dict[str, None]()
    for document in documents:
        leaky = [site for site in document["sites"] if _is_leaky(site)]
        found = with_names(document | {"sites": leaky}, 1)
        leaks += (
            Leak(document["pid"], site, *(Tally(**raw[kind]) for kind in KINDS))
            for site, raw in zip(found.sites, leaky)
        )
        mappings += found.symbols.mappings
        unnamed |= dict.fromkeys(found.symbols.lacking() if leaky else ())
        unknown += sum((Tally(**document["leaks"]["unknown"][kind]) for kind in KINDS), Tally())
    about = max(documents, key=lambda document: int(document["peak_bytes"]))
    unanswered = sum(not document["leaks"]["found"] for document in documents)
    counts = [document["samples"] for document in documents]  # of all: nothing is sampled here
    served = None if None in counts else sum(counts)
    commands = (str(document["command"]) for document in documents if document["samples"] == 0)
    strangers = tuple(dict.fromkeys(commands))
    return Leaks(
        *(about, leaks, unknown, len(documents), unanswered, mappings, list(unnamed)),
        *(served, strangers),
    )


def _is_leaky(site: Mapping[str, Any]) -> bool:
    return any(site.get(kind, {"blocks": 0})["blocks"] for kind in KINDS)


def leaks_of(document: Mapping[str, Any]) -> Iterator[Leak]:
    """Those of an earlier report."""
    for leak in document["leaks"]:
        frames = tuple(
            Frame(frame["address"], [Place(**place) for place in frame["places"]])
            for frame in leak["frames"]
        )
        site = Site(frames, Tally(), Tally(), Tally())
        yield Leak(leak["pid"], site, *(Tally(**leak[kind]) for kind in KINDS))
