# SPDX-License-Identifier: MIT
"""The house's own rules, which no linter knows: which floor may include what, which layer of
the command may import what, how long a function in Python may be, the licence line at the head of
each file, how long a commit's subject may be, and no conflict markers.

    python3 tests/house/house_rules.py [TREE]     a line for each fault; status 1 if there is one
"""

import ast
import re
import subprocess
import sys
from pathlib import Path
from typing import Iterator, Sequence

# Which folders the files of a folder may include from, besides their own: floors, and the rooms of
# a floor in their order. The heaps know nothing of the study wing and it nothing of them, except
# what the one says to the other while a program runs (trace/protocol). Tests and measured programs
# are free.
VM = {"vm", "vm/kernel"}
ALLOC = {
    "alloc",
    "alloc/policies",
    "alloc/layers",
    "alloc/presets",
    "alloc/blocks",
    "alloc/checked",
}
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
    "alloc/checked": VM | {"alloc", "alloc/blocks"},
    "gc/world": VM | {"alloc", "trace/protocol"},
    "gc/mark": VM | {"alloc/blocks", "gc/world"},
    "gc/cycle": VM | {"alloc", "alloc/blocks", "gc/world", "gc/mark"},
    "gc/classic": VM | {"alloc", "gc/world"},
    "shim/configuration": VM | ALLOC | GC,
    "shim/reports": {"vm", "shim/configuration", "trace/protocol"},
    "shim/route": VM | ALLOC | {"shim/configuration", "shim/reports"},
    "shim/observers": VM | {"shim/configuration", "shim/reports", "shim/route", "trace/protocol"},
    "include/allotrope": set(),
    "shim/symbols": {"vm", "include/allotrope"}
    | {"shim/configuration", "shim/route", "shim/observers"},
    "shim/system_calls": {"vm", "shim/route", "shim/symbols"},
    "trace/base": set(),
    "trace/protocol": set(),
    "trace/format": {"trace/base"},
    "trace/references": TRACE,
    "trace/inspect": {"trace/base", "trace/events", "trace/format", "trace/protocol"},
    "trace/events": TRACE,
    "trace/recorder": {"trace/protocol", "trace/format"},
    "analysis/launcher": {"trace/base"},
    "analysis/load": {"trace/base"},
    "analysis/vm": VM | {"trace/base"},
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


# The command's layers in analysis/allotrope, lowest first. A module imports from its own layer and
# from lower ones.
LAYERS = ("system", "statistics", "output", "features", "study", "commands")
# In features a package is a room of its own: which others it may import from, all above it here.
MAY_USE_FEATURES: dict[str, set[str]] = {
    "trace": set(),
    "hidden": {"trace"},
    "events": set(),
    "stats": set(),
    "vm": set(),
    "replay": set(),
    "latency": set(),
    "server": set(),
    "reach": set(),
    "sites": {"reach"},
    "leaks": {"reach", "sites"},
    "lifetimes": {"sites"},
    "compare": {"latency", "reach", "server", "sites"},
    "locality": {"reach", "trace"},
    "suite": {"compare", "reach", "server"},
    "cluster": {"locality", "suite"},
}
# In study a package is a study, a room of its own too: it knows the frame, which is the rest, and
# no other study. The frame knows no study.
STUDIES = {"barriers", "zorn"}


