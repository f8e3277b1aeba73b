# SPDX-License-Identifier: MIT
"""Sites in words, as JSON and as a profile."""

from typing import Any

from ...output.pprof import Profile
from ...output.sentences import LEAK_SHARE, Sentence, counted
from ...output.units import format_bytes
from ...statistics.verdicts import NOTICEABLE_BYTES
from ..reach import served
from .measure import MOMENTS, Site, Sites, Tally

SCHEMA = "allotrope.site-report/1"
SHOWN_CALLERS = 3
SUMMARIZED = 8
TOLD = 0.8  # of a figure: what its lower bound may be without a word
LEAST_SAMPLES = 100  # from which on shares of all allocations are told
NOTICEABLE_TEMPORARIES = 0.1  # of all allocations
AGES = ((1e3, "1 µs"), (1e6, "1 ms"), (1e9, "1 s"))


def callers(site: Site, count: int = SHOWN_CALLERS) -> str:
    """Who called the place, outwards."""
    names = [place.name for place in site.shown_places()]
    at = site.allocates_at().name
    start = names.index(at) + 1 if at in names else 0
    return " ← ".join(names[start : start + count])


# words


def leaks(found: Sites) -> list[tuple[str, Tally, Site]]:
    """The places to which most of what was never freed belongs, if that is worth a word."""
    at_exit = found.by_place("exit")
    least = max(NOTICEABLE_BYTES, LEAK_SHARE * found.raw["peak_bytes"])
    return [one for one in at_exit if one[1].bytes >= least]


def share(part: float, whole: float) -> str:
    if not whole:
        return "0%"
    percent = 100 * part / whole
    return "<1%" if 0 < percent < 0.5 else f"{percent:.0f}%"


def sentences(found: Sites) -> list[Sentence]:
    """What the figures say: where the peak comes from, and what was never freed."""
    if found.raw.get("running"):
        return []
    peak = found.raw["peak_bytes"]
    largest = found.by_place("peak")[:3]
    about = "" if found.is_exact else "about "
    words = []
    if largest and largest[0][1].bytes * 50 >= peak:
        named = ", ".join(
            f"{share(tally.bytes, peak)} at {name}"
            for name, tally, _ in largest
            if tally.bytes * 50 >= peak
        )
        text = (
            f"when the program held most it held {about}{format_bytes(peak)}{_peak_doubt(found)}, "
            f"{found.raw['peak_seconds']:.2f} s after its start: {named}."
        )
        words.append(Sentence("note", "The peak", text))
    for name, tally, site in leaks(found)[:3]:
        text = (
            f"{about}{format_bytes(tally.bytes)} in {counted(tally.blocks, 'block')}, allocated at "
            f"{name}, {'is' if tally.blocks == 1 else 'are'} never freed: "
            f"{share(tally.bytes, peak)} of the peak."
        )
        chain = callers(site)
        if chain:
            text += f" Called by {chain}."
        words.append(Sentence("finding", "Never freed", text))
    words += [*_mostly_leaked(found), *_temporaries(found), *_ages(found), *_limits(found)]
    not_seen = found.not_seen.sentences("what was allocated there") if found.not_seen else []
    return words + not_seen


def _peak_doubt(found: Sites) -> str:
    """Said where few samples stand for what was held."""
    low, high = found.peak_range()
    if low >= TOLD * found.raw["peak_bytes"]:
        return ""
    bounds = f"{format_bytes(round(low))} to {format_bytes(round(high))}"
    return f" ({bounds}: few samples stand for it; --rate 1 tells it)"


def _mostly_leaked(found: Sites) -> list[Sentence]:
    """Where no single place is worth a word, but the whole is."""
    held, all_of_it = found.sum("exit"), found.sum("total")
    if leaks(found) or not held.bytes or 2 * held.bytes <= all_of_it.bytes:
        return []
    about = "" if found.is_exact else "about "
    text = (
        f"{about}{format_bytes(held.bytes)} in {counted(held.blocks, 'block')}: "
        f"{share(held.bytes, all_of_it.bytes)} of all that was allocated."
    )
    return [Sentence("finding", "Never freed", text)]


def _is_small_sample(found: Sites) -> bool:
    """Samples are drawn by bytes, so a small block seldom comes and then stands for hundreds: of
    `ls`, 12 samples told 2% and 48% shorter than a millisecond, from run to run."""
    return not found.is_exact and found.raw["samples"] < LEAST_SAMPLES


