# SPDX-License-Identifier: MIT
"""`allotrope vm`: rounds of allotrope-vm, and what they agree on.

Each round takes every figure once, so drift is spread over all of them. A figure is the median of
its rounds with an interval, and the same in adds of this processor: the ratio to the add of the
same round, as Appel and Li compare machines of different speed.
"""

import difflib
import json
import os
from typing import Any, Callable, Sequence

from ...statistics.intervals import Estimate, estimate, interval_rank
from ...system.errors import UserError
from ...system.machine import machine_facts
from ...system.native import ask
from ...system.places import PLACES

SCHEMA = "allotrope.vm/1"
TABLE = "table"  # the group that has the add; always measured
GROUPS = {
    TABLE: "Appel and Li's Table 1: add, trap, trap+prot1+unprot, trap+protN+unprot, map2",
    "providers": "three ways to learn which pages were written, at 1 to 10,000 pages",
    "stops": "stopping 1 to 64 threads, membarrier, fork",
    "calls": "a null system call, mprotect, madvise",
    "scans": "PAGEMAP_SCAN of clean, huge and dirty pages",
}
ADD = "add"
LESS_THAN_A_TIMER = 5  # ns: the difference of two readings of a clock is no better than this

Document = dict[str, Any]
Key = tuple[str, str | None, int | None]


def choose_groups(names: Sequence[str]) -> list[str]:
    """All without a name. Raises UserError for one that is none, with the nearest that is."""
    for name in names:
        if name not in GROUPS:
            near = difflib.get_close_matches(name, GROUPS, n=1)
            hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(GROUPS)}"
            raise UserError(f"there is no group '{name}'; {hint}")
    wanted = names or list(GROUPS)
    return [group for group in GROUPS if group in wanted or group == TABLE]


def measure(
    names: Sequence[str], rounds: int, progress: Callable[[int], None] = lambda _: None
) -> tuple[Document, UserError | None]:
    """What there is of whole rounds, and the error of a round that failed. An interruption or an
    error in the first round is raised."""
    groups = choose_groups(names)
    taken: list[list[Document]] = []
    loads: list[float] = []
    incomplete, failed = None, None
    try:
        for number in range(rounds):
            progress(number)
            loads.append(round(os.getloadavg()[0], 2))
            taken.append(_one_round(groups))
    except (KeyboardInterrupt, UserError) as error:
        if not taken:
            raise
        failed = error if isinstance(error, UserError) else None
        why = "interrupted" if failed is None else failed.format_message()
        incomplete = f"round {len(taken) + 1} of {rounds}: {why}"
    rank = interval_rank(len(taken))
    document = {
        "schema": SCHEMA,
        "machine": machine_facts(),
        "groups": groups,
        "rounds": len(taken),
        "interrupted": incomplete is not None and failed is None,
        "incomplete": incomplete,
        "load_averages": loads[: len(taken)],
        "interval": rank.kind,
        "coverage": rank.coverage,
        "figures": figures(taken),
    }
    return document, failed


def _one_round(groups: Sequence[str]) -> list[Document]:
    answer = ask(PLACES.vm, *groups)
    if answer.status != 0:
        why = answer.message or f"allotrope-vm ended with status {answer.status}"
        raise UserError(why, answer.status)
    found: list[Document] = json.loads(answer.output)["figures"]
    return found


def _key(figure: Document) -> Key:
    return figure["what"], figure["by"], figure["count"]


def figures(taken: Sequence[Sequence[Document]]) -> list[Document]:
    """One entry for each figure of the rounds."""
    adds = [next(one["ns"] for one in figures if one["what"] == ADD) for figures in taken]
    found = []
    for place, first in enumerate(taken[0]):
        row = [figures[place] for figures in taken]
        assert {_key(one) for one in row} == {_key(first)}
        times = [one["ns"] for one in row]
        entry: Document = dict(zip(("what", "by", "count"), _key(first)))
        if None in times:
            why = next(one["why"] for one in row if one["ns"] is None)
            found.append(entry | {"ns": None, "adds": None, "why": why})
            continue
        in_adds = [time / add for time, add in zip(times, adds)]
        entry |= {"ns": _spread(times), "adds": _spread(in_adds), "rounds": times}
        found.append(entry)
    return found


def _spread(values: Sequence[float]) -> dict[str, float]:
    found: Estimate = estimate(values)
    return {"median": found.median, "low": found.low, "high": found.high}


def figure(document: Document, what: str, by: str | None = None) -> list[Document]:
    """Those of this name, in their order; by: None is any."""
    found = [one for one in document["figures"] if one["what"] == what]
    return [one for one in found if by is None or one["by"] == by]


def median_ns(document: Document, what: str) -> float | None:
    found = figure(document, what)
    if not found or found[0]["ns"] is None:
        return None
    median: float = found[0]["ns"]["median"]
    return median
