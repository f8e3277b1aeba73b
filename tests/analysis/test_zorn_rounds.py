# SPDX-License-Identifier: MIT
"""How the study of 1992 is measured: a round's layout, what a failed run costs, and what resuming
finishes."""

from __future__ import annotations

import json
import os
import time
from dataclasses import replace
from pathlib import Path
from typing import Any, Callable

import pytest
from allotrope.features.compare.comparison import LEAST_LOAD_SECONDS
from allotrope.study.store import Step, Store
from allotrope.study.zorn import measure, plan
from allotrope.study.zorn.answer import limits
from allotrope.study.zorn.measure import Workshop, account, kept_environment, measure_round
from allotrope.study.zorn.plan import Configuration, Extent, Planned
from allotrope.study.zorn.programs import Form, Program
from allotrope.study.zorn.results import Results
from allotrope.study.zorn.study import ZornWork
from allotrope.system.errors import UserError
from allotrope.system.launch import Run

BASE = Configuration("optimised", "cartesian:classic")
OTHERS = [Configuration("optimised", spec) for spec in ("bsd:classic", "glibc")]
ALL = [BASE, *OTHERS]
SCHEMA = "allotrope.zorn/1"


def ended(seconds: float, cpu: float, timed_out: bool = False) -> Run:
    status, killed_by = (None, 9) if timed_out else (0, None)
    account_of = (seconds, cpu, 0.0, 1, 1, 0, None, None)
    return Run(1, status, killed_by, None, timed_out, False, *account_of)


def crashed() -> Run:
    return replace(ended(1, 1), exit_status=139)


def gawk() -> Program:
    return Program("gawk", "1992", "", "", "base", {"optimised": Form(["gawk"], ["gawk"])}, None)


def a_round(number: int = 0) -> Planned:
    return Planned(Step("round", f"gawk {number + 1}", {}, 1.0), gawk(), ALL, number)


class Scripted(Workshop):
    """Its runs end as given, the last for ever; `asked` has what each was started with."""

    def __init__(self, *runs: Run | UserError) -> None:
        self.runs = list(runs)
        self.asked: list[dict[str, Any]] = []

    def run(self, form: Form, allocator: Any, *_: Any, **settings: Any) -> Run:
        self.asked.append({"spec": allocator.spec, **settings})
        one = self.runs.pop(0) if len(self.runs) > 1 else self.runs[0]
        if isinstance(one, UserError):
            raise one
        return one

    def failure(self, run: Run) -> str | None:
        return None if run.exit_status == 0 else run.ending()

    def output_digest(self) -> str:
        return "same"


KNOWN = {"optimised": {"timed": 1.0, "timed_output": "same"}}


def one_run(*runs: Run | UserError) -> tuple[dict[str, Any], Scripted]:
    """A round of one configuration: its result."""
    planned = replace(a_round(), configurations=[BASE])
    workshop = Scripted(*runs)
    return measure_round(planned, workshop, KNOWN, {}, {})[str(BASE)], workshop


# A failed run


@pytest.mark.parametrize(
    "runs, failure",
    [
        ([crashed(), ended(2, 1.8)], None),
        ([UserError("the launcher gave no report"), ended(2, 1.8)], None),
        ([ended(60, 1.8, True), ended(2, 1.8)], None),  # the machine was stopped
        ([ended(60, 1.8, True), ended(60, 1.8, True)], "timed out"),
        ([crashed(), crashed()], "exit status 139"),
    ],
)
def test_a_run_that_fails_is_tried_once_more(
    runs: list[Run | UserError], failure: str | None
) -> None:
    found, workshop = one_run(*runs)
    assert found.get("failure") == failure and len(workshop.asked) == 2
    assert found["again"]  # why
    assert failure is not None or found["wall"] == 2


def test_a_run_that_is_slow_is_not_tried_again() -> None:
    found, workshop = one_run(ended(60, 59.0, True))
    assert found["failure"] == "timed out" and len(workshop.asked) == 1


