# SPDX-License-Identifier: MIT
"""The glossary: each name that it gives is in the code, and the words that it keeps apart are."""

import re

from conftest import SOURCE

GLOSSARY = SOURCE / "docs" / "glossary.md"
CODE = {".c", ".h", ".py", ".j2"}
# What stood for two things once, and is no name in the code any more.
GIVEN_UP = ("inbox", "worthwhile", "place_anew", "near_unit", "pagemap_get", "trace_live")


def code() -> str:
    folders = ("alloc", "analysis", "bench_programs", "gc", "shim", "trace", "vm")
    paths = [path for folder in folders for path in (SOURCE / folder).rglob("*")]
    return "\n".join(f"{path}\n{path.read_text()}" for path in paths if path.suffix in CODE)


def rows() -> list[list[str]]:
    lines = [line for line in GLOSSARY.read_text().split("\n") if line.startswith("| ")]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return [row for row in cells if row[0] not in {"term", "word"}]


def test_the_names_that_it_gives_are_in_the_code() -> None:
    text = code()
    assert len(rows()) >= 40
    names = [name for row in rows() for name in re.findall(r"`([^`]+)`", row[3])]
    assert [name for name in names if not re.search(rf"\b{re.escape(name)}\b", text)] == []
    assert [row[0] for row in rows() if "`" not in row[3]] == []


def test_no_term_is_given_twice() -> None:
    terms = [term.strip() for row in rows() for term in row[0].split(",")]
    assert sorted(terms) == sorted(set(terms))


def test_words_that_were_given_up_are_gone() -> None:
    text = code()
    assert [word for word in GIVEN_UP if re.search(rf"\b{word}\b", text)] == []
