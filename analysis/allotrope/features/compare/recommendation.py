# SPDX-License-Identifier: MIT
"""What follows from a comparison's figures, in words, and what does not.

A pure function from the JSON (docs/compare-format.md) to sentences. Of two allocators the interval
of their ratios, round by round, decides: better, worse, the same within a threshold, or not
decided (statistics/verdicts.py). Memory must differ by 1 MiB as well to count in the choice; where
it does not, or perhaps not, that is said. *Fastest* are all that nobody is shown to be faster than,
*leanest* likewise, so what chance may have ordered is not ordered here. Who belongs to both is the
choice; when nobody does there is a trade-off with a price, and when the usual allocator belongs to
both there is nothing to gain, or it is not decided. A trade-off names nobody whom one of the same
side beats in the other quantity.

What the figures show beside that is in findings.py.
"""

from dataclasses import dataclass
from typing import Protocol, Sequence

from ...output.sentences import LITTLE, Sentence, enumerate_names, too_few_rounds
from ...output.units import format_bytes, format_figure, format_percent, format_ratio
from ...statistics.intervals import (
    JUDGED_CONFIDENCE,
    JUDGED_ROUNDS,
    Estimate,
    Summary,
    least_rounds,
    summarize,
)
from ...statistics.verdicts import (
    THRESHOLD,
    Outcome,
    Weight,
    is_told,
    judge,
    may_be,
    noticeable_share,
    weigh,
)
from ..reach import served
from .findings import (
    Document,
    as_unknown_as,
    cpu_quantity,
    findings,
    may_be_duet,
    measured,
    memory_quantity,
    nobody_knows,
    results_of_unknown_reach,
    served_little,
    unreached_results,
)
from .judged import few_rounds, remark


@dataclass(frozen=True)
class Ratio(Estimate):
    """One allocator over another in one quantity."""

    noticeable: float = 0.0  # which share a difference must have to count; of memory alone
    threshold: float = THRESHOLD

    def outcome(self) -> Outcome:
        """The verdict on the ratio, whatever the amounts."""
        return judge(self, self.threshold)

    def counted(self) -> Outcome:
        """What a choice goes by."""
        return judge(self, self.threshold, noticeable=self.noticeable)

    def is_less(self) -> bool:
        return self.counted() is Outcome.BETTER

    def is_more(self) -> bool:
        return self.counted() is Outcome.WORSE

    def is_told(self) -> bool:
        return is_told(self.counted())

    def is_open(self) -> bool:
        return self.counted() is Outcome.NOT_DECIDED

    def may_be(self, outcome: Outcome) -> bool:
        return may_be(outcome, self, self.threshold, self.noticeable)

    def weight(self) -> Weight:
        return weigh(self, self.noticeable)

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
    rest += findings(document)
    return [headline, *(sentence for sentence in rest if sentence.text != headline.text)]


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
        noticeable = noticeable_share(others["median"]) if quantity == "memory" else 0.0
        return Ratio(ratio.median, ratio.low, ratio.high, noticeable, self.threshold)

    def amount(self, allocator: str, quantity: str) -> str:
        summary = self.results[allocator][self.keys[quantity]]
        if summary is None:
            return ""
        if quantity == "memory":
            return format_bytes(summary["median"])
        if quantity == "CPU" and self.keys[quantity] != "cpu_seconds":
            return f"{format_figure(1e6 * summary['median'], 3)} µs a request"
        return f"{format_figure(summary['median'], 3)} s"


def best(evidence: Evidence, quantity: str, among: Sequence[str] | None = None) -> list[str]:
    """Those whom nobody is told to be better than, in the evidence's order. among: None means all
    candidates."""

    def beats(one: str, other: str) -> bool:
        ratio = evidence.ratio(one, other, quantity)
        return ratio is not None and ratio.is_less()

    names = evidence.candidates if among is None else among
    return [name for name in names if not any(beats(other, name) for other in names)]


