# SPDX-License-Identifier: MIT
"""Named invariants: each has one definition, in the file that architecture.md names, and is relied
on by a comment elsewhere; no comment names one that is defined nowhere."""

import re
from pathlib import Path

import pytest
from conftest import SOURCE

ROW = re.compile(r"^\|[^|]*\|(?P<names>( ?\[[^\]]+\],?)+) \| `(?P<file>[^`]+)` \|$")
NAME = re.compile(r"\[([a-zA-Z][a-zA-Z' -]*[a-z])\]")
COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
WORDS_OF_ONE = {"frozen"}  # others of one word are indices of arrays
FOLDERS = ("alloc", "gc", "shim", "vm")


def index() -> dict[str, str]:
    """By name, the file that defines it."""
    text = (SOURCE / "docs" / "architecture.md").read_text()
    section = text.split("## Named invariants\n", 1)[1].split("\n## ", 1)[0]
    found = {}
    for row in filter(None, map(ROW.match, section.splitlines())):
        for name in NAME.findall(row["names"]):
            assert name not in found, f"[{name}] stands in two rows"
            assert "-" not in name, f"[{name}] has hyphens: a search finds one spelling"
            found[name] = row["file"]
    return found


def named(file: Path) -> list[str]:
    """In comments, of which a line's beginning is no part of a name."""
    found = []
    for comment in COMMENT.findall(file.read_text()):
        text = re.sub(r"\n\s*\* ?", " ", comment)
        found += [re.sub(r"\s+", " ", name) for name in NAME.findall(text)]
    return [name for name in found if " " in name or "-" in name or name in WORDS_OF_ONE]


USES = {
    str(file.relative_to(SOURCE)): named(file)
    for folder in FOLDERS
    for file in sorted((SOURCE / folder).rglob("*.[ch]"))
}


def test_the_index_is_found() -> None:
    assert len(index()) > 50


@pytest.mark.parametrize("name", sorted(index()))
def test_an_invariant_stands_in_the_file_that_defines_it(name: str) -> None:
    assert name in USES[index()[name]]


@pytest.mark.parametrize("name", sorted(index()))
def test_an_invariant_is_relied_on(name: str) -> None:
    assert sum(uses.count(name) for uses in USES.values()) > 1


def test_no_comment_names_an_invariant_that_is_not_defined() -> None:
    strangers = {
        f"{file}: [{name}]" for file, names in USES.items() for name in set(names) - set(index())
    }
    assert not strangers
