# SPDX-License-Identifier: MIT
"""What follows from a comparison's figures, in words, and what does not.

A pure function from the JSON (docs/compare-format.md) to sentences. Of two allocators the interval
of their ratios, round by round, decides: better, worse, the same within a threshold, or not
decided (statistics/verdicts.py). Memory must differ by 1 MiB as well to count in the choice; where
it does not, that is said. *Fastest* are all that nobody is shown to be faster than, *leanest*
likewise, so what chance may have ordered is not ordered here. Who belongs to both is the choice;
when nobody does there is a trade-off with a price, and when the usual allocator belongs to both
there is nothing to gain, or it is not decided.

What the heap's own account says beside that is named too: memory that was never freed, heaps far
larger than what was asked for, and sizes rounded up.
"""

from dataclasses import dataclass
from typing import Any, Callable, Mapping, Protocol, Sequence

from ...output.sentences import (
    LEAK_SHARE,
    NOTICEABLE_BYTES,
    Sentence,
    counted,
    enumerate_names,
    is_little,
    too_few_rounds,
)
from ...output.units import format_bytes, format_figure, format_ratio
from ...statistics.intervals import (
    JUDGED_CONFIDENCE,
    JUDGED_ROUNDS,
    LEAST_JUDGED_ROUNDS,
    RANGE,
    Estimate,
    Summary,
    summarize,
)
from ...statistics.verdicts import THRESHOLD, Outcome, judge, may_be
from . import served
from .measure import BUILD

# Up to here a heap's excess is the size of the pieces in which it asks the kernel for memory.
PIECES_BYTES = 4 << 20
FRAGMENTED = 1.5  # of the heap in memory, over what was asked for
# From there on a program frees so much that what it freed could have served again.
MANY_FREES = 100
FREED_SHARE = 0.1  # of all its blocks
ROUNDING_SHARE = 0.25  # of the heap at its peak
SHORT_RUN_SECONDS = 0.02
# Below both malloc serves next to nothing of a program: of its memory, and calls for each second of
# CPU (at 100 ns each they take a thousandth of it) or in all.
LITTLE_ASKED = 0.05
LITTLE_CALLED_A_SECOND, LITTLE_CALLED = 10_000, 1000
NOTED_SHARE = 0.75  # below it the program's own mappings are worth a word
LITTLE = format_bytes(NOTICEABLE_BYTES)
LOADED_CPUS = 0.25  # that others use; from there on figures are theirs, too
WASTE_WORDS = {
    "external": "free room between blocks",
    "cached": "free blocks kept for one size or thread",
    "rounding": "sizes rounded up",
    "header": "headers",
    "alignment": "alignment",
}

Document = Mapping[str, Any]


@dataclass(frozen=True)
class Ratio(Estimate):
    """One allocator over another in one quantity."""

    matters: bool = True  # the difference is large enough in absolute terms
    threshold: float = THRESHOLD

    def outcome(self) -> Outcome:
        return judge(self, self.threshold)

    def is_less(self) -> bool:
        return self.matters and self.outcome() is Outcome.BETTER

    def is_more(self) -> bool:
        return self.matters and self.outcome() is Outcome.WORSE

    def is_told(self) -> bool:
        return self.is_less() or self.is_more()

    def is_open(self) -> bool:
        return self.matters and self.outcome() is Outcome.NOT_DECIDED

    def may_be(self, outcome: Outcome) -> bool:
        return self.matters and may_be(outcome, self, self.threshold)

    def __str__(self) -> str:
        return format_ratio(self.median, self.low, self.high)


class Evidence(Protocol):
    """What a choice is made from: one comparison, or a suite of them."""

    baseline: str
    candidates: Sequence[str]  # the baseline included, best-known first is not required
    threshold: float
    remedy: str  # a sentence: what may tell where it is not decided

    def ratio(self, one: str, other: str, quantity: str) -> Ratio | None:
        """`quantity` is "CPU", "memory" or "wall time"; None when it was not measured."""

    def amount(self, allocator: str, quantity: str) -> str:
        """How much that is in absolute terms; empty when that means nothing."""


def recommend(document: Document) -> list[Sentence]:
    """The recommendation that a comparison's figures carry; its first sentence is the headline."""
    headline, *rest = _choice(document)
    rest += [*_refused(document), *_findings(document), *_limits(document)]
    return [headline, *(sentence for sentence in rest if sentence.text != headline.text)]


# who is better than whom


def measured(document: Document) -> list[dict[str, Any]]:
    """The results that have figures."""
    return [result for result in document["results"] if result["cpu_seconds"] is not None]


def memory_quantity(document: Document) -> str:
    """What memory means in this comparison."""
    if document.get("server"):
        return "tree_peak_bytes"
    pairs = [(one["tree_peak_bytes"], one["peak_rss_bytes"]) for one in measured(document)]
    return memory_that_matters(
        [(tree and tree["median"], largest and largest["median"]) for tree, largest in pairs]
    )