def test_a_failed_run_costs_only_its_own_round(tmp_path: Path) -> None:
    study = MadeUp(tmp_path, rounds=8)
    study.carry_out(lambda one, number: one == OTHERS[0] and number == 3)
    results = study.work.results
    assert len(results.rounds["gawk"]) == 8
    assert results.failed_runs() == {("gawk", str(OTHERS[0])): 1}
    assert (
        results.failure("gawk", "optimised", "bsd:classic") == "in 1 of 8 rounds: exit status 139"
    )
    ratio = results.ratio("gawk", ("optimised", "bsd:classic"), ("optimised", "cartesian:classic"))
    assert ratio is not None and ratio.median == 1
    whole = results.values("gawk", "optimised", "glibc", "cpu")
    assert whole is not None and len(whole) == 8
    fewer = results.values("gawk", "optimised", "bsd:classic", "cpu")
    assert fewer is not None and len(fewer) == 7


def test_a_ratio_pairs_runs_of_one_round() -> None:
    """A run that is missing does not move those behind it into other rounds."""
    base, other = str(BASE), str(OTHERS[0])
    cpu = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0]
    rounds: list[Any] = [{base: {"cpu": one}, other: {"cpu": 2 * one}} for one in cpu]
    rounds[2] = {base: {"cpu": 4.0}, other: {"failure": "timed out"}}
    rounds[5] = {base: {"failure": "timed out"}, other: {"cpu": 64.0}}
    results = Results([gawk()], {"quick": False}, rounds={"gawk": rounds})
    ratio = results.ratio("gawk", ("optimised", "bsd:classic"), ("optimised", "cartesian:classic"))
    assert ratio is not None and ratio.interval == (2, 2)


def test_of_few_rounds_nothing_is_concluded() -> None:
    base, other = str(BASE), str(OTHERS[0])
    good: dict[str, Any] = {base: {"cpu": 1.0}, other: {"cpu": 1.0}}
    bad: dict[str, Any] = {base: {"cpu": 1.0}, other: {"failure": "timed out"}}
    results = Results([gawk()], {"quick": False})
    for rounds, known in (
        ([good] * 5 + [bad] * 25, False),
        ([good] * 6 + [bad] * 24, True),
        ([good] * 2 + [bad], True),  # of large programs
        ([good] + [bad] * 2, False),
    ):
        results.rounds["gawk"] = rounds
        assert (results.values("gawk", "optimised", "bsd:classic", "cpu") is not None) == known


def test_the_page_says_where_there_are_fewer_rounds() -> None:
    run: dict[str, Any] = {str(BASE): {"cpu": 1.0, "rss": 1, "load": 0.1}}
    rows = {"gawk": ("1992", 30), "lua": ("today", 7), "glib": ("switch", 7), "big": ("large", 3)}
    programs = [replace(gawk(), name=name, row=row) for name, (row, _) in rows.items()]
    results = Results(programs, {"quick": False, "rounds": 30})
    results.rounds = {name: [run] * rounds for name, (_, rounds) in rows.items()}
    assert limits(results)[0] == (
        "30 rounds (7 for programs that no claim speaks of; 3 for those with heaps of today's "
        "size); "
        "the machine's load was 0.1 (median; at most 0.1). No run failed."
    )
    results.rounds = {"gawk": [run] * 30}
    assert limits(results)[0].startswith("30 rounds; ")


def test_the_plan_has_as_many_rounds_as_are_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan, "choose", lambda *_: None)
    rows = {"gawk": "1992", "lua": "today", "glib": "switch", "gawk_large": "large"}
    programs = [replace(gawk(), name=name, row=row) for name, row in rows.items()]
    named = [one.step.name for one in plan.steps(Extent(False, 30), programs, lambda *_: None)]
    counts = {name: sum(each.split()[0] == name for each in named) for name in rows}
    assert counts == {"gawk": 30, "lua": 7, "glib": 7, "gawk_large": 3}


class MadeUp:
    """A study of gawk alone whose runs are scripted; can be resumed."""

    def __init__(self, folder: Path, rounds: int) -> None:
        self.folder, self.extent, self.said = folder, Extent(False, rounds), list[str]()
        self.attempts: list[tuple[str, int]] = []
        Store(folder / "study", SCHEMA).begin({"quick": False, "machine": {}}, False)

    def carry_out(self, fails: Callable[[Configuration, int], bool]) -> None:
        store = Store(self.folder / "study", SCHEMA)
        self.work = Rounds(self, store, fails)
        self.work.run()


