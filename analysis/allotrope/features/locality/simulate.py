# SPDX-License-Identifier: MIT
"""`allotrope simulate`: page faults and cache misses of a recorded run, for every size.

The simulation itself is allotrope-simulate, a C program; here its JSON becomes tables and CSV.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from ...output.units import format_bytes, format_whole_bytes
from ...system.errors import UserError
from ...system.native import Answer, ask
from ...system.places import PLACES

PROGRAM = "allotrope-simulate"
WAYS_IN_TABLE = (1, 2, 4, 8, 16)

Document = dict[str, Any]


def run_simulator(arguments: list[str]) -> tuple[Document, str | None]:
    """Runs allotrope-simulate. Returns its result, and a warning where the trace is damaged and
    the result is of what came before the damage."""
    return result_of(ask(PLACES.simulator, *arguments))


def result_of(answer: Answer) -> tuple[Document, str | None]:
    """As run_simulator(), of a simulator that has ended."""
    if not answer.output:
        raise UserError(answer.message or f"{PROGRAM} failed", answer.status or 1)
    return json.loads(answer.output), answer.message or None


def faults_with(curve: list[dict[str, int]], frames: int) -> int:
    """Faults of a memory of so many frames: of the last point that is not beyond it."""
    return [point["faults"] for point in curve if point["frames"] <= frames][-1]


def faults_at(curve: list[dict[str, int]], sizes: Sequence[int]) -> list[int]:
    """faults_with() for several numbers of frames, in ascending order."""
    found, at = [], 0
    for frames in sizes:
        while at + 1 < len(curve) and curve[at + 1]["frames"] <= frames:
            at += 1
        found.append(curve[at]["faults"])
    return found


def page_rows(document: Document) -> Iterator[list[Any]]:
    yield ["page_size", "class", "frames", "faults", "cold"]
    for page in document["pages"]:
        curves = [("all", page)] + [(part["class"], part) for part in page["by_class"]]
        for name, part in curves:
            for point in part["curve"]:
                yield [page["page_size"], name, point["frames"], point["faults"], point["cold"]]


CACHE_COLUMNS = ["block", "sets", "ways", "bytes", "misses", "write_backs"]
CACHE_COLUMNS += ["cold", "capacity", "conflict"]


def cache_rows(document: Document) -> Iterator[list[Any]]:
    """Of caches or TLBs; a fully associative TLB has one set."""
    yield CACHE_COLUMNS
    for result in document["results"] + document.get("shapes", []):
        yield [result[column] for column in CACHE_COLUMNS]
    for whole in document.get("fully_associative", []):
        for point in whole["curve"]:
            ways, misses = point["blocks"], point["misses"]
            place = [whole["block"], 1, ways, ways * whole["block"]]
            yield [*place, misses, None, whole["cold"], misses - whole["cold"], 0]


def misses_with(document: Document, block: int, blocks: int) -> int:
    """Misses of a fully associative TLB of so many pages."""
    whole = next(one for one in document["fully_associative"] if one["block"] == block)
    return next(
        int(point["misses"]) for point in reversed(whole["curve"]) if point["blocks"] <= blocks
    )


def touches_of(document: Document, block: int) -> int:
    return next(int(one["touches"]) for one in document["blocks"] if one["block"] == block)


def associativities(document: Document, block: int) -> list[int]:
    """1, and the largest that was simulated."""
    return sorted({1, max(one["ways"] for one in document["results"] if one["block"] == block)})


def tlb_entries(document: Document, block: int) -> list[int]:
    """The powers of two up to the size from which on a TLB misses first touches alone."""
    whole = next(one for one in document["fully_associative"] if one["block"] == block)
    return [1 << power for power in range(whole["curve"][-1]["blocks"].bit_length() + 1)]


def describe_sample(part: Document) -> str:
    """One line about the sample of a size of page or block, empty where the result is exact."""
    sample = part["sample"]
    if sample is None or sample["of"] == 1:
        return ""
    what = f"one page in {sample['of']} was followed"
    if "slices" in sample:
        what = f"{sample['slices']} of {sample['of']} slices were simulated"
    error = sample["error"]
    if error is None:
        return f"{what}; its error is not known: sampling began later than the exact comparison"
    return (
        f"{what}; error {error['mean']:.4%} of touches in the mean, {error['largest']:.4%} at most,"
        f" over the first {error['references']:,} references"
    )


def page_table(page: Document, references: int) -> list[list[str]]:
    table = [["frames", "memory", "faults", "replacements", "per million references"]]
    frames, curve = 1, page["curve"]
    while True:
        faults = faults_with(curve, frames)
        memory = format_whole_bytes(frames * page["page_size"])
        counts = [f"{faults:,}", f"{faults - page['cold']:,}", f"{1e6 * faults / references:,.1f}"]
        table.append([f"{frames:,}", memory, *counts])
        if faults == page["cold"]:
            return table
        frames *= 2


def cache_table(block: Document, results: list[Document]) -> list[list[str]]:
    """Misses per touch: a row for each size, a column for each associativity."""
    of_block = [result for result in results if result["block"] == block["block"]]
    ways = [way for way in WAYS_IN_TABLE if any(result["ways"] == way for result in of_block)]
    rates = {(r["bytes"], r["ways"]): r["misses"] / block["touches"] for r in of_block}
    table = [["cache", *(kind_of(way) for way in ways)]]
    for size in sorted({result["bytes"] for result in of_block if result["ways"] == 1}):
        cells = [rates.get((size, way)) for way in ways]
        rates_shown = ("" if rate is None else f"{rate:.4%}" for rate in cells)
        table.append([format_whole_bytes(size), *rates_shown])
    return table


def every_result_of(document: Document, block: int, ways: int) -> list[Document]:
    return [one for one in document["results"] if (one["block"], one["ways"]) == (block, ways)]


def results_of(document: Document, block: int, ways: int) -> list[Document]:
    """Of one block or page size and associativity, by size; of TLBs up to the size from which on
    one that is fully associative misses first touches alone."""
    found = every_result_of(document, block, ways)
    if "fully_associative" not in document:
        return found
    most = max(tlb_entries(document, block)[-1], 4 * found[0]["sets"] * ways)
    return [one for one in found if one["sets"] * ways <= most]


def tlb_table(document: Document, block: Document) -> list[list[str]]:
    """Misses per touch: a row for each number of entries, a column for each associativity."""
    of_block = [one for one in document["results"] if one["block"] == block["block"]]
    ways = [way for way in WAYS_IN_TABLE if any(one["ways"] == way for one in of_block)]
    rates = {(one["sets"] * one["ways"], one["ways"]): one["misses"] for one in of_block}
    table = [["entries", "fully associative", *(kind_of(way) for way in ways)]]
    for entries in tlb_entries(document, block["block"]):
        cells: list[int | None] = [misses_with(document, block["block"], entries)]
        cells += [rates.get((entries, way)) for way in ways]
        shown = ("" if cell is None else f"{cell / block['touches']:.4%}" for cell in cells)
        table.append([f"{entries:,}", *shown])
    return table


def kind_of(ways: int) -> str:
    return "direct-mapped" if ways == 1 else f"{ways} ways"


def shape_table(shapes: list[Document], touches: dict[int, int]) -> list[list[str]]:
    table = [["shape", "size", "misses", "rate", "cold", "capacity", "conflict", "write-backs"]]
    for shape in shapes:
        count = touches.get(shape["block"])
        causes = [shape[cause] for cause in ("cold", "capacity", "conflict")]
        table.append(
            [
                shape["shape"],
                format_whole_bytes(shape["bytes"]),
                f"{shape['misses']:,}",
                "" if not count else f"{shape['misses'] / count:.4%}",
                *("" if cause is None else f"{cause:,}" for cause in causes),
                f"{shape['write_backs']:,}",
            ]
        )
    return table


MORE_OF_SHAPES = "By set, region and function, and every window of time: with --html or --json."


def window_table(shapes: Iterable[tuple[str, Document, Document]]) -> list[list[str]]:
    """A summary for each shape: its name, the document that it stands in, and itself."""
    table = [["shape", "window", "windows", "median", "most", "most from"]]
    for name, document, shape in shapes:
        windows, counts = document["windows"], shape["misses_by_window"]
        seen = [n for n, references in zip(counts, windows["references"]) if references]
        start = counts.index(max(counts)) * windows["width"]
        if windows["clock"] == "references":
            width, start_text = f"{windows['width']:,} references", f"reference {start:,}"
        else:
            width = f"{format_whole_bytes(windows['width'])} allocated"
            start_text = f"{format_bytes(start)} allocated"
        figures = [f"{len(seen):,}", f"{median(seen):,.0f}", f"{max(counts):,}"]
        table.append([name, width, *figures, start_text])
    return table


THREADED = (
    "The program is threaded: one cache, one memory, the threads interleaved as Valgrind did, "
    "no coherence."
)


RANGE = (
    "a range of references is not the same work under every allocator, since each makes "
    "references of its own: these counts do not say which is better."
)


def is_range(document: Document) -> bool:
    return "references" in (document["filter"] or {})


def filter_text(document: Document) -> str:
    """What chose the references, empty where all were taken."""
    chosen = document["filter"] or {}
    first, last = chosen.get("references", (0, None))
    parts = [
        f"{name} {', '.join(str(value) for value in values)}"
        for name, values in chosen.items()
        if name != "references"
    ]
    if "references" in chosen:
        parts.append(f"number {first:,} to {'the last' if last is None else f'{last - 1:,}'}")
    return "; ".join(parts)


def closing_line(document: Document, text: str) -> str:
    """The last line below the tables, which also labels threaded programs."""
    only = filter_text(document)
    line = f"{document['references']:,} references{f' ({only})' if only else ''}; {text}"
    return f"{line}\n{THREADED}" if document["threaded"] else line


def need_references(document: Document, trace: str, warning: str | None) -> None:
    if document["references"] == 0:
        raise UserError(warning or f"{trace} holds no references")


def option_words(options: Mapping[str, Any]) -> list[str]:
    """As words of the simulator's command line; options that were not given are left to it. A tuple
    is an option that may be repeated."""
    words = []
    for name, value in options.items():
        option = f"--{name.replace('_', '-')}"
        if isinstance(value, bool):
            words += [option] * value
        elif value is not None:
            values = value if isinstance(value, tuple) else (value,)
            words += [f"{option}={one}" for one in values]
    return words


def simulate_words(word: str, trace: str, options: Mapping[str, Any]) -> list[str]:
    """The simulator's command line."""
    # A path that begins with a dash is a path all the same.
    return [word, *option_words(options), trace if trace == "-" else str(Path(trace).absolute())]