def cpu_quantity(document: Document) -> str:
    """What CPU means: of a server's processes, per request where that is known."""
    server = document.get("server")
    return str(server["cpu_quantity"]) if server else "cpu_seconds"


def memory_that_matters(peaks: Sequence[tuple[float | None, float | None]]) -> str:
    """All processes together where every allocator's tree held more than its largest process,
    whose own peak is the more exact figure otherwise. peaks: medians of tree and largest."""
    matters = [bool(tree and largest and tree > largest) for tree, largest in peaks]
    return "tree_peak_bytes" if peaks and all(matters) else "peak_rss_bytes"


def is_duet(document: Document) -> bool:
    return bool(document.get("settings", {}).get("duet"))


def is_of_suite(document: Document) -> bool:
    """A program of a suite or scan, which knows neither duets nor --until."""
    return bool(document.get("of_suite"))


def may_be_duet(document: Document) -> bool:
    return not (is_duet(document) or document.get("server") or is_of_suite(document))


class ComparisonEvidence:
    """The rounds of one comparison."""

    def __init__(self, document: Document) -> None:
        usable = [one for one in measured(document) if one["status"] in ("ok", "nondeterministic")]
        self.baseline = str(document["baseline"])
        self.results = {str(result["spec"]): result for result in usable}
        self.candidates: Sequence[str] = list(self.results)
        memory = memory_quantity(document)
        self.keys = {"CPU": cpu_quantity(document), "memory": memory, "wall time": "wall_seconds"}
        self.threshold = float(document.get("threshold", THRESHOLD))
        self.confidence = float(document.get("confidence", JUDGED_CONFIDENCE))
        alone = may_be_duet(document)
        self.remedy = f"More rounds may tell{', or --duet' if alone else ''}."

    def ratio(self, one: str, other: str, quantity: str) -> Ratio | None:
        mine, others = (self.results[name][self.keys[quantity]] for name in (one, other))
        if mine is None or others is None:
            return None
        summary: Summary | None = summarize(mine["rounds"], others["rounds"], self.confidence)
        ratio = summary and summary.ratio_interval()
        if ratio is None:
            return None
        matters = quantity != "memory" or not is_little(mine["median"], others["median"])
        return Ratio(ratio.median, ratio.low, ratio.high, matters, self.threshold)

    def amount(self, allocator: str, quantity: str) -> str:
        summary = self.results[allocator][self.keys[quantity]]
        if summary is None:
            return ""
        if quantity == "memory":
            return format_bytes(summary["median"])
        if quantity == "CPU" and self.keys[quantity] != "cpu_seconds":
            return f"{format_figure(1e6 * summary['median'], 3)} µs a request"
        return f"{format_figure(summary['median'], 3)} s"


def best(evidence: Evidence, quantity: str) -> list[str]:
    """Those whom nobody is told to be better than, in the evidence's order."""

    def beats(one: str, other: str) -> bool:
        ratio = evidence.ratio(one, other, quantity)
        return ratio is not None and ratio.is_less()

    names = evidence.candidates
    return [name for name in names if not any(beats(other, name) for other in names)]


def least(evidence: Evidence, names: Sequence[str], quantity: str) -> str:
    """The one with the smallest median ratio to the baseline, whether told apart or not."""

    return min(names, key=lambda name: _median(evidence, name, quantity))


def _median(evidence: Evidence, name: str, quantity: str) -> float:
    ratio = evidence.ratio(name, evidence.baseline, quantity)
    return ratio.median if ratio else 1.0


# words


def in_words(ratio: Ratio) -> str:
    """A ratio as a change: "13% less", "1.9 times as much"."""
    if ratio.median >= 1.995:
        return f"{ratio.median:.1f} times as much"
    percent = 100 * abs(ratio.median - 1)
    return f"{percent:.0f}% {'less' if ratio.median < 1 else 'more'}"


def against(evidence: Evidence, one: str, other: str, quantity: str) -> str:
    """How `one` stands to `other`: "13% less CPU (0.870 [0.861, 0.884])"."""
    ratio = evidence.ratio(one, other, quantity)
    if ratio is None:
        return f"{quantity} not measured"
    if ratio.is_told():
        return f"{in_words(ratio)} {quantity} ({ratio})"
    outcome = ratio.outcome()
    if outcome is Outcome.SAME:
        return f"the same {quantity} within {percent(ratio.threshold)} ({ratio})"
    if not ratio.matters:
        return f"{in_words(ratio)} {quantity}, below {LITTLE} ({ratio})"
    return f"{quantity} not decided at {percent(ratio.threshold)} ({ratio})"


def percent(share: float) -> str:
    return f"{100 * share:.3g}%"


def _both(evidence: Evidence, one: str, other: str) -> str:
    cpu, memory = (against(evidence, one, other, quantity) for quantity in ("CPU", "memory"))
    return f"{cpu}, {memory}"