class Rounds(ZornWork):
    """Has rounds alone."""

    def __init__(
        self, study: MadeUp, store: Store, fails: Callable[[Configuration, int], bool]
    ) -> None:
        super().__init__(store, study.extent, [gawk()], study.said.append)
        self.study, self.fails = study, fails

    def prepare(self, folder: Path) -> list[Planned]:
        self.able, self.probes = [gawk()], {"gawk": KNOWN}
        return [a_round(number) for number in range(self.extent.rounds)]

    def _workshop(self, folder: Path, planned: Planned) -> Workshop:
        work = self

        class Failing(Scripted):
            def run(self, form: Form, allocator: Any, *_: Any, **settings: Any) -> Run:
                one = Configuration("optimised", allocator.spec)
                work.study.attempts.append((allocator.spec, planned.number))
                return crashed() if work.fails(one, planned.number) else ended(1, 1)

        return Failing(ended(1, 1))


def test_resuming_measures_rounds_again_in_which_a_failure_is_gone(tmp_path: Path) -> None:
    """A ratio of two sessions would be that of their machines' loads."""
    study = MadeUp(tmp_path, rounds=4)
    study.carry_out(lambda one, number: one == OTHERS[1] and number in (1, 2))
    assert study.work.results.failed_runs() == {("gawk", "optimised glibc"): 2}
    study.attempts.clear()
    study.carry_out(lambda one, number: number == 1 and len(study.attempts) == 1)
    tried = [spec for spec, number in study.attempts if number == 1]
    assert tried[:2] == ["glibc", "glibc"] and sorted(tried[1:]) == sorted(one.spec for one in ALL)
    assert [spec for spec, number in study.attempts if number == 2][0] == "glibc"
    assert len(study.attempts) == 1 + 2 * len(ALL)
    assert not study.work.results.failed_runs()
    assert any("2 done before" in line for line in study.said)
    study.attempts.clear()
    study.carry_out(lambda one, number: True)
    assert not study.attempts


def test_resuming_keeps_a_round_in_which_the_same_fails_again(tmp_path: Path) -> None:
    study = MadeUp(tmp_path, rounds=2)
    study.carry_out(lambda one, number: one == OTHERS[1] and number == 1)
    study.attempts.clear()
    study.carry_out(lambda one, number: one == OTHERS[1])
    assert study.attempts == [("glibc", 1), ("glibc", 1)]
    assert study.work.results.failed_runs() == {("gawk", "optimised glibc"): 1}


def test_what_never_succeeds_is_given_up_after_two_rounds(tmp_path: Path) -> None:
    study = MadeUp(tmp_path, rounds=5)
    study.carry_out(lambda one, number: one == OTHERS[0])
    tried = [number for spec, number in study.attempts if spec == "bsd:classic"]
    assert tried == [0, 0, 1, 1]
    assert study.work.results.failed_runs() == {("gawk", "optimised bsd:classic"): 5}
    assert study.work.results.failure("gawk", "optimised", "bsd:classic") == "exit status 139"
    study.attempts.clear()
    study.carry_out(lambda one, number: False)  # the machine was repaired
    tried = [number for spec, number in study.attempts if spec == "bsd:classic"]
    assert tried == [0, 1, 2, 3, 4]
    assert not study.work.results.failed_runs()


def test_what_succeeds_now_and_then_is_not_given_up(tmp_path: Path) -> None:
    study = MadeUp(tmp_path, rounds=5)
    study.carry_out(lambda one, number: one == OTHERS[0] and number > 0)
    tried = [number for spec, number in study.attempts if spec == "bsd:classic"]
    assert tried == [0, 1, 1, 2, 2, 3, 3, 4, 4]
    study.attempts.clear()
    study.carry_out(lambda one, number: True)  # what succeeded before the interruption counts
    assert [number for _, number in study.attempts] == [1, 1, 2, 2, 3, 3, 4, 4]


