# SPDX-License-Identifier: MIT
"""What the counts of several allocators decide ("verdicts" of allotrope.locality/1).

Each is held against glibc, or the first where glibc is not there, in counts that people know: the
pages touched, and the misses of a cache of 32 KiB and one of 1 MiB.

A recording repeats itself to the reference, as the recorder lays memory out the same way each time,
where the program takes nothing at random. That is no proof: a longer environment moves the stack,
and with it the misses of a cache of 32 KiB by up to 43% (docs/locality.md). So what a recording
decides depends on the count:

    pages touched    of one recording: by THRESHOLD, beyond the LAYOUT_PAGES that layouts change
    misses           of one recording: by the factor DECIDES_ALONE
    both             of several layouts: the interval of their ratios, layout by layout, by
                     THRESHOLD (judge() of verdicts.py)
"""

import random
from collections.abc import Iterator

from ...output.sentences import Sentence, counted, enumerate_names
from ...output.units import format_bytes
from ...statistics.intervals import LEAST_JUDGED_ROUNDS, ORDER_STATISTIC, Estimate, summarize
from ...statistics.verdicts import THRESHOLD, Outcome, judge
from .simulate import RANGE, Document, associativities, is_range, kind_of, results_of

SIZES = (32 << 10, 1 << 20)
# Two counts that layouts move by up to 43%, one up and one down, differ by almost this.
DECIDES_ALONE = 2.0
# By which the pages touched differ from layout to layout.
LAYOUT_PAGES = 5
WORDS = {Outcome.BETTER: "fewer", Outcome.WORSE: "more", Outcome.SAME: "same"}

# The variable that makes an environment longer, and by how much at most: two pages, so that the
# stack comes to lie on any line of a page. The stack pointer is a multiple of 16.
PADDING = "_ALLOTROPE_PADDING"
MOST_PADDING = 8192
MOST_LAYOUTS = 256


def paddings(layouts: int) -> list[int]:
    """Bytes to lengthen the environment by: the same for every allocator and every time."""
    chosen = random.Random(layouts).sample(range(16, MOST_PADDING, 16), layouts - 1)
    return [0, *chosen]


def quantities(run: Document) -> list[tuple[Document, int]]:
    """What is compared, and how often it was counted."""
    page = run["pages"]["pages"][0]
    found = [({"what": "pages touched", "page_size": page["page_size"]}, int(page["cold"]))]
    caches = run["caches"]
    block = caches["blocks"][-1]["block"]
    ways = associativities(caches, block)[-1]
    for one in results_of(caches, block, ways):
        if one["bytes"] in SIZES:
            of = {"what": "cache misses", "block": block, "ways": ways, "bytes": one["bytes"]}
            found.append((of, int(one["misses"])))
    return found


def no_verdict(runs: list[Document]) -> str | None:
    """Why nothing is decided of these runs; None where there is something to decide."""
    if len(runs) < 2:
        return "there is one allocator alone"
    if is_range(runs[0]["pages"]):
        return RANGE
    if len({run["status"] for run in runs}) > 1:
        return "the exit status is not the same under every allocator, so the work may not be."
    reasons: dict[str, list[str]] = {}
    for run in runs:
        if why := run["simulated"]["no_verdict"]:
            reasons.setdefault(why, []).append(run["allocator"])
    said = [f"{why} (under {enumerate_names(names)})" for why, names in reasons.items()]
    return "; ".join(said) + "." if said else None


def verdicts(runs: list[Document]) -> list[Document]:
    """Empty where there are none."""
    if no_verdict(runs) is not None:
        return []
    base = next((run for run in runs if run["allocator"] == "glibc"), runs[0])
    about = {"recordings": len(base["recordings"]), "baseline": base["allocator"]}
    return [
        {
            **of,
            **about,
            "threshold": THRESHOLD,
            "baseline_count": count,
            "of": [_judge(of, number, run, base) for run in runs if run is not base],
        }
        for number, (of, count) in enumerate(quantities(base))
    ]


