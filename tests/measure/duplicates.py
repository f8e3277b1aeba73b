# SPDX-License-Identifier: MIT
"""Where product code stands twice: stretches of six lines of code and more that are equal but for
comments and white space.

    python3 tests/measure/duplicates.py [TREE]

docs/architecture.md, "What stands twice", says why each of them stays.
"""

import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

FEWEST_LINES = 6
PRODUCT = ("alloc", "analysis", "gc", "include", "shim", "trace", "vm")
COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*|(?<!\S)#(?!include|define|if|el|endif|undef)[^\n]*", re.S)
# Lines that no logic is in.
NO_CODE = re.compile(r'|#\s*(include|define|endif|if|el)\b.*|(from|import) .*|"""')


def code_of(path: Path) -> list[tuple[int, str]]:
    """The lines of code, with their numbers."""
    text = COMMENT.sub(lambda comment: "\n" * comment[0].count("\n"), path.read_text())
    lines = ((number, " ".join(line.split())) for number, line in enumerate(text.split("\n"), 1))
    return [(number, line) for number, line in lines if not NO_CODE.fullmatch(line)]


def duplicates(tree: Path) -> list[tuple[tuple[Path, int], tuple[Path, int], int]]:
    """Where the first, where the second begins; lines."""
    listed = subprocess.run(
        ["git", "-C", str(tree), "ls-files", "*.c", "*.h", "*.py"],
        check=True,
        capture_output=True,
        text=True,
    )
    names = [Path(name) for name in listed.stdout.split() if name.split("/")[0] in PRODUCT]
    code = {name: code_of(tree / name) for name in names}
    places: dict[tuple[str, ...], list[tuple[Path, int]]] = defaultdict(list)
    for name, lines in code.items():
        for at in range(len(lines) - FEWEST_LINES + 1):
            places[tuple(line for _, line in lines[at : at + FEWEST_LINES])].append((name, at))
    found, told = [], set()
    for where in places.values():
        for (one, at), (other, there) in zip(where, where[1:]):
            if (one, at, other, there) in told:
                continue
            length = 0
            for (_, text), (_, same) in zip(code[one][at:], code[other][there:]):
                if text != same:
                    break
                told.add((one, at + length, other, there + length))
                length += 1
            found.append(((one, code[one][at][0]), (other, code[other][there][0]), length))
    return found


def main() -> None:
    tree = Path(sys.argv[1] if len(sys.argv) > 1 else ".").resolve()
    for (one, at), (other, there), lines in duplicates(tree):
        print(f"{lines} lines: {one}:{at} {other}:{there}")


if __name__ == "__main__":
    main()
