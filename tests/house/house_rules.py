# SPDX-License-Identifier: MIT
"""The house's own rules, which no linter knows: which floor may include what, the licence line at
the head of each file, and no conflict markers.

    python3 tests/house/house_rules.py [TREE]        a line for each fault; exit status 1 if there is one
"""

import re
import subprocess
import sys
from pathlib import Path
from typing import Iterator

# Which folders the files of a folder may include from, besides their own: floors, and the rooms of a
# floor in their order. The heaps know nothing of the study wing and it nothing of them, except what
# the one says to the other while a program runs (trace/protocol). Tests and measured programs are
# free.
VM = {"vm", "vm/kernel"}
ALLOC = {"alloc", "alloc/policies", "alloc/layers", "alloc/presets", "alloc/blocks"}
GC = {"gc/world", "gc/mark", "gc/cycle", "gc/classic"}
TRACE = {"trace/base", "trace/protocol", "trace/format"}
MAY_INCLUDE: dict[str, set[str]] = {
    "vm": set(),
    "vm/kernel": {"vm"},
    "alloc": {"vm"},
    "alloc/policies": {"vm", "alloc"},
    "alloc/layers": {"vm", "alloc"},
    "alloc/presets": {"vm", "alloc", "alloc/policies", "alloc/layers"},
    "alloc/blocks": {"vm", "alloc"},
    "gc/world": VM | {"trace/protocol"},
    "gc/mark": VM | {"alloc/blocks", "gc/world"},
    "gc/cycle": VM | {"alloc", "alloc/blocks", "gc/world", "gc/mark"},
    "gc/classic": VM | {"alloc", "gc/world"},
    "shim/configuration": VM | ALLOC | GC,
    "shim/reports": {"vm", "shim/configuration", "trace/protocol"},
    "shim/route": VM | ALLOC | {"shim/configuration", "shim/reports"},
    "shim/observers": {"vm", "shim/configuration", "shim/reports", "shim/route", "trace/protocol"},
    "shim/symbols": {"vm", "shim/route", "shim/observers"},
    "shim/system_calls": {"vm", "shim/route", "shim/symbols"},
    "trace/base": set(),
    "trace/protocol": set(),
    "trace/format": {"trace/base"},
    "trace/references": TRACE,
    "trace/inspect": {"trace/base", "trace/format"},
    "trace/events": TRACE,
    "trace/recorder": {"trace/protocol", "trace/format"},
    "analysis/launcher": {"trace/base"},
    "analysis/replay": {"trace/base", "trace/events"},
    "analysis/simulate/simulators": set(),
    "analysis/simulate": {"analysis/simulate/simulators", "trace/references"} | TRACE,
}
FLOORS = {folder.split("/")[0] for folder in MAY_INCLUDE}
# What configure makes, and what Valgrind's headers include each other as.
OTHER_HEADERS = re.compile(r"config\.h|(pub_tool|libvex)_?\w*\.h")

SOURCES = {".c", ".h", ".cc", ".py", ".sh", ".am", ".ac", ".m4", ".in", ".toml"}
LICENCES = {"MIT"}
RECORDER_LICENCES = {"GPL-2.0-or-later"}  # it is linked with Valgrind
HEAD_LINES = 3

INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"')
LICENCE = re.compile(r"SPDX-License-Identifier: (\S+)")
CONFLICT = re.compile(r"^(<{7}|={7}|>{7})( |$)")


def files_of(tree: Path) -> list[Path]:
    """What git would keep of a tree, whether committed yet or not."""
    names = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=tree,
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    paths = (tree / name for name in names.split("\0") if name)
    return sorted({path for path in paths if path.is_file()})


def wrong_includes(name: Path, lines: list[str]) -> Iterator[tuple[int, str]]:
    folder = name.parent.as_posix()
    if name.parts[0] not in FLOORS or name.suffix not in {".c", ".h"}:
        return
    if folder not in MAY_INCLUDE:
        yield 1, f"{folder}/ is no room of the house (MAY_INCLUDE in {Path(__file__).name})"
        return
    for number, line in enumerate(lines, 1):
        match = INCLUDE.match(line)
        if not match or OTHER_HEADERS.fullmatch(match[1]):
            continue
        other = Path(match[1]).parent.as_posix()
        if other not in MAY_INCLUDE:
            yield number, f'"{match[1]}" is not a path from the top of the tree'
        elif other != folder and other not in MAY_INCLUDE[folder]:
            yield number, f'{folder}/ may not include "{match[1]}"'


HEAD_NAME = re.compile(r"^(?:/\* | \* )([\w.]+\.[ch]c?): ")


def wrong_name(name: Path, lines: list[str]) -> Iterator[tuple[int, str]]:
    """A source file opens with its name, as long as it says one."""
    for number, line in enumerate(lines[: HEAD_LINES + 1], 1):
        match = HEAD_NAME.match(line)
        if match and name.suffix in {".c", ".h", ".cc"} and match[1] != name.name:
            yield number, f"its head says {match[1]}"


def wrong_licence(name: Path, lines: list[str]) -> Iterator[tuple[int, str]]:
    is_script = bool(lines) and lines[0].startswith("#!")
    if not lines or not (is_script or name.suffix in SOURCES):
        return
    allowed = RECORDER_LICENCES if name.parts[:2] == ("trace", "recorder") else LICENCES
    matches = [LICENCE.search(line) for line in lines[:HEAD_LINES]]
    found = {match[1] for match in matches if match}
    if not found & allowed:
        yield 1, f"no line 'SPDX-License-Identifier: {' or '.join(sorted(allowed))}' at its head"


def conflict_markers(lines: list[str]) -> Iterator[tuple[int, str]]:
    numbers = [number for number, line in enumerate(lines, 1) if CONFLICT.match(line)]
    # A row of seven equals signs alone may underline a title.
    if any(lines[number - 1][0] != "=" for number in numbers):
        yield from ((number, "conflict marker") for number in numbers)


def faults_of(tree: Path) -> Iterator[str]:
    for path in files_of(tree):
        try:
            lines = path.read_text().splitlines()
        except UnicodeDecodeError:
            continue  # data
        name = path.relative_to(tree)
        rules = (wrong_includes, wrong_licence, wrong_name)
        for rule in (each(name, lines) for each in rules):
            for number, fault in rule:
                yield f"{name}:{number}: {fault}"
        for number, fault in conflict_markers(lines):
            yield f"{name}:{number}: {fault}"


def main() -> int:
    tree = Path(sys.argv[1] if len(sys.argv) > 1 else ".").resolve()
    faults = list(faults_of(tree))
    for fault in faults:
        print(fault)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