# Layout


def test_all_of_a_round_have_one_layout_and_every_round_another() -> None:
    lengths = []
    for number in range(30):
        workshop = Scripted(ended(1, 1))
        found = measure_round(a_round(number), workshop, KNOWN, {}, {})
        layouts = {one["ALLOTROPE_PADDING"] for one in workshop.asked}
        assert len(workshop.asked) == len(ALL) and len(layouts) == 1
        length = len(layouts.pop())
        assert {run["padding"] for run in found.values()} == {length}
        lengths.append(length)
    assert len(set(lengths)) == 30
    # Over a page, evenly: by which the stack and copies of the environment lie elsewhere.
    assert all(any(low <= one < low + 512 for one in lengths) for low in range(0, 4096, 512))


def test_every_round_has_another_order() -> None:
    orders = []
    for number in range(6):
        workshop = Scripted(ended(1, 1))
        measure_round(a_round(number), workshop, KNOWN, {}, {})
        orders.append([one["spec"] for one in workshop.asked])
    specs = {one.spec for one in ALL}
    assert all(set(order) == specs for order in orders)
    for place in range(len(ALL)):
        assert {order[place] for order in orders} == specs


def test_the_callers_environment_is_in_no_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two studies that are begun in different shells have the same layouts."""
    monkeypatch.setenv("OF_THE_CALLER", "x" * 1000)
    form = Form(["/usr/bin/env"], ["/usr/bin/env"], {"LC_ALL": "C"})
    workshop = Workshop(tmp_path)
    run = workshop.run(form, None, 60, ALLOTROPE_PADDING="--")
    assert workshop.failure(run) is None
    names = {line.split("=")[0] for line in workshop.output.read_text().splitlines()}
    assert names == {"PATH", "HOME", "TMPDIR", "LC_ALL", "ALLOTROPE_PADDING"}
    assert kept_environment() == {"PATH": os.environ["PATH"]}


def test_what_is_counted_runs_at_fixed_addresses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Any] = []

    def launch(one: Any) -> Run:
        asked.append(one)
        return ended(1, 1)

    monkeypatch.setattr(measure, "launch", launch)
    workshop = Workshop(tmp_path)
    account(replace(a_round(), configurations=[BASE]), workshop, 60)
    assert [one.fixed_addresses for one in asked] == [True]
    assert "ALLOTROPE_PADDING" not in asked[0].environment


# Figures that cannot be


def reported(tmp_path: Path, cpu_ns: int, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The account of a run of 1 s of CPU time whose collections took so long."""
    heap = {"mapped_peak_bytes": 4096, "timeline": None}
    report = {"calls": {"malloc": 1}, "peak": {}, "gc": {"cpu_ns": cpu_ns, "collections": 3}}
    monkeypatch.setattr(measure, "read_accounts", lambda folder: heap)
    monkeypatch.setattr(measure, "read_reports", lambda folder: [report])
    workshop = Scripted(ended(2, 1.0))
    workshop.folder = tmp_path
    collected = Configuration("optimised", "gc:classic")
    return account(replace(a_round(), configurations=[collected]), workshop, 60)


def test_collections_take_no_longer_than_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert reported(tmp_path, 999_000_000, monkeypatch)["gc"]["cpu_ns"] == 999_000_000
    failure = reported(tmp_path, 1_100_000_000, monkeypatch)["failure"]
    assert failure == "collections took 1.100 s of a run of 1.000 s of CPU time"


def test_what_others_did_during_a_run_is_kept() -> None:
    class Slow(Scripted):
        def run(self, *words: Any, **settings: Any) -> Run:
            time.sleep(2 * LEAST_LOAD_SECONDS)  # the clock has ticks of 0.01 s
            return super().run(*words, **settings)

    planned = replace(a_round(), configurations=[BASE])
    found = measure_round(planned, Slow(ended(1, 1)), KNOWN, {}, {})[str(BASE)]
    assert found["load"] >= 0 and found["others"] >= 0
    results = Results([gawk()], {}, rounds={"gawk": [{str(BASE): found}]})
    assert results.others() == [found["others"]]
    json.dumps(found)
