# SPDX-License-Identifier: MIT
"""Misses by line of source, from those by instruction.

A reference's instruction is looked up where its file was mapped; what was inlined counts for the
innermost function. An instruction without debugging information counts for its function, or for
its place in the file.
"""

from collections import Counter
from operator import itemgetter
from typing import Any

from ...system.errors import UserError
from ...system.symbols import Place, Symbols
from .simulate import Document

MOST_LINES = 15
WINDOW_OPTIONS = {"--window": "window", "--window-bytes": "window_bytes"}


def need_shape(options: dict[str, Any]) -> None:
    """Some options tell of what --shape names."""
    for option, key in (("--lines", "instructions"), *WINDOW_OPTIONS.items()):
        if options[key] and not options["shape"]:
            raise UserError(
                f"{option} tells of the caches and TLBs that --shape names: name one", 2
            )


def wants_windows(options: dict[str, Any]) -> bool:
    return any(options[key] for key in WINDOW_OPTIONS.values())


def add_lines(document: Document) -> None:
    """To each shape, where the simulator has told its misses by instruction: what missed most comes
    first."""
    if "files" not in document:
        return
    maps = (f"{one['start']:x}-{one['end']:x} r 0 0 0 {one['path']}" for one in document["files"])
    symbols = Symbols(maps, offsets_known=False)
    for shape in document["shapes"]:
        misses: Counter[int] = Counter()  # an instruction in two superblocks may have two functions
        for one in shape["misses_by_instruction"]:
            misses[one["address"]] += one["misses"]
        found = symbols.find(address + 1 for address in misses)  # it looks a byte before
        lines: Counter[tuple[str, str | None, int | None]] = Counter()
        for address, count in misses.items():
            lines[_line(found[address + 1][0])] += count
        shape["misses_by_line"] = [
            {"function": function, "file": file, "line": line, "misses": count}
            for (function, file, line), count in lines.most_common()
        ]


def _line(place: Place) -> tuple[str, str | None, int | None]:
    return place.name, place.file, place.line


def line_table(shape: Document) -> list[list[str]]:
    table = [["line", "function", "misses", "share"]]
    for one in sorted(shape["misses_by_line"], key=itemgetter("misses"), reverse=True)[:MOST_LINES]:
        where = f"{one['file']}:{one['line']}" if one["file"] else ""
        share = one["misses"] / shape["misses"]
        table.append([where, one["function"], f"{one['misses']:,}", f"{share:.2%}"])
    return table
