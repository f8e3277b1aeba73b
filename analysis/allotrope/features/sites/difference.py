# SPDX-License-Identifier: MIT
"""How two reports of sites differ: two looks at one process, or two runs. Addresses differ from
process to process, so places are told by function and line."""

import re

from ...output.files import read_json
from ...output.pprof import Frame
from ...output.sentences import counted
from ...output.units import format_bytes
from ...system.errors import UserError
from ...system.symbols import Place, Symbols
from .measure import MOMENTS, Site, Sites, Tally
from .output import SCHEMA, callers, share

PERIOD = re.compile(r"(\d+(?:\.\d+)?)(ms|s|min)?")
UNITS = {"ms": 1e-3, "s": 1.0, "min": 60.0, None: 1.0}


def parse_period(text: str) -> float:
    match = PERIOD.fullmatch(text)
    seconds = float(match[1]) * UNITS[match[2]] if match else 0.0
    if seconds < 0.01:
        raise UserError(f"--every: '{text}' is no time of 10ms or more; write it as 10s")
    return seconds


def read_report(file: str) -> Sites:
    """Of what `sites --json` wrote."""
    document = read_json(file)
    if not isinstance(document, dict) or document.get("schema") != SCHEMA:
        raise UserError(f"{file} is not what sites --json writes ({SCHEMA})")
    try:
        sites = [
            Site(
                tuple(
                    Frame(frame["address"], [Place(**place) for place in frame["places"]])
                    for frame in site["frames"]
                ),
                *(Tally(**site[moment]) for moment in (*MOMENTS, "temporary")),
            )
            for site in document["sites"]
        ]
    except (LookupError, TypeError) as error:
        raise UserError(f"{file} is damaged: {type(error).__name__} {error}") from None
    return Sites(document, sites, int(document.get("processes", 1)), Symbols([]))


def holds(now: Sites) -> str:
    """What a process holds, in words."""
    held = now.sum("exit")
    peak = now.raw["peak_bytes"]
    return (
        f"{now.raw['command']}, pid {now.raw['pid']}, holds about {format_bytes(held.bytes)} in "
        f"{counted(held.blocks, 'block')}, {share(held.bytes, peak)} of the most it held."
    )


def signed(size: int) -> str:
    return f"{'+' if size >= 0 else '−'}{format_bytes(abs(size))}"


def change_of_all(before: Sites, after: Sites, moment: str) -> str:
    old, new = before.sum(moment).bytes, after.sum(moment).bytes
    return f"{format_bytes(old)}, then {format_bytes(new)} ({signed(new - old)})"


def change_rows(before: Sites, after: Sites, moment: str) -> list[list[str]]:
    """Places whose bytes changed, the largest change first; header first."""
    old = {name: (tally, site) for name, tally, site in before.by_place(moment)}
    new = {name: (tally, site) for name, tally, site in after.by_place(moment)}
    none = Tally()
    changes = []
    for name in dict.fromkeys([*new, *old]):
        was, now = (found.get(name, (none, None))[0] for found in (old, new))
        site = (new.get(name) or old[name])[1]
        if now != was:
            changes.append((now.bytes - was.bytes, now.blocks - was.blocks, now, name, site))
    changes.sort(key=lambda change: -abs(change[0]))
    rows = [["change", "blocks", "now", "allocated at", "called by"]]
    for size, blocks, now, name, site in changes:
        rows.append(
            [
                signed(size),
                f"{blocks:+,}".replace("-", "−"),
                format_bytes(now.bytes),
                name,
                callers(site, 2),
            ]
        )
    return rows