def imported_modules(package: list[str], tree: ast.AST) -> Iterator[tuple[int, list[str]]]:
    """What a module of `package` imports, wherever in it, as the parts of whole names. What
    comes out of a module ends with its own name there."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, name.name.split(".")) for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            start = package[: len(package) - node.level + 1] if node.level else []
            inside = node.module.split(".") if node.module else []
            yield from ((node.lineno, [*start, *inside, name.name]) for name in node.names)


def room_of(parts: Sequence[str]) -> tuple[str, ...]:
    """The layer, in features also the package and in study the study, of what has this name below
    allotrope."""
    is_study = parts[:1] == ["study"] and len(parts) > 1 and parts[1] in STUDIES
    return tuple(parts[:2] if parts[:1] == ["features"] or is_study else parts[:1])


def may_import(room: tuple[str, ...], other: tuple[str, ...]) -> bool:
    if room == other:
        return True
    if not (room and other and room[0] in LAYERS and other[0] in LAYERS):
        return False
    if room[0] == other[0] == "study":
        return other == ("study",)
    if room[0] == other[0]:
        return other[-1] in MAY_USE_FEATURES.get(room[-1], set())
    return LAYERS.index(other[0]) < LAYERS.index(room[0])


def wrong_imports(name: Path, lines: list[str]) -> Iterator[tuple[int, str]]:
    if name.parts[:2] != ("analysis", "allotrope") or name.suffix != ".py":
        return
    package = list(name.parts[1:-1])
    room = room_of(package[1:])
    for number, parts in imported_modules(package, parsed(lines)):
        if parts[0] == "allotrope" and not may_import(room, room_of(parts[1:])):
            yield number, f"{'/'.join(['allotrope', *room])}/ may not import {'.'.join(parts)}"


MOST_LINES = 60  # of a function in Python, from its def to its end


def parsed(lines: Sequence[str]) -> ast.Module:
    """Empty where it is no Python, which unparsable() tells."""
    try:
        return ast.parse("\n".join(lines))
    except SyntaxError:
        return ast.Module(body=[], type_ignores=[])


def unparsable(name: Path, lines: list[str]) -> Iterator[tuple[int, str]]:
    if name.parts[0] != "analysis" or name.suffix != ".py":
        return
    try:
        ast.parse("\n".join(lines))
    except SyntaxError as error:
        yield error.lineno or 1, "cannot be parsed as Python"


def long_functions(name: Path, lines: list[str]) -> Iterator[tuple[int, str]]:
    if name.suffix != ".py":
        return
    for node in ast.walk(parsed(lines)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            if length > MOST_LINES:
                yield node.lineno, f"{node.name}() has {length} lines, more than {MOST_LINES}"


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


def is_built(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(4) == b"\x7fELF"


def faults_of(tree: Path) -> Iterator[str]:
    for path in files_of(tree):
        if is_built(path):
            yield f"{path.relative_to(tree)}: was built; name it in .gitignore"
        try:
            lines = path.read_text().splitlines()
        except UnicodeDecodeError:
            continue  # data
        name = path.relative_to(tree)
        rules = (wrong_includes, wrong_imports, wrong_licence, wrong_name)
        rules += (unparsable, long_functions)
        for rule in (check(name, lines) for check in rules):
            for number, fault in rule:
                yield f"{name}:{number}: {fault}"
        for number, fault in conflict_markers(lines):
            yield f"{name}:{number}: {fault}"


def unlisted_tests(tree: Path) -> Iterator[str]:
    """A test that no automake fragment names is never run."""
    paths = [path.relative_to(tree) for path in files_of(tree)]
    fragments = "\n".join((tree / path).read_text() for path in paths if path.suffix == ".am")
    for path in paths:
        if not fragments or path.parts[0] != "tests" or not path.name.startswith("test_"):
            continue
        name = path.with_suffix("") if path.suffix == ".c" else path
        if not re.search(rf"{re.escape(name.as_posix())}(?![\w.])", fragments):
            yield f"{path}: no automake fragment names this test"


LONGEST_SUBJECT = 72
SUBJECTS_SINCE = "cafba712"  # history is not rewritten


def long_subjects(tree: Path, since: str = SUBJECTS_SINCE) -> Iterator[str]:
    """Nothing where there is no history, as in an archive."""
    asked = ["git", "-C", str(tree), "log", "--format=%h %s", f"{since}..HEAD"]
    log = subprocess.run(asked, capture_output=True, text=True)
    for line in log.stdout.splitlines():
        commit, subject = line.split(" ", 1)
        if len(subject) > LONGEST_SUBJECT:
            told = f"{len(subject)} characters, more than {LONGEST_SUBJECT}"
            yield f"{commit}: the subject has {told}: {subject}"


def main() -> int:
    tree = Path(sys.argv[1] if len(sys.argv) > 1 else ".").resolve()
    faults = [*faults_of(tree), *unlisted_tests(tree), *long_subjects(tree)]
    for fault in faults:
        print(fault)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