def _amounts(evidence: Evidence, name: str) -> str:
    known = [text for what in ("CPU", "memory") if (text := evidence.amount(name, what))]
    return f" ({', '.join(known)})" if known else ""


# the choice


def _choice(document: Document) -> list[Sentence]:
    evidence = ComparisonEvidence(document)
    undecided = _why_undecided(document, evidence)
    if undecided is not None and _served_little(document, evidence.baseline):
        return [undecided]
    if undecided is not None:
        return [undecided, *_standing(evidence)]
    return [*choose(evidence), *by_the_clock(evidence)]


def _undecided(text: str) -> Sentence:
    return Sentence("undecided", "Not decided", text)


def _why_undecided(document: Document, evidence: ComparisonEvidence) -> Sentence | None:
    if not measured(document):
        why = document["incomplete"]
        return _undecided("no round was measured" + (f": {why}." if why else "."))
    if document["deterministic"] is False:
        return _undecided(
            "the command's output differs from run to run under glibc itself, so nobody can say "
            "that the runs did the same work. If they did (dates, addresses), say so with "
            "--check none or give --check a command that judges the output."
        )
    unknown = _of_unknown_reach(document)
    if evidence.baseline in unknown:
        return _undecided(_nobody_knows(_as_unknown_as(evidence.baseline, unknown), unknown))
    unreached = _unreached(document)
    if evidence.baseline in unreached:
        return _undecided(_without_baseline(document, len(evidence.candidates)))
    if evidence.baseline not in evidence.candidates:
        return _undecided(f"the baseline {evidence.baseline} has no figures to compare with.")
    if len(evidence.candidates) == 1:
        return _undecided(_alone(document, evidence.baseline))
    summary = evidence.results[evidence.baseline]["cpu_seconds"]
    if summary["interval"] == RANGE:
        count = sum(value is not None for value in summary["rounds"])
        needed = f"it takes {LEAST_JUDGED_ROUNDS}, better {JUDGED_ROUNDS}."
        return _undecided(f"{too_few_rounds(count)}; {needed}")
    little = _served_little(document, evidence.baseline)
    return _undecided(little) if little else None


def _alone(document: Document, baseline: str) -> str:
    """Why there is nobody to compare the baseline with."""
    others = [str(one["spec"]) for one in document["results"] if one["spec"] != baseline]
    if not others:
        return f"only {baseline} was measured."
    unknown = _of_unknown_reach(document)
    if all(name in unknown for name in others):
        return _nobody_knows(others, unknown)
    unreached = _unreached(document)
    if all(name in unreached for name in others):
        return f"{enumerate_names(others)} did not serve {served.stranger(unreached[others[0]])}."
    does = "does" if len(others) == 1 else "do"
    return f"{enumerate_names(others)} {does} not go with this program, and {baseline} is left."


def _unreached(document: Document) -> dict[str, dict[str, Any]]:
    """The results whose figures are another allocator's, by spec."""
    results = document["results"]
    return {str(one["spec"]): one for one in results if one["status"] == "out-of-reach"}


def _of_unknown_reach(document: Document) -> dict[str, dict[str, Any]]:
    """The results whose figures may be another allocator's, by spec."""
    results = document["results"]
    return {str(one["spec"]): one for one in results if one["status"] == "reach-unknown"}


