# SPDX-License-Identifier: MIT
"""`allotrope vm`: what it asks of the machine, what it makes of rounds, and its page."""

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest
from allotrope.commands.cli import cli
from allotrope.features.vm import measure, output, page, paper
from allotrope.output.page import render
from allotrope.system.errors import UserError
from browser import DESKTOP, PHONE, Browser, browser  # noqa: F401
from conftest import Command
from rich.console import Console
from under import BUILD

COUNTS = (1, 10, 100, 1000, 10000)
REFUSED = "the kernel refuses userfaultfd"


def taken(scale: float, refused: tuple[str, ...] = ()) -> list[dict[str, Any]]:
    """What allotrope-vm says in one round, with times that are all `scale` times as long."""
    found: list[dict[str, Any]] = []

    def say(what: str, by: str | None, count: int | None, ns: float | None, why: str = "") -> None:
        figure = {"what": what, "by": by, "count": count, "ns": ns and ns * scale}
        found.append(figure if ns is not None else figure | {"why": why})

    times = {"add": 0.5, "trap": 2000, "trap+prot1+unprot": 9000, "trap+protN+unprot": 5000}
    for what, ns in {**times, "map2": 1500}.items():
        say(what, None, None, ns)
    for by in output.PROVIDERS:
        for count in COUNTS:
            for step in output.STEPS:
                say(step, by, count, None if by in refused else 700, REFUSED)
        fails = by != "async" or by in refused
        say(output.SYSTEM_CALL, by, None, None if fails else 0, "EFAULT")
    for by in ("running", "blocked"):
        for threads in (1, 64):
            say("stop the world", by, threads, 1000 * threads)
    say("fork", "each resident GiB", None, 2e7)
    return found


def document(*rounds: list[dict[str, Any]]) -> measure.Document:
    return {
        "schema": measure.SCHEMA,
        "machine": {"cpu": "<a processor>", "usable_cpus": 2, "kernel": "6.18"},
        "groups": list(measure.GROUPS),
        "rounds": len(rounds),
        "interrupted": False,
        "incomplete": None,
        "load_averages": [0.5] * len(rounds),
        "interval": "range",
        "coverage": 0.5,
        "figures": measure.figures(rounds),
    }


def shown(found: measure.Document) -> str:
    text = io.StringIO()
    output.print_results(found, Console(file=text, width=200))
    return text.getvalue()


def test_a_figure_is_the_median_of_its_rounds_and_adds_are_of_the_same_round() -> None:
    found = measure.figures([taken(1), taken(5), taken(3)])
    trap = next(one for one in found if one["what"] == "trap")
    assert trap["ns"] == {"median": 6000, "low": 2000, "high": 10000}
    assert trap["adds"] == {"median": 4000, "low": 4000, "high": 4000}
    assert trap["rounds"] == [2000, 10000, 6000]


def test_a_figure_that_one_round_lacks_is_none_and_says_why() -> None:
    found = measure.figures([taken(1), taken(1, refused=("async",)), taken(1)])
    (first, *_) = [one for one in found if one["by"] == "async"]
    assert (first["ns"], first["adds"], first["why"]) == (None, None, REFUSED)


def test_the_add_is_always_measured() -> None:
    assert measure.choose_groups([]) == list(measure.GROUPS)
    assert measure.choose_groups(["scans", "calls"]) == ["table", "calls", "scans"]


def test_a_group_that_is_none_is_refused_with_the_nearest() -> None:
    with pytest.raises(UserError, match="no group 'provider'; did you mean providers"):
        measure.choose_groups(["table", "provider"])
    with pytest.raises(UserError, match="there are table, providers"):
        measure.choose_groups(["xyzzy"])


def test_the_papers_figure_2_follows_from_its_table() -> None:
    """They name the best and the worst."""
    adds = {(one.machine, one.system): one.prot1 / one.add for one in paper.TABLE_1}
    assert min(adds, key=lambda one: adds[one]) == ("i386 on iPSC/2", "NX/2")
    assert max(adds, key=lambda one: adds[one]) == ("SparcStn 1", "Mach 2.5(exc)")
    assert all(one.prot_n < one.prot1 for one in paper.TABLE_1)


def test_this_machine_stands_above_those_of_the_paper() -> None:
    header, own, *others = output.table_1(document(taken(1)))
    assert len(others) == 13 and {len(row) for row in (own, *others)} == {len(header)}
    assert own[2:] == ["0.0005", "2", "9", "5", "18,000", "10,000", "yes"]


def test_what_could_not_be_measured_is_said_and_is_no_zero() -> None:
    text = shown(document(taken(1, refused=("async",))))
    assert f"async: {REFUSED}" in text
    (row,) = (line for line in text.splitlines() if line.startswith("async     protect"))
    assert row.split()[2:-1] == ["–"] * len(COUNTS)


