# SPDX-License-Identifier: MIT
"""architecture.md: the files that it names exist; what it draws of the files of `blocks` is so, and
leads down only."""

import re
import subprocess

import pytest
from conftest import BUILD, SOURCE

FOLDER = "alloc/blocks"
# heap.c holds the data and calls nothing.
DATA = "heap"


def drawn() -> dict[str, set[str]]:
    """The files of `blocks`, in the order of the table, and which each of them calls."""
    text = (SOURCE / "docs" / "architecture.md").read_text()
    head, body = re.split(r"\n    file +what it has +(?=calls\n)", text)
    column = len(re.findall(r"\n(    file +what it has +)calls\n", text)[0])
    calls: dict[str, set[str]] = {}
    for line in body.split("\n\n")[0].split("\n")[1:]:
        if name := re.match(r"    (\w+)\.c ", line):
            calls[name[1]] = set()
        calls[list(calls)[-1]] |= set(line[column:].split()) - {"-"}
    return calls


def test_the_files_that_it_names_exist() -> None:
    text = (SOURCE / "docs" / "architecture.md").read_text()
    named = set(re.findall(r"[`(\s]((?:\.\./)?\w+/[\w/]+\.(?:c|h|py))\b", text))
    below = ("", "docs", "trace", "analysis/allotrope")
    assert len(named) > 40
    missing = {n for n in named if not any((SOURCE / folder / n).exists() for folder in below)}
    assert missing == set()


def symbols(name: str) -> list[list[str]]:
    path = BUILD / FOLDER / ".libs" / f"liballoc_la-{name}.o"
    if not path.exists():
        pytest.skip(f"{path} is not built")
    listing = subprocess.run(["nm", path], check=True, capture_output=True, text=True).stdout
    return [line.split()[-2:] for line in listing.splitlines()]


def built() -> dict[str, set[str]]:
    """The same by the object files. Calls that the compiler has made inline are not in them."""
    names = {path.stem for path in (SOURCE / FOLDER).glob("*.c")}
    found = {name: symbols(name) for name in names}
    home = {symbol: name for name in names for kind, symbol in found[name] if kind in "TW"}
    called = {
        name: {home[symbol] for kind, symbol in found[name] if kind == "U" and symbol in home}
        for name in names
    }
    return {name: calls - {name} for name, calls in called.items()}


def test_every_file_of_blocks_is_drawn() -> None:
    assert set(drawn()) | {DATA} == {path.stem for path in (SOURCE / FOLDER).glob("*.c")}


def test_calls_lead_down() -> None:
    names = list(drawn())
    for name, calls in drawn().items():
        assert calls <= set(names[names.index(name) + 1 :]), name


def test_no_file_of_blocks_calls_another_than_is_drawn() -> None:
    table: dict[str, set[str]] = {DATA: set()} | drawn()
    more = {name: calls - table[name] for name, calls in built().items()}
    assert {name: calls for name, calls in more.items() if calls} == {}


def test_calls_through_pointers_are_drawn() -> None:
    """What the folder is handed, and calls: no object file tells where that leads."""
    headers = [path.read_text() for path in sorted((SOURCE / FOLDER).glob("*.h"))]
    members = {
        name for text in headers for name in re.findall(r"^ +[\w ]+\(\*(\w+)\)\(", text, re.M)
    }
    pointers = {
        name for text in headers for name in re.findall(r"^extern [^;]*\(\*(\w+)\)", text, re.M)
    }
    assert {"before_growth", "slab_made", "quarantine_found_written"} <= members | pointers
    text = (SOURCE / "docs" / "architecture.md").read_text()
    assert [name for name in sorted(members | pointers) if f"`{name}`" not in text] == []
