# SPDX-License-Identifier: MIT
"""Leaks in words, as rows, as JSON and as a profile."""

from typing import Any, Mapping

from ...output.files import read_json
from ...output.pprof import Profile
from ...output.sentences import Sentence, counted, enumerate_names
from ...output.units import format_bytes
from ...system.errors import UserError
from ..reach import served
from ..sites.difference import signed
from ..sites.measure import Tally
from ..sites.output import callers
from .measure import KINDS, Leaks, leaks_of
from .suppressions import suppressing

SCHEMA = "allotrope.leaks/1"
COLUMNS = ["direct", "blocks", "indirect", "blocks", "allocated at", "called by"]
CHANGE_COLUMNS = ["change", "blocks"]
WORDY = 2  # the last columns are words

# Of an earlier report, by place.
Before = Mapping[str, Tally]


def read_before(file: str, rules: list[str]) -> Before:
    """What --json wrote, without what the rules suppress today."""
    document = read_json(file)
    if not isinstance(document, dict) or document.get("schema") != SCHEMA:
        raise UserError(f"{file} is not what leaks --json writes ({SCHEMA})")
    places: dict[str, Tally] = {}
    try:
        for leak in leaks_of(document):
            if suppressing(rules, leak) is None:
                name = str(leak.site.allocates_at())
                places[name] = places.get(name, Tally()) + leak.both
    except (LookupError, TypeError) as error:
        raise UserError(f"{file} is damaged: {type(error).__name__} {error}") from None
    return places


def in_words(tally: Tally) -> str:
    return f"{counted(tally.blocks, 'block')} of {format_bytes(tally.bytes)}"


def headline(found: Leaks) -> str:
    direct, indirect = found.sum("direct"), found.sum("indirect")
    if not found.leaks and not found.unknown.blocks:
        return no_leaks(found)
    text = f"{in_words(direct)} leaked: not freed, and out of reach"
    if indirect.blocks:
        text += f"; {in_words(indirect)} more that only leaks lead to"
    return text + "."


def no_leaks(found: Leaks) -> str:
    """Nothing was found, which is no more than what was looked for."""
    if found.unanswered == found.processes:
        return "the leaks are not known: no collection could be made."
    whose = found.about["command"]
    if found.processes > 1:
        whose = f"{found.processes} processes, {whose} among them"
    served = f"what {found.about['allocator']} served of {whose}"
    if found.allocations is not None:
        among = counted(found.allocations, "allocation")
        served = f"{among} of {whose}, which {found.about['allocator']} served"
    if found.suppressed.blocks:
        return f"no leaks among {served}, but those that are suppressed."
    if found.unanswered:
        return f"no leaks are known among {served}: not all processes could look for them."
    return f"no leaks among {served}: all that was not freed can be reached."


def change_of_all(found: Leaks, before: Before) -> str:
    old = sum(before.values(), Tally())
    new = found.sum("direct") + found.sum("indirect")
    blocks = f"{new.blocks - old.blocks:+,}".replace("-", "−")
    return f"{signed(new.bytes - old.bytes)} and {blocks} blocks since then."


def rows(found: Leaks, before: Before | None, most: int) -> list[list[str]]:
    """Header first; where there is an earlier report the largest growth comes first."""
    none = Tally()
    lines: list[tuple[int, list[str]]] = []
    for name, direct, indirect, site in found.by_place():
        cells = [
            *(text for one in (direct, indirect) for text in cells_of(one)),
            name,
            callers(site),
        ]
        both = direct + indirect
        order = both.bytes
        if before is not None:
            old = before.get(name, none)
            order = both.bytes - old.bytes
            blocks = f"{both.blocks - old.blocks:+,}".replace("-", "−")
            cells = [signed(order), blocks, *cells]
        lines.append((order, cells))
    lines.sort(key=lambda line: -line[0])
    header = COLUMNS if before is None else [*CHANGE_COLUMNS, *COLUMNS]
    return [header, *(cells for _, cells in lines[:most])]


def cells_of(tally: Tally) -> list[str]:
    return [format_bytes(tally.bytes), f"{tally.blocks:,}"] if tally.blocks else ["", ""]


def sentences(found: Leaks) -> list[Sentence]:
    notes = []
    if found.unanswered:
        notes.append(
            f"{found.unanswered} of {found.processes} processes could make no collection, so their "
            "leaks are not known."
        )
    if found.strangers:
        notes.append(
            f"{found.about['allocator']} served nothing of {enumerate_names(found.strangers)}; "
            "what was lost there is not known."
        )
    if found.unknown.blocks:
        leaked = counted(found.unknown.blocks, "leaked block")
        notes.append(f"where {leaked} came from is not known.")
    if found.suppressed.blocks:
        notes.append(f"{in_words(found.suppressed)} suppressed.")
    for rule in found.unused_rules:
        notes.append(f"the suppression '{rule}' met no leak.")
    if found.processes > 1:
        notes.append(
            f"{found.processes} processes wrote a report; what leaked before a fork counts in each."
        )
    notes += found.unnamed
    words = [Sentence("note", "Note", note) for note in notes]
    if found.not_seen is not None:
        words += found.not_seen.without(found.strangers).sentences("what was lost there")
    return words


def as_document(found: Leaks) -> dict[str, Any]:
    """docs/leaks.md."""
    return {
        "schema": SCHEMA,
        **{key: found.about[key] for key in ("pid", "command", "allocator", "preset")},
        "running": bool(found.about.get("running")),
        "processes": found.processes,
        "not_known_of": found.unanswered,
        "allocations": found.allocations,
        "not_served": list(found.strangers),
        **(found.not_seen or served.NotSeen(None)).as_document(),
        **{kind: vars(found.sum(kind)) for kind in KINDS},
        "suppressed": vars(found.suppressed),
        "unknown_blocks": found.unknown.blocks,
        "words": [headline(found), *map(str, sentences(found))],
        "leaks": [
            {
                "pid": leak.pid,
                "direct": vars(leak.direct),
                "indirect": vars(leak.indirect),
                "frames": [
                    {"address": frame.address, "places": [vars(place) for place in frame.places]}
                    for frame in leak.site.frames
                ],
            }
            for leak in sorted(found.leaks, key=lambda leak: -leak.both.bytes)
        ],
    }


def as_profile(found: Leaks) -> Profile:
    units = (("objects", "count"), ("space", "bytes"))
    types = [(f"{kind}_{what}", unit) for kind in KINDS for what, unit in units]
    profile = Profile(types, "direct_space", list(found.mappings), period=1)
    for leak in found.leaks:
        values = [
            value for one in (leak.direct, leak.indirect) for value in (one.blocks, one.bytes)
        ]
        profile.samples.append((leak.site.frames, values))
    return profile