def test_csv_has_a_row_for_each_figure() -> None:
    found = document(taken(1))
    header, *rows = output.rows(found)
    assert header == output.CSV_COLUMNS and len(rows) == len(found["figures"])
    assert {len(row) for row in rows} == {len(header)}


@pytest.mark.parametrize(
    "error, why, status",
    [
        (KeyboardInterrupt(), "interrupted", 130),
        (UserError("it was killed", 137), "it was killed", 137),
    ],
)
def test_what_ends_a_round_leaves_those_before_it(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    error: BaseException,
    why: str,
    status: int,
) -> None:
    def one_round(groups: list[str]) -> list[dict[str, Any]]:
        found = next(coming)
        if isinstance(found, BaseException):
            raise found
        return found

    file = tmp_path / "vm.json"
    coming = iter([taken(1), taken(3), error, taken(1)])
    monkeypatch.setattr(measure, "_one_round", one_round)
    try:
        ended = cli.main(["vm", "--rounds", "9", "--json", str(file)], standalone_mode=False)
    except UserError as failed:
        ended = failed.exit_code
    found = json.loads(file.read_text())
    assert ended == status and found["interrupted"] is (status == 130)
    assert found["rounds"] == len(found["load_averages"]) == len(found["figures"][0]["rounds"]) == 2
    said = f"Incomplete: round 3 of 9: {why}; the figures are of the rounds before that."
    assert said in capsys.readouterr().out
    assert said in map(str, page.advice(found))


@pytest.mark.parametrize("error", [KeyboardInterrupt, UserError])
def test_what_ends_the_first_round_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: type[BaseException]
) -> None:
    def one_round(groups: list[str]) -> list[dict[str, Any]]:
        raise error("at once")

    monkeypatch.setattr(measure, "_one_round", one_round)
    with pytest.raises(error):
        measure.measure([], 9)


def test_the_table_alone_makes_a_page() -> None:
    only = [one for one in taken(1) if one["by"] is None]
    assert [section.title for section in page.vm_page(document(only)).sections] == [
        "Appel and Li, 1991"
    ]


@pytest.mark.parametrize("size", [PHONE, DESKTOP])
def test_a_browser_draws_the_page(
    browser: Browser, tmp_path: Path, size: Any  # noqa: F811
) -> None:
    file = tmp_path / "vm.html"
    file.write_text(render(page.vm_page(document(taken(1), taken(2, refused=("sigbus",))))))
    browser.open(file, size)
    assert browser.run("return document.getElementById('trouble').hidden") is True
    assert browser.run("return document.querySelectorAll('.main-svg').length") >= 4
    assert browser.run("return document.documentElement.scrollWidth") <= size[0]
    assert browser.errors() == []
    assert browser.requests() == [file.resolve().as_uri()]


@pytest.fixture(scope="module")
def measured() -> measure.Document:
    done = Command(BUILD).run("vm", "--rounds", "1", "--json", "-")
    assert done.returncode == 0, done.stderr
    found: measure.Document = json.loads(done.stdout)
    return found


def test_every_figure_of_this_machine_is_a_time_or_says_why_not(measured: measure.Document) -> None:
    assert measured["schema"] == measure.SCHEMA
    assert measured["groups"] == list(measure.GROUPS)
    for one in measured["figures"]:
        assert one["ns"]["median"] >= 0 if one["ns"] else one["why"], one
    threads = [one["count"] for one in measured["figures"] if one["what"] == "stop the world"]
    assert threads == 2 * [1, 2, 4, 8, 16, 32, 64]


def test_system_calls_fail_under_all_but_the_kernels_own(measured: measure.Document) -> None:
    (mprotect,) = measure.figure(measured, output.SYSTEM_CALL, "mprotect")
    assert mprotect["why"] == "EFAULT"
    (own,) = measure.figure(measured, output.SYSTEM_CALL, "async") or [None]
    if own is None:
        pytest.skip(str(measure.figure(measured, "protect", "async")[0]["why"]))
    assert own["ns"]["median"] == 0


def test_a_terminal_and_csv_show_the_same(tmp_path: Path) -> None:
    file = tmp_path / "vm.csv"
    command = Command(BUILD)
    done = command.run("vm", "table", "--rounds", "1", "--csv", str(file))
    assert done.returncode == 0, done.stderr
    assert "µVax 3" in done.stdout and "load average" in done.stdout
    assert [row["what"] for row in csv.DictReader(file.open())][:2] == ["add", "trap"]
    assert command.run("vm", "tabel").returncode != 0
