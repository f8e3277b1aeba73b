# SPDX-License-Identifier: MIT
"""Every key of the JSON and every column of the CSV that a word writes stands in a document."""

import json
import re
from pathlib import Path
from typing import Any, Iterator

import pytest
from conftest import Command
from under import SOURCE

# Keys that are figures or names themselves.
VARIABLE = re.compile(r"(from_)?2\^\d+(_us)?|metric:.*|\d+(\.\d+)?")
GENERATIONS = "gc:free=ignore,generations=2,concurrent=on,verify=on,every=20"
WORK = ("awk", "BEGIN { for (i = 0; i < 9; i++) a[i] = i }")


@pytest.fixture(scope="module")
def documents() -> str:
    return "\n".join(page.read_text() for page in (SOURCE / "docs").glob("*.md"))


def keys(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for key, below in value.items():
            # What stands below is by name: the options of an allocator, functions by class.
            yield key
            yield from () if key == "options" and isinstance(below, dict) else keys(below)
    elif isinstance(value, list):
        for one in value:
            yield from keys(one)


def lacking(documents: str, names: Iterator[str]) -> list[str]:
    return sorted(
        {
            name
            for name in names
            if not VARIABLE.fullmatch(name)
            and not re.search(rf"[`\"]{re.escape(name)}[`\"]", documents)
        }
    )


@pytest.mark.parametrize(
    "words",
    [
        ("run", "-a", "cartesian", "--stats=FILE", "--", *WORK),
        ("run", "-a", "gc", "--stats=FILE", "--", *WORK),
        ("run", "-a", GENERATIONS, "--stats=FILE", "--", *WORK),
        ("run", "-a", GENERATIONS.replace("=on,v", "=fork,v"), "--stats=FILE", "--", *WORK),
        ("run", "-a", "gc:free=quarantine,every=20", "--stats=FILE", "--", *WORK),
        ("run", "-a", "gc:classic,pointers=interior", "--stats=FILE", "--", *WORK),
        ("run", "-a", "blocks:guard=100", "--stats=FILE", "--", *WORK),
        ("run", "-a", "glibc", "--latency=FILE", "--", *WORK),
        ("run", "-a", "gc", "--latency=FILE", "--", *WORK),
        ("list", "--json"),
        ("doctor", "--json"),
        (
            "compare",
            "-a",
            "glibc",
            "-a",
            GENERATIONS,
            "--rounds=1",
            "--latency",
            "--json=FILE",
            "--",
            *WORK,
        ),
        ("sites", "--json=FILE", "--", *WORK),
        ("leaks", "--json=FILE", "--", *WORK),
        ("vm", "table", "--rounds=1", "--json=FILE"),
    ],
    ids=lambda words: " ".join(words[:3]),
)
def test_keys_are_documented(
    real: Command, tmp_path: Path, documents: str, words: tuple[str, ...]
) -> None:
    file = tmp_path / "written.json"
    done = real.run(*(word.replace("FILE", str(file)) for word in words))
    assert done.returncode == 0, done.stderr
    written = json.loads(file.read_text() if file.exists() else done.stdout)
    assert written["schema"].split(".", 1)[0] == "allotrope"
    assert f"`{written['schema']}`" in documents or f"\"{written['schema']}\"" in documents
    assert lacking(documents, keys(written)) == []


def test_events_lifetimes_and_replay_are_documented(
    real: Command, tmp_path: Path, documents: str
) -> None:
    recording = str(tmp_path / "run.ale")
    assert real.run("events", "-o", recording, "--", *WORK).returncode == 0
    for word in (["lifetimes"], ["replay", "-a", "glibc", "-a", "bsd", "--rounds=1"]):
        done = real.run(*word, "--json=-", recording)
        assert done.returncode == 0, done.stderr
        assert lacking(documents, keys(json.loads(done.stdout))) == []
        header = real.run(*word, "--csv=-", recording).stdout.splitlines()[0]
        assert lacking(documents, iter(header.split(","))) == []


def test_a_difference_is_documented(real: Command, tmp_path: Path, documents: str) -> None:
    line = ["compare", "-a", "glibc", "-a", "bsd", "--rounds=9", "--warmup=0", "--json=c.json"]
    assert real.run(*line, "--", "true", cwd=tmp_path).returncode == 0
    pair = ["--from=c.json", "--against=c.json", "--fail-if=bsd.cpu > 1000"]
    done = real.run("compare", *pair, "--json=-", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    written = json.loads(done.stdout)
    assert written["changes"] and written["conditions"]
    assert f"`{written['schema']}`" in documents
    assert lacking(documents, keys(written)) == []