def _judge(of: Document, number: int, run: Document, base: Document) -> Document:
    """Of one allocator in the quantity of that number."""
    counts, bases = ([one["counts"][number] for one in side["recordings"]] for side in (run, base))
    summary = summarize(counts, bases)
    ratio = summary.ratio_interval() if summary is not None else None
    told = summary is not None and summary.interval == ORDER_STATISTIC
    return {
        "allocator": run["allocator"],
        "count": counts[0],
        "ratio": None if ratio is None else ratio.median,
        "interval": [ratio.low, ratio.high] if ratio is not None and told else None,
        "verdict": _word(of, ratio, told, bases[0]),
    }


def _word(of: Document, ratio: Estimate | None, told: bool, base: int) -> str:
    """told: the ratio has an interval. base: what it is a ratio to."""
    if ratio is None:
        return str(Outcome.NOT_DECIDED)
    if told:
        outcome = judge(ratio)
    elif of["what"] == "pages touched":
        either_way = LAYOUT_PAGES / base
        outcome = judge(Estimate(ratio.median, ratio.low - either_way, ratio.high + either_way))
    elif not 1 / DECIDES_ALONE < ratio.median < DECIDES_ALONE:
        outcome = judge(ratio, DECIDES_ALONE - 1 - 1e-9)
    else:
        outcome = Outcome.NOT_DECIDED
    return WORDS.get(outcome, str(outcome))


def sentences(runs: list[Document]) -> Iterator[Sentence]:
    """For the page and for the terminal."""
    if len(runs) < 2:
        if why := runs[0].get("simulated", {}).get("no_verdict"):
            yield Sentence("undecided", "These figures do not stand for the command", f"{why}.")
        return
    if (why := no_verdict(runs)) is not None:
        yield Sentence("undecided", "No verdict", why)
        return
    for one in verdicts(runs):
        yield Sentence("finding", _title(one), _against(one))
    yield Sentence("note", *_evidence(len(runs[0]["recordings"])))


def _evidence(recordings: int) -> tuple[str, str]:
    """What so many recordings can show."""
    if recordings == 1:
        return "One recording", (
            "it has no interval. It would repeat itself, but in another environment the stack lies "
            f"elsewhere, and misses differ: less than {DECIDES_ALONE:g} times as many or as few "
            f"decide nothing, nor do {LAYOUT_PAGES} pages touched. --layouts {LEAST_JUDGED_ROUNDS} "
            f"moves the stack, and decides from {THRESHOLD:.0%} on."
        )
    said = f"{counted(recordings, 'recording')} of each, with the stack in as many places"
    if recordings < LEAST_JUDGED_ROUNDS:
        more = f"{LEAST_JUDGED_ROUNDS} and more have intervals, and decide"
        return "Too few layouts", f"{said}; {more}."
    return "Layouts", (
        f"{said}; counts are the first's, ratios the medians with their 99.5% intervals. Libraries "
        "and heap lie where they lie."
    )


def _title(one: Document) -> str:
    if one["what"] == "pages touched":
        return f"Pages of {format_bytes(one['page_size'])} touched"
    block = f"blocks of {one['block']} bytes"
    return f"Misses of {format_bytes(one['bytes'])}, {kind_of(one['ways'])}, {block}"


def _against(one: Document) -> str:
    """In the order of the counts, those of one verdict together."""
    parts = []
    for verdict in ("fewer", "same", "more", str(Outcome.NOT_DECIDED)):
        of = [other for other in one["of"] if other["verdict"] == verdict]
        if of:
            named = [f"{x['allocator']} ({_figures(x)})" for x in sorted(of, key=_count)]
            word = f"same within {one['threshold']:.0%}" if verdict == "same" else verdict
            parts.append(f"{word} under {enumerate_names(named)}")
    return f"{one['baseline_count']:,} under {one['baseline']}; {'; '.join(parts)}."


def _count(other: Document) -> int:
    return int(other["count"])


def _figures(other: Document) -> str:
    if other["ratio"] is None:
        return f"{other['count']:,}"
    interval = other["interval"]
    tail = "" if interval is None else f" [{interval[0]:.3f}, {interval[1]:.3f}]"
    return f"{other['count']:,}, {other['ratio']:.3f} times{tail}"