def undominated(evidence: Evidence, equals: Sequence[str], quantity: str) -> Sequence[str]:
    """Of equals in one quantity, those whom none of them is told to be better than in the other.
    All of them where means of memory go round in a circle."""
    return best(evidence, quantity, equals) or equals


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
        return f"the same {quantity} within {format_percent(ratio.threshold)} ({ratio})"
    if is_told(outcome) or ratio.weight() is Weight.LITTLE:
        return f"{in_words(ratio)} {quantity}{remark(ratio.weight())} ({ratio})"
    return f"{quantity} not decided at {format_percent(ratio.threshold)} ({ratio})"


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
    if undecided is not None and served_little(document, evidence.baseline):
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
        return _undecided(output_varies("the command's"))
    unknown = results_of_unknown_reach(document)
    if evidence.baseline in unknown:
        return _undecided(nobody_knows(as_unknown_as(evidence.baseline, unknown), unknown))
    unreached = unreached_results(document)
    if evidence.baseline in unreached:
        return _undecided(_without_baseline(document, len(evidence.candidates)))
    if evidence.baseline not in evidence.candidates:
        return _undecided(f"the baseline {evidence.baseline} has no figures to compare with.")
    if len(evidence.candidates) == 1:
        return _undecided(_alone(document, evidence.baseline))
    few = few_rounds(*(evidence.results[one]["cpu_seconds"] for one in evidence.candidates))
    if few is not None:
        needed = f"it takes {least_rounds(evidence.confidence)}, better {JUDGED_ROUNDS}."
        return _undecided(f"{too_few_rounds(few)}; {needed}")
    little = served_little(document, evidence.baseline)
    return _undecided(little) if little else None


def output_varies(whose: str, check: str = "--check", no_check: str = "--check none") -> str:
    """Why there is no verdict, and the remedy. check, no_check: how one says how output is judged,
    and that it is not."""
    return (
        f"{whose} output differs from run to run under glibc itself, so nobody can say that the "
        f"runs did the same work. If they did (dates, addresses), say so with {no_check} or give "
        f"{check} a command that judges the output."
    )


def _alone(document: Document, baseline: str) -> str:
    """Why there is nobody to compare the baseline with."""
    others = [str(one["spec"]) for one in document["results"] if one["spec"] != baseline]
    if not others:
        return f"only {baseline} was measured."
    unknown = results_of_unknown_reach(document)
    if all(name in unknown for name in others):
        return nobody_knows(others, unknown)
    unreached = unreached_results(document)
    if all(name in unreached for name in others):
        return f"{enumerate_names(others)} did not serve {served.stranger(unreached[others[0]])}."
    does = "does" if len(others) == 1 else "do"
    return f"{enumerate_names(others)} {does} not go with this program, and {baseline} is left."


def _without_baseline(document: Document, left: int) -> str:
    """Why there is no verdict when the baseline did not serve the program, and what to do."""
    result = unreached_results(document)[str(document["baseline"])]
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
    pair = _opposites(
        evidence,
        undominated(evidence, fastest, "memory"),
        undominated(evidence, leanest, "CPU"),
    )
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
    within = format_percent(evidence.threshold)
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
    return any(one is not None and one.outcome() is not one.counted() for one in ratios)


def _is_leaner_by_little(evidence: Evidence, name: str) -> bool:
    """Whether somebody is leaner than `name`, by too little to count or perhaps so."""
    ratios = [evidence.ratio(one, name, "memory") for one in evidence.candidates if one != name]
    return any(
        one is not None and one.outcome() is Outcome.BETTER and not one.is_less() for one in ratios
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
    open_ones = [(name, ratio) for name, ratio in pairs if ratio and ratio.is_open()]
    found = [f"{name} {ratio}" for name, ratio in open_ones]
    within = format_percent(evidence.threshold)
    if any(is_told(ratio.outcome()) for _, ratio in open_ones):
        within += f" and {LITTLE}"
    return f"{quantity} is not decided at {within} for {enumerate_names(found)}" if found else ""


def _is_told_apart(evidence: Evidence, name: str) -> bool:
    """From the baseline, in CPU or in memory."""
    return any(ratio.is_told() for ratio in _ratios(evidence, name))


def _without_a_winner(evidence: Evidence) -> list[Sentence]:
    """Somebody beats the baseline in one quantity, but who is best in both is not told from it."""
    base = evidence.baseline
    chosen = _without_price(evidence)
    if chosen is not None:
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
    chosen = _without_price(evidence)
    if chosen is not None and chosen not in (fast, lean):
        text = f"{chosen} against {base}: {_both(evidence, chosen, base)}."
        sentences.append(Sentence("choice", "Without a price", text))
    return sentences


def _without_price(evidence: Evidence) -> str | None:
    """Of those that cost nothing, who has least CPU and is beaten by no equal in memory."""
    free = [name for name in evidence.candidates if _costs_nothing(evidence, name)]
    equals = undominated(evidence, best(evidence, "CPU", free), "memory")
    return least(evidence, equals, "CPU") if free else None


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
