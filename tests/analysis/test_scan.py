# SPDX-License-Identifier: MIT
"""`compare --vary` and `compare --shell`: parameter scans and shell strings."""

import json
import re
from pathlib import Path

import pytest
from allotrope.features.suite.scan import programs, read_varied
from allotrope.system.errors import UserError
from conftest import Command


def test_every_combination_is_a_program() -> None:
    varied = read_varied(["size=1,10", "kind=map,list"])
    texts = {"input": "{kind}.txt", "prepare": None, "check": "none"}
    found = programs(["./program", "--size={size}", "{other}"], varied, texts)
    assert [one.name for one in found] == [
        "size=1 kind=map",
        "size=1 kind=list",
        "size=10 kind=map",
        "size=10 kind=list",
    ]
    assert found[3].command == ["./program", "--size=10", "{other}"]
    assert found[3].input == "list.txt" and found[3].check == "none"


@pytest.mark.parametrize(
    "texts, said",
    [
        (["size"], "'size' is not of the form NAME=VALUE"),
        (["size="], "'size=' is not of the form NAME=VALUE"),
        (["1=2"], "'1=2' is not of the form NAME=VALUE"),
        (["a=1", "a=2"], "a is given twice"),
        (["a=1,1"], "'a=1,1' has 1 twice; leave one out"),
    ],
)
def test_what_cannot_be_meant_is_refused(texts: list[str], said: str) -> None:
    with pytest.raises(UserError, match=said):
        read_varied(texts)


def test_a_parameter_that_stands_nowhere_is_refused() -> None:
    with pytest.raises(UserError, match="no {size} where size could stand"):
        programs(["true", "size"], {"size": ["1"]}, {})


def test_one_round_is_no_rounds(real: Command, tmp_path: Path) -> None:
    words = ["--rounds", "1", "--warmup", "0", "-a", "glibc", "-a", "bsd", "--html", "page"]
    done = real.run("compare", *words, "--vary", "n=1", "--", "true", "{n}", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "1 program × 2 allocators × 1 round: 4 runs, " in done.stderr
    said = done.stdout + done.stderr + (tmp_path / "page").read_text()
    assert "1 program, 1 round asked for, " in said
    assert re.findall(r"\b1 (?:rounds|programs|allocators|runs)\b", said) == []


def test_a_scan_runs_here_and_is_written_as_a_suite(real: Command, tmp_path: Path) -> None:
    words = ["--rounds", "2", "-a", "glibc", "--json", "json", "--markdown", "md"]
    script = "echo {n} $HERE >>trace"
    environment = {"HERE": "mine"}
    done = real.run(
        *["compare", *words, "--vary", "n=1,2", "--shell", script],
        environment=environment,
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    assert "n=1" in done.stdout and "n=2" in done.stdout
    # References, the look at who serves, and two rounds.
    lines = (tmp_path / "trace").read_text().splitlines()
    assert sorted(lines) == ["1 mine"] * 5 + ["2 mine"] * 5
    document = json.loads((tmp_path / "json").read_text())
    assert document["title"] == "n=1,2"
    assert [one["name"] for one in document["programs"]] == ["n=1", "n=2"]
    assert sorted(file.name for file in tmp_path.iterdir()) == ["json", "md", "trace"]
    table = (tmp_path / "md").read_text()
    assert "| n=1 | 1.00 |\n| n=2 | 1.00 |" in table
    assert "**Not decided:** " in table


@pytest.mark.parametrize(
    "words, said",
    [
        ("--shell true -- true", "--shell brings its own command"),
        ("--vary n=1 --latency -- echo {n}", "--latency does not go with --vary"),
        ("--suite x.toml --shell true", "--shell does not go with --suite"),
        ("--suite x.toml --vary n=1", "--vary does not go with --suite"),
    ],
)
def test_options_that_do_not_fit_are_refused(real: Command, words: str, said: str) -> None:
    done = real.run("compare", *words.split())
    assert done.returncode == 2 and said in done.stderr
