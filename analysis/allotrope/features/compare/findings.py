# SPDX-License-Identifier: MIT
"""What a comparison's figures show beside their order, in words.

Pure functions from the JSON (docs/compare-format.md) to sentences: whom the allocators really
served, who is not for this program, what the heaps' own accounts say (memory that was never freed,
heaps far larger than what was asked for, sizes rounded up), and how far the figures reach. Which
allocator to take is said in recommendation.py.
"""

from typing import Any, Callable, Mapping, Sequence

from ...output.sentences import LEAK_SHARE, Sentence, counted, enumerate_names, of_whole_rounds
from ...output.units import format_bytes, format_percent
from ...statistics.intervals import JUDGED_ROUNDS
from ...statistics.verdicts import NOTICEABLE_BYTES
from ..reach import served
from .comparison import BUILD, LEAST_LOAD_SECONDS

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
LOADED_CPUS = 0.25  # that others use; from there on figures are theirs, too
WASTE_WORDS = {
    "external": "free room between blocks",
    "cached": "free blocks kept for one size or thread",
    "rounding": "sizes rounded up",
    "header": "headers",
    "alignment": "alignment",
}

Document = Mapping[str, Any]


def findings(document: Document) -> list[Sentence]:
    """All that is found beside the choice."""
    return [*_refused(document), *_heaps(document), *_limits(document)]


# which figures count


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


# whom the allocators served


def unreached_results(document: Document) -> dict[str, dict[str, Any]]:
    """The results whose figures are another allocator's, by spec."""
    results = document["results"]
    return {str(one["spec"]): one for one in results if one["status"] == "out-of-reach"}


def results_of_unknown_reach(document: Document) -> dict[str, dict[str, Any]]:
    """The results whose figures may be another allocator's, by spec."""
    results = document["results"]
    return {str(one["spec"]): one for one in results if one["status"] == "reach-unknown"}


def as_unknown_as(spec: str, unknown: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Those of which nobody knows for the same reason."""
    why = served.why_unknown(unknown[spec])
    return [name for name, one in unknown.items() if served.why_unknown(one) == why]


def nobody_knows(names: Sequence[str], unknown: Mapping[str, Mapping[str, Any]]) -> str:
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


def served_little(document: Document, spec: str) -> str:
    """That malloc does next to nothing for the program, so that no allocator can matter to it;
    empty where it does something, where that is not known, and where builds differ."""
    row = _main_row(document, spec)
    if row is None or row["allocations"] is None or served.are_builds(document["results"]):
        return ""
    share = served.malloc_share(document["results"], row["command"])
    count, most = row["allocations"], max(
        LITTLE_CALLED, LITTLE_CALLED_A_SECOND * (row["cpu_seconds"] or 0)
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
    for name, result in unreached_results(document).items():
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
    unknown = results_of_unknown_reach(document)
    said = dict.fromkeys(nobody_knows(as_unknown_as(name, unknown), unknown) for name in unknown)
    return [Sentence("refused", "Reach unknown", text) for text in said]


# what the heaps' own accounts show


def _heaps(document: Document) -> list[Sentence]:
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
        f"{format_bytes(live)} were never freed: {counted(blocks, 'block')} still held when the "
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
            f"how much other programs used the processors while {when} is not known: that takes "
            f"/proc/stat, and {LEAST_LOAD_SECONDS:g} s at least. On a loaded machine intervals are "
            "wide, and wall times are partly others'."
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
        sentences.append(of_whole_rounds(document["incomplete"]))
    sentences += load_limits(document)
    until = document.get("until")
    if until is not None and not until["reached"]:
        text = (
            f"after {document['rounds']} rounds an interval of CPU is still wider than "
            f"{format_percent(until['half_width'])} on a side."
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