def _temporaries(found: Sites) -> list[Sentence]:
    count, whole = found.sum("temporary").blocks, found.sum("total").blocks
    if not count or count < NOTICEABLE_TEMPORARIES * whole or _is_small_sample(found):
        return []
    about = "" if found.is_exact else "about "
    places = sorted(found.by_place("temporary"), key=lambda one: -one[1].blocks)[:3]
    named = ", ".join(
        f"{share(tally.blocks, count)} at {name}"
        for name, tally, _ in places
        if tally.blocks * 20 >= count
    )
    text = (
        f"{about}{count:,} of {whole:,} allocations ({share(count, whole)}) were freed at once, "
        f"with no other call of their thread between: {named}. A buffer that is kept would save "
        "them."
    )
    return [Sentence("finding", "Temporary", text)]


def _ages(found: Sites) -> list[Sentence]:
    """How long blocks lived, by count."""
    ages, whole = found.raw.get("lifetimes", ()), found.sum("total").blocks
    if not ages or not whole or _is_small_sample(found):
        return []
    parts = []
    for limit, name in AGES:
        # A bucket that the limit cuts counts in part, as if it were filled evenly.
        count = sum(
            row["blocks"] * min(1.0, max(0.0, 2 * limit / row["below_ns"] - 1)) for row in ages
        )
        parts.append(f"{share(count, whole)} less than {name}")
        if count >= 0.995 * whole:
            break
    held = found.sum("exit").blocks
    text = f"of all allocations {', '.join(parts)}; {share(held, whole)} to the end."
    return [Sentence("note", "Lived", text)]


def _limits(found: Sites) -> list[Sentence]:
    notes = []
    if not found.sites:
        notes.append(
            "nothing was sampled: the program allocates too little (--rate 1 sees all), or it is "
            "served by a malloc of its own."
        )
    elif _is_small_sample(found):
        notes.append(
            f"{counted(found.raw['samples'], 'sample')} cannot tell how long blocks live; "
            "--rate 1 sees all."
        )
    if found.raw["frames"] == 1:
        notes.append("only the caller of malloc is known, not who called it.")
    if found.raw["lost_samples"]:
        notes.append(f"{found.raw['lost_samples']} samples were lost for want of memory.")
    notes += found.symbols.lacking()
    if not found.raw["maps"]:
        notes.append("/proc was not mounted, so places are bare addresses.")
    if found.processes > 1:
        notes.append(
            f"{found.processes} processes wrote what they saw; this is {found.raw['command']}, pid "
            f"{found.raw['pid']}, which held most of them."
        )
    return [Sentence("note", "Note", note) for note in notes]


# files


def as_document(found: Sites) -> dict[str, Any]:
    """docs/sites.md."""
    kept = {
        key: value for key, value in found.raw.items() if key not in ("schema", "sites", "maps")
    }
    return {
        "schema": SCHEMA,
        **kept,
        "processes": found.processes,
        **(found.not_seen or served.NotSeen(None)).as_document(),
        "words": [str(sentence) for sentence in sentences(found)],
        "sites": [
            {
                **{moment: vars(site.at(moment)) for moment in (*MOMENTS, "temporary")},
                "frames": [
                    {
                        "address": frame.address,
                        "places": [vars(place) for place in frame.places],
                    }
                    for frame in site.frames
                ],
            }
            for site in sorted(found.sites, key=lambda site: -site.peak.bytes)
        ],
    }


def summarize_sites(found: Sites) -> dict[str, Any]:
    """The "sites" of a comparison: the largest places at the peak and at exit."""
    rows = {
        moment: [
            {
                "place": name,
                "blocks": tally.blocks,
                "bytes": tally.bytes,
                "called_by": callers(site),
            }
            for name, tally, site in found.by_place(moment)[:SUMMARIZED]
        ]
        for moment in ("peak", "exit")
    }
    return {
        "command": found.raw["command"],
        "samples": found.raw["samples"],
        "peak_bytes": found.raw["peak_bytes"],
        "peak_range_bytes": [round(bound) for bound in found.peak_range()],
        "exit_bytes": found.raw["exit_bytes"],
        **rows,
    }


def as_profile(found: Sites) -> Profile:
    kinds = (("objects", "count"), ("space", "bytes"))
    types = [(f"{moment}_{what}", unit) for moment in MOMENTS for what, unit in kinds]
    profile = Profile(types, "peak_space", found.symbols.mappings, period=found.raw["rate_bytes"])
    for site in found.sites:
        tallies = [site.at(moment) for moment in MOMENTS]
        values = [value for tally in tallies for value in (tally.blocks, tally.bytes)]
        profile.samples.append((site.frames, values))
    return profile
