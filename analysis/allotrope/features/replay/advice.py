# SPDX-License-Identifier: MIT
"""What a replay says of the allocators, in words."""

from operator import itemgetter

from ...output.sentences import (
    CUT_SHORT,
    Sentence,
    enumerate_names,
    of_lost_events,
    of_whole_rounds,
    too_few_rounds,
)
from ...output.units import format_bytes, format_nanoseconds
from ...statistics.intervals import JUDGED_CONFIDENCE, LEAST_JUDGED_ROUNDS, estimate_ratio
from ...statistics.verdicts import THRESHOLD, Outcome, judge, tells_chance
from .measure import Document

NOT_PLAYED = (
    "what the program does between its calls is not played, so caches are warmer than its own. "
    "allotrope compare runs it whole."
)
NO_PROC = "not known: /proc is not mounted here."


def advice(document: Document) -> list[Sentence]:
    """Who was fastest and leanest, who failed, and what the figures leave out."""
    played = [one for one in document["results"] if one["failure"] is None]
    resident = [one for one in played if one["rss_growth_bytes"] is not None]
    sentences = []
    if played:
        fastest = min(played, key=itemgetter("cpu_seconds"))
        sentences.append(_on_speed(fastest, [one for one in played if one is not fastest]))
    if resident:
        leanest = min(resident, key=itemgetter("rss_growth_bytes"))
        live = format_bytes(document["most_live_bytes"])
        grew = f"{format_bytes(leanest['rss_growth_bytes'])} resident for {live} live"
        sentences.append(Sentence("finding", "Leanest", f"{leanest['allocator']}, {grew}."))
    elif played:
        sentences.append(Sentence("note", "Resident memory", NO_PROC))
    for one in document["results"]:
        if one["failure"] is not None:
            text = f"{one['allocator']}: {one['failure']}"
            sentences.append(Sentence("refused", "Failed", text))
    if not document["whole"]:
        sentences.append(CUT_SHORT)
    sentences += of_lost_events(document)
    if document["interrupted"]:
        sentences.append(of_whole_rounds("interrupted"))
    sentences.append(Sentence("note", "Mind", NOT_PLAYED))
    return sentences


def _on_speed(fastest: Document, others: list[Document]) -> Sentence:
    """Only who is faster than each other one, by the interval, is called the fastest."""
    took = f"{fastest['allocator']}, {format_nanoseconds(1e9 * fastest['cpu_seconds'])}"
    rounds = len(fastest["cpu_seconds_rounds"])
    if not tells_chance(rounds, LEAST_JUDGED_ROUNDS):
        text = (
            f"{too_few_rounds(rounds)}; it takes {LEAST_JUDGED_ROUNDS} "
            f"(--rounds). Least processor time: {took}."
        )
        return Sentence("undecided", "Not decided", text)
    near = [one["allocator"] for one in others if not _is_slower(one, fastest)]
    if near:
        verb = "is" if len(near) == 1 else "are"
        text = (
            f"least processor time: {took}; {enumerate_names(near)} {verb} not told from it at "
            f"{THRESHOLD:.0%}."
        )
        return Sentence("undecided", "Not decided", text)
    return Sentence("choice", "Fastest", f"{took} of processor time.")


def _is_slower(one: Document, fastest: Document) -> bool:
    rounds = one["cpu_seconds_rounds"], fastest["cpu_seconds_rounds"]
    ratio = estimate_ratio(*rounds, confidence=JUDGED_CONFIDENCE)
    return ratio is not None and judge(ratio) is Outcome.WORSE