def _as_unknown_as(spec: str, unknown: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Those of which nobody knows for the same reason."""
    why = served.why_unknown(unknown[spec])
    return [name for name, one in unknown.items() if served.why_unknown(one) == why]


def _nobody_knows(names: Sequence[str], unknown: Mapping[str, Mapping[str, Any]]) -> str:
    """names: all for the same reason."""
    why = served.why_unknown(unknown[names[0]])
    remedy = ""
    if why == served.NO_PTRACE:
        remedy = (
            " Allow ptrace (a container: --cap-add=SYS_PTRACE), or give the program alone, without "
            "a shell: of one process its own report may tell."
        )
    return (
        f"who served the program under {enumerate_names(names)} is not known, {why}. It may have "
        f"been its own malloc, so the figures carry no verdict.{remedy}"
    )


def _main_row(document: Document, spec: str) -> Mapping[str, Any] | None:
    """Of the process with most CPU, where it is known who served it."""
    result = next(one for one in document["results"] if one["spec"] == spec)
    found = result.get("served")
    return found["rows"][0] if found else None


def _served_little(document: Document, spec: str) -> str:
    """That malloc does next to nothing for the program, so that no allocator can matter to it;
    empty where it does something, where that is not known, and where builds differ."""
    row = _main_row(document, spec)
    if row is None or row["allocations"] is None or served.are_builds(document["results"]):
        return ""
    share = served.malloc_share(document["results"], row["command"])
    count, most = row["allocations"], max(
        LITTLE_CALLED, LITTLE_CALLED_A_SECOND * row["cpu_seconds"]
    )
    if count > 0 and (share is None or share >= LITTLE_ASKED or count >= most):
        return ""
    asked = "" if share is None else f" and asked for {_part(share)} of its memory"
    return (
        f"malloc serves next to nothing of {row['command']}: it was called {counted(count, 'time')}"
        f"{asked}. What the program maps and manages itself is the same under every allocator."
    )


def _part(share: float) -> str:
    return f"{100 * share:.0f}%" if share >= 0.01 else "less than 1%"


def _without_baseline(document: Document, left: int) -> str:
    """Why there is no verdict when the baseline did not serve the program, and what to do."""
    result = _unreached(document)[str(document["baseline"])]
    text = f"the baseline {result['spec']} did not serve {served.stranger(result)}."
    if left == 0 and served.are_builds(document["results"]):
        return f"{text} No other allocator did. To compare the builds as they are, give no -a."
    if left == 0:
        return f"{text} No other allocator did, so all rows are the same program under itself."
    return f"{text} Choose what you mean to compare with by --baseline."


def _standing(evidence: ComparisonEvidence) -> list[Sentence]:
    """Who was ahead although that decides nothing."""
    if evidence.baseline not in evidence.candidates or len(evidence.candidates) == 1:
        return []
    fast, lean = (least(evidence, evidence.candidates, what) for what in ("CPU", "memory"))
    cpu, memory = evidence.amount(fast, "CPU"), evidence.amount(lean, "memory")
    text = f"least CPU: {fast} ({cpu}); least memory: {lean} ({memory})."
    return [Sentence("note", "Measured all the same", text)]


def choose(evidence: Evidence) -> list[Sentence]:
    """The choice among candidates of which the baseline is one, and there are others."""
    fastest, leanest = best(evidence, "CPU"), best(evidence, "memory")
    both = [name for name in fastest if name in leanest]
    if evidence.baseline in both:
        return [_stay(evidence), *_worse(evidence)]
    if both and not any(_is_told_apart(evidence, name) for name in both):
        return _without_a_winner(evidence)
    if both:
        return _take(evidence, [name for name in both if _is_told_apart(evidence, name)])
    pair = _opposites(evidence, fastest, leanest)
    if pair is None:
        text = (
            "the differences are so close to what can be told that they do not add up to a choice."
        )
        return [_undecided(text)]
    return _trade(evidence, *pair)


def _opposites(
    evidence: Evidence, fastest: Sequence[str], leanest: Sequence[str]
) -> tuple[str, str] | None:
    """Someone fast and someone lean who are told apart both ways; least CPU and memory first."""
    for lean in sorted(leanest, key=lambda name: _median(evidence, name, "memory")):
        for fast in sorted(fastest, key=lambda name: _median(evidence, name, "CPU")):
            cpu = evidence.ratio(fast, lean, "CPU")
            memory = evidence.ratio(fast, lean, "memory")
            if cpu and memory and cpu.is_less() and memory.is_more():
                return fast, lean
    return None


def _stay(evidence: Evidence) -> Sentence:
    """Nobody is shown to be better than the baseline. That is a choice against those who are worse
    and those who are the same; where it is not decided, the baseline stays for want of reasons.
    Who is worse in one quantity may still be better in the one that is not decided."""
    base = evidence.baseline
    others = [name for name in evidence.candidates if name != base]
    worse = [name for name in others if any(one.is_more() for one in _ratios(evidence, name))]
    lost = [name for name in worse if not _may_be(Outcome.BETTER, evidence, name)]
    open_ones = [name for name in others if name not in lost and _is_open(evidence, name)]
    same = [name for name in others if name not in lost and name not in open_ones]
    within = percent(evidence.threshold)
    parts = []
    if lost:
        parts.append(f"{enumerate_names(lost)} {_is_are(lost)} worse in CPU or memory")
    if same:
        parts.append(
            f"{enumerate_names(same)} {_is_are(same)} the same within {within}"
            + (f", in memory within {LITTLE}" if _differ_by_little(evidence, same, base) else "")
        )
    parts += [_opens(evidence, what, open_ones) for what in ("CPU", "memory")]
    text = f"stay with {base}: {'; '.join(filter(None, parts))}."
    if open_ones:
        return _undecided(f"{text} {evidence.remedy}")
    kind, title = ("undecided", "No difference") if same else ("choice", "Choice")
    return Sentence(kind, title, text)


def _differ_by_little(evidence: Evidence, names: Sequence[str], other: str) -> bool:
    """Whether the memory of some of them is better or worse, by too little to count."""
    ratios = [evidence.ratio(name, other, "memory") for name in names if name != other]
    told = (Outcome.BETTER, Outcome.WORSE)
    return any(one is not None and not one.matters and one.outcome() in told for one in ratios)


def _is_leaner_by_little(evidence: Evidence, name: str) -> bool:
    """Whether somebody is leaner than `name`, by too little to count."""
    ratios = [evidence.ratio(one, name, "memory") for one in evidence.candidates if one != name]
    return any(
        one is not None and not one.matters and one.outcome() is Outcome.BETTER for one in ratios
    )


def _is_are(names: Sequence[str]) -> str:
    return "is" if len(names) == 1 else "are"


def _ratios(evidence: Evidence, name: str) -> list[Ratio]:
    """To the baseline, in CPU and memory, as far as they were measured."""
    ratios = [evidence.ratio(name, evidence.baseline, quantity) for quantity in ("CPU", "memory")]
    return [ratio for ratio in ratios if ratio is not None]


def _is_open(evidence: Evidence, name: str) -> bool:
    """Whether it may still be better or worse than the baseline in CPU or memory."""
    return any(ratio.is_open() for ratio in _ratios(evidence, name))


def _may_be(outcome: Outcome, evidence: Evidence, name: str) -> bool:
    """Whether it may be so against the baseline, in CPU or memory."""
    return any(ratio.may_be(outcome) for ratio in _ratios(evidence, name))


def _opens(evidence: Evidence, quantity: str, names: Sequence[str]) -> str:
    """Those of whom it is not decided, with their intervals; empty when there are none."""
    pairs = [(name, evidence.ratio(name, evidence.baseline, quantity)) for name in names]
    found = [f"{name} {ratio}" for name, ratio in pairs if ratio and ratio.is_open()]
    within = percent(evidence.threshold)
    return f"{quantity} is not decided at {within} for {enumerate_names(found)}" if found else ""


def _is_told_apart(evidence: Evidence, name: str) -> bool:
    """From the baseline, in CPU or in memory."""
    return any(ratio.is_told() for ratio in _ratios(evidence, name))


def _without_a_winner(evidence: Evidence) -> list[Sentence]:
    """Somebody beats the baseline in one quantity, but who is best in both is not told from it."""
    base = evidence.baseline
    free = [name for name in evidence.candidates if _costs_nothing(evidence, name)]
    if free:
        chosen = least(evidence, free, "CPU")
        text = f"{chosen}: against {base} it costs nothing: {_both(evidence, chosen, base)}."
        return [Sentence("choice", "Choice", text)]
    better = [
        one for one in evidence.candidates if any(r.is_less() for r in _ratios(evidence, one))
    ]
    if any(not any(one.is_more() for one in _ratios(evidence, name)) for name in better):
        text = f"{enumerate_names(better)} {_is_are(better)} better than {base} in one respect. "
        headline = _undecided(f"{text}Whether that costs something is not decided.")
    else:
        text = f"stay with {base}: what is better than it in one respect is worse in the other."
        headline = Sentence("choice", "Choice", text)
    sentences = [headline]
    for name in evidence.candidates:
        if _is_told_apart(evidence, name):
            text = f"{_both(evidence, name, base)}."
            sentences.append(Sentence("note", f"{name} against {base}", text))
    return sentences


def _worse(evidence: Evidence) -> list[Sentence]:
    """Those that cost more than the baseline, with what they cost."""
    base, costs = evidence.baseline, []
    for name in evidence.candidates:
        ratios = [(what, evidence.ratio(name, base, what)) for what in ("CPU", "memory")]
        more = [f"{in_words(ratio)} {what}" for what, ratio in ratios if ratio and ratio.is_more()]
        if more:
            costs.append(f"{name} takes {' and '.join(more)}")
    return [Sentence("note", "Worse", f"{'; '.join(costs)}.")] if costs else []


def _take(evidence: Evidence, both: Sequence[str]) -> list[Sentence]:
    """`both`: who is among the fastest and the leanest, and told apart from the baseline."""
    certain = [name for name in both if not _may_be(Outcome.WORSE, evidence, name)]
    chosen = least(evidence, certain or both, "CPU")
    change = f"Against {evidence.baseline}: {_both(evidence, chosen, evidence.baseline)}."
    leaner = f"leaner by {LITTLE} or more" if _is_leaner_by_little(evidence, chosen) else "leaner"
    if certain:
        text = f"{chosen}: nothing measured is shown to be faster, and nothing {leaner}. {change}"
        sentences = [Sentence("choice", "Choice", text)]
    else:
        text = (
            f"nothing measured is shown to be faster than {chosen}, and nothing {leaner}, but what "
            f"it costs is not decided. {change} {evidence.remedy}"
        )
        sentences = [_undecided(text)]
    equals = [name for name in both if name != chosen]
    if equals:
        text = f"the figures do not tell {enumerate_names(equals)} from {chosen}."
        sentences.append(Sentence("note", "As good", text))
    return sentences


def _trade(evidence: Evidence, fast: str, lean: str) -> list[Sentence]:
    """Nobody is both: two choices, the price between them, and the one that costs nothing."""
    base = evidence.baseline
    text = f"it is a trade-off: {fast} for speed, {lean} for memory."
    sentences = [Sentence("choice", "Choice", text)]
    price = (
        f"{fast}{_amounts(evidence, fast)} against {lean}{_amounts(evidence, lean)}: "
        f"{_both(evidence, fast, lean)}."
    )
    sentences.append(Sentence("price", "The price", price))
    if base in (fast, lean):
        return sentences
    for name in (fast, lean):
        text = f"{_both(evidence, name, base)}."
        sentences.append(Sentence("note", f"{name} against {base}", text))
    free = [name for name in evidence.candidates if _costs_nothing(evidence, name)]
    if free:
        chosen = least(evidence, free, "CPU")
        if chosen not in (fast, lean):
            text = f"{chosen} against {base}: {_both(evidence, chosen, base)}."
            sentences.append(Sentence("choice", "Without a price", text))
    return sentences


def _costs_nothing(evidence: Evidence, name: str) -> bool:
    """Better than the baseline in one respect, and shown not to be worse in the other."""
    is_better = any(ratio.is_less() for ratio in _ratios(evidence, name))
    return is_better and not _may_be(Outcome.WORSE, evidence, name)


def by_the_clock(evidence: Evidence) -> list[Sentence]:
    """Threads can make the quickest something else than the one with the least CPU."""
    fastest, quickest = best(evidence, "CPU"), best(evidence, "wall time")
    if set(fastest) & set(quickest) or not quickest:
        return []
    quick, fast = least(evidence, quickest, "wall time"), least(evidence, fastest, "CPU")
    text = (
        f"{quick} against {fast}: {against(evidence, quick, fast, 'wall time')}, "
        f"{against(evidence, quick, fast, 'CPU')}. Whoever waits for the program looks at this."
    )
    return [Sentence("note", "By the clock", text)]


# who is out


def _refused(document: Document) -> list[Sentence]:
    sentences = []
    for result in document["results"]:
        name, failure = result["spec"], result["failure"]
        if result["status"] == "failed" and failure is not None:
            said = f" ({failure['message']})" if failure["message"] else ""
            text = f"{name} failed in {failure['when']}: {failure['ending']}{said}."
            sentences.append(Sentence("refused", "Not for this program", text))
        elif result["status"] == "different-output":
            text = _other_output(document, name)
            sentences.append(Sentence("refused", "Not for this program", text))
    return [*sentences, *_out_of_reach(document), *_reach_unknown(document)]


def _other_output(document: Document, name: str) -> str:
    if _build_is_another(document, name):
        return (
            f"under {name} the command writes something else than under {document['baseline']}. "
            "Either the builds do not do the same or the program depends on where its memory lies."
        )
    return (
        f"under {name} the command writes something else than under glibc. Either the allocator is "
        "at fault or the program depends on where its memory lies."
    )


def _build_is_another(document: Document, name: str) -> bool:
    """Whether it can be the build that writes something else: it does so under every allocator,
    and the baseline's build does not. A spec is BUILD or BUILD/ALLOCATOR."""
    if not any(BUILD in word for word in document.get("command", ())):
        return False
    statuses = {str(one["spec"]): one["status"] for one in document["results"]}
    build = name.partition("/")[0]
    same = [status for spec, status in statuses.items() if spec.partition("/")[0] == build]
    return "ok" not in same and statuses[document["baseline"]] == "ok"


def _out_of_reach(document: Document) -> list[Sentence]:
    groups: dict[str, list[str]] = {}
    for name, result in _unreached(document).items():
        groups.setdefault(served.stranger(result), []).append(name)
    return [
        Sentence(
            "refused",
            "Out of reach",
            f"{enumerate_names(names)} did not serve {stranger}, which used most CPU. "
            f"{'Its' if len(names) == 1 else 'Their'} figures carry no verdict.",
        )
        for stranger, names in groups.items()
    ]


def _reach_unknown(document: Document) -> list[Sentence]:
    unknown = _of_unknown_reach(document)
    said = dict.fromkeys(_nobody_knows(_as_unknown_as(name, unknown), unknown) for name in unknown)
    return [Sentence("refused", "Reach unknown", text) for text in said]


# what the heaps' own accounts show


def _findings(document: Document) -> list[Sentence]:
    results = [one for one in document["results"] if one.get("heap")]
    accounts = {one["spec"]: one["heap"] for one in results}
    collected = {one["spec"] for one in results if one.get("options", {}).get("free") == "ignore"}
    finders: list[Callable[[Mapping[str, Any]], list[Sentence]]] = [_fragmented, _rounded_up]
    freed = {spec: heap for spec, heap in accounts.items() if spec not in collected}
    garbage = {spec: heap for spec, heap in accounts.items() if spec in collected}
    others = [sentence for find in finders for sentence in find(freed)]
    # What a server holds when it is stopped is its data.
    held = [] if document.get("server") else _never_freed(accounts, document.get("sites"))
    return [*held, *others, *_garbage(garbage), *own_memory(document)]


def own_memory(document: Document) -> list[Sentence]:
    """What the program maps without malloc, which no allocator changes."""
    if served.are_builds(document["results"]):
        return []
    row = _main_row(document, str(document["baseline"]))
    share = served.malloc_share(document["results"], row["command"]) if row else None
    own = served.own_bytes(document["results"], row["command"]) if row else 0
    if row is None or share is None or share >= NOTED_SHARE or own < NOTICEABLE_BYTES:
        return []
    text = (
        f"malloc was asked for {_part(share)} of {row['command']}'s memory; the rest is mapped by "
        "the program itself, and is the same under every allocator."
    )
    return [Sentence("note", "Memory of its own", text)]


def _never_freed(accounts: Mapping[str, Any], sites: Mapping[str, Any] | None) -> list[Sentence]:
    """The program's own doing, so any one account tells; the most cautious is believed."""
    known = [
        (heap["live"]["requested_bytes"], heap["live"]["blocks"], heap["requested_peak_bytes"])
        for heap in accounts.values()
        if heap.get("live") and heap["live"].get("requested_bytes") is not None
    ]
    if not known:
        return []
    live, blocks, peak = min(known)
    if live < NOTICEABLE_BYTES or live < LEAK_SHARE * (peak or 0):
        return []
    text = (
        f"{format_bytes(live)} were never freed: {blocks:,} blocks were still held when the "
        f"program ended, of {format_bytes(peak)} at most.{_allocated_at(sites)} "
        "What a program needs to its end it may leave so; in one that runs for long it is a "
        "leak, which no allocator mends."
    )
    return [Sentence("finding", "Never freed", text)]


def _allocated_at(sites: Mapping[str, Any] | None) -> str:
    """The places to which most of what was never freed belongs."""
    if not sites or not sites["exit_bytes"]:
        return ""
    named = [
        f"{100 * row['bytes'] / sites['exit_bytes']:.0f}% are allocated at {row['place']}"
        + (f", called by {row['called_by']}" if row["called_by"] else "")
        for row in sites["exit"][:3]
        if row["bytes"] >= LEAK_SHARE * sites["exit_bytes"]
    ]
    return f" Of these, {enumerate_names(named)}." if named else ""


MAPPED, RESIDENT = "mapped_peak_bytes", "resident_peak_bytes"


def _excess(heap: Mapping[str, Any], held: str) -> float:
    """What the heap held at most beyond what was asked for. held: MAPPED or RESIDENT."""
    return float((heap.get(held) or 0) - (heap["requested_peak_bytes"] or 0))


def _is_rounding(heap: Mapping[str, Any]) -> bool:
    """Rounding is the better half of what the heap holds beyond what was asked for."""
    return bool(heap["waste"]) and heap["waste"]["rounding"] > _excess(heap, RESIDENT) / 2


def _frees_much(heap: Mapping[str, Any]) -> bool:
    """So that what was freed could have served again. A realloc may move its block."""
    calls = heap.get("calls") or {}
    moves = calls.get("realloc", 0)
    blocks = moves + sum(calls.get(name, 0) for name in ("malloc", "calloc", "aligned"))
    frees = moves + calls.get("free", 0)
    return bool(frees >= max(MANY_FREES, FREED_SHARE * blocks))


def _is_fragmented(heap: Mapping[str, Any]) -> bool:
    """In memory that the machine has to find: addresses that were never touched cost nothing."""
    asked = heap["requested_peak_bytes"]
    return bool(
        heap["fragmentation"] is not None
        and (heap.get(RESIDENT) or 0) >= FRAGMENTED * asked
        and _excess(heap, RESIDENT) >= PIECES_BYTES
        and _frees_much(heap)
        and not _is_rounding(heap)
    )


def _fragmented(accounts: Mapping[str, Any]) -> list[Sentence]:
    fragmented = {name: heap for name, heap in accounts.items() if _is_fragmented(heap)}
    if not fragmented:
        return []
    grown = [
        f"{format_bytes(heap[RESIDENT])} of memory under {name}, "
        f"{heap[RESIDENT] / heap['requested_peak_bytes']:.1f} times as much{_made_of(heap)}"
        for name, heap in fragmented.items()
    ]
    asked = min(heap["requested_peak_bytes"] for heap in fragmented.values())
    least_bad = min(fragmented, key=lambda name: _excess(fragmented[name], RESIDENT))
    text = (
        f"the program asked for {format_bytes(asked)} at most, but the heap held "
        f"{enumerate_names(grown)}. What was freed could not serve what was asked for next."
        f"{_better_heap(least_bad, accounts, RESIDENT)}"
    )
    return [Sentence("finding", "Fragmentation", text)]


def _garbage(accounts: Mapping[str, Any]) -> list[Sentence]:
    """Where frees are ignored, what lies between is what no collection has found yet."""
    return [
        Sentence(
            "finding",
            "Garbage",
            f"under {name} the heap grew to {format_bytes(heap['mapped_peak_bytes'])}, "
            f"{heap['fragmentation']:.1f} times what the program held at most: what it freed "
            f"waits for a collection, of which there were {heap['collector']['collections']:,}.",
        )
        for name, heap in accounts.items()
        if (heap["fragmentation"] or 0) >= FRAGMENTED
        and _excess(heap, MAPPED) >= PIECES_BYTES
        and heap.get("collector")
    ]


def _made_of(heap: Mapping[str, Any]) -> str:
    """The greatest kinds of waste, at the moment for which they are known."""
    waste = heap["waste"] or {}
    known = ((waste[kind] or 0, words) for kind, words in WASTE_WORDS.items() if kind in waste)
    kinds = sorted(known, reverse=True)
    least = _excess(heap, RESIDENT) / 10
    named = [f"{format_bytes(size)} {words}" for size, words in kinds if size > least]
    return f" (when it asked for most: {', '.join(named[:3])})" if named else ""


def _better_heap(name: str, accounts: Mapping[str, Any], held: str) -> str:
    others = {
        other: heap[held] for other, heap in accounts.items() if other != name and heap.get(held)
    }
    leanest = min(others, key=lambda other: float(others[other]), default=None)
    if leanest is None or others[leanest] > 0.8 * accounts[name][held]:
        return ""
    return f" {leanest} did with {format_bytes(others[leanest])}."


def _rounded_up(accounts: Mapping[str, Any]) -> list[Sentence]:
    sentences = []
    for name, heap in accounts.items():
        waste, peak = heap["waste"], heap.get("at_peak") or {}
        mapped = peak.get("mapped_bytes")
        if not waste or not mapped or waste["rounding"] < NOTICEABLE_BYTES:
            continue
        share = waste["rounding"] / mapped
        if share >= ROUNDING_SHARE:
            text = (
                f"{name} rounds sizes up. When the program asked for most, "
                f"{format_bytes(waste['rounding'])} of the heap's {format_bytes(mapped)} "
                f"({100 * share:.0f}%) were slack inside blocks, for which nobody had asked."
                f"{_better_heap(name, accounts, MAPPED)}"
            )
            sentences.append(Sentence("finding", "Rounding", text))
    return sentences


# how far the figures reach


def load_limits(document: Document, when: str = "the rounds ran") -> list[Sentence]:
    """What others did to the figures. A document of before does not say."""
    others = document.get("others_cpus")
    if "others_cpus" not in document or not measured(document):
        return []
    if others is None:
        text = (
            f"how much other programs used the processors while {when} is not known, for "
            "/proc/stat cannot be read. On a loaded machine intervals are wide, and wall times are "
            "partly others'."
        )
        return [Sentence("note", "Load unknown", text)]
    if others < LOADED_CPUS:
        return []
    rounds = max(JUDGED_ROUNDS, 2 * document["rounds"])
    remedies = ["--duet"] if may_be_duet(document) else []
    if not document.get("until"):
        remedies += [f"--rounds {rounds}"]
        remedies += [] if is_of_suite(document) else ["--until 2%"]
    more = f", or try {', '.join(remedies)}" if remedies else ""
    wall = "" if is_duet(document) else " and wall times theirs"
    text = (
        f"other programs used {others:.1f} of {document['machine']['cpus']} processors while "
        f"{when}, which makes intervals wide{wall}. Measure on a quiet machine{more}."
    )
    return [Sentence("note", "Loaded", text)]


def _limits(document: Document) -> list[Sentence]:
    sentences = []
    if document["incomplete"] and measured(document):
        text = f"{document['incomplete']}; the figures are of the rounds before that."
        sentences.append(Sentence("note", "Incomplete", text))
    sentences += load_limits(document)
    until = document.get("until")
    if until is not None and not until["reached"]:
        text = (
            f"after {document['rounds']} rounds an interval of CPU is still wider than "
            f"{percent(until['half_width'])} on a side."
        )
        sentences.append(Sentence("note", "Still wide", text))
    cpu = [result["cpu_seconds"]["median"] for result in measured(document)]
    if cpu and max(cpu) < SHORT_RUN_SECONDS and document.get("server"):
        text = (
            f"under the load the server takes {1000 * max(cpu):.0f} ms of CPU, too little to tell "
            "allocators apart; load it longer."
        )
        sentences.append(Sentence("note", "Short", text))
    elif cpu and max(cpu) < SHORT_RUN_SECONDS:
        text = (
            f"a run takes at most {1000 * max(cpu):.0f} ms of CPU, much of which may be the "
            "program's start; give it more to do."
        )
        sentences.append(Sentence("note", "Short", text))
    return sentences
