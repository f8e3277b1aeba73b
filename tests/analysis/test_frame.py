# SPDX-License-Identifier: MIT
"""The frame of all studies, under a study of nothing: whose folder it is, what a failure changes,
and steps that others have damaged."""

import json
from pathlib import Path
from typing import Any, Callable, Mapping

import pytest
from allotrope.study import frame
from allotrope.study.frame import Asked, Opener
from allotrope.study.report import Report
from allotrope.study.store import Step, Store
from allotrope.study.work import Announce, Share, Work
from allotrope.system.errors import UserError

NAMES = ("one", "two")


class Planned:
    def __init__(self, name: str) -> None:
        self.step = Step("round", name, {}, 1.0)


class Nothing:
    """Its steps have names alone; a step's result is its name in capitals."""

    name = "nothing"

    def __init__(self, during: Callable[[], None] = lambda: None) -> None:
        self.during = during

    def rounds(self, quick: bool) -> int:
        return 7

    def begin(self, asked: Asked, announce: Announce) -> tuple[Mapping[str, Any], Opener]:
        if asked.more.get("missing"):
            raise UserError("something is missing")
        return {}, lambda store: NothingWork(store, announce, asked.only or NAMES, self.during)

    def words(self, asked: Asked) -> list[str]:
        return []

    def report_from(self, measurements: Path) -> Report:
        raise NotImplementedError


class NothingWork(Work[Planned]):
    def __init__(
        self, store: Store, announce: Announce, only: Any, during: Callable[[], None]
    ) -> None:
        super().__init__(store, announce)
        self.only, self.during = only, during
        self.found: dict[str, Any] = {}

    def known_steps(self) -> list[Planned]:
        return [Planned(name) for name in self.only]

    def shares(self) -> list[Share[Planned]]:
        return [Share([one.step.name], [one]) for one in self.known_steps()]

    def prepare(self, folder: Path) -> list[Planned]:
        return self.known_steps()

    def measure(self, planned: Planned, folder: Path) -> Any:
        self.during()
        return {"name": planned.step.name.upper()}

    def keep(self, planned: Planned, found: Any) -> None:
        self.found[planned.step.name] = found["name"]

    def nothing(self) -> str | None:
        return None if self.found else "no program was measured"

    def measurements(self) -> str:
        return json.dumps(self.found)


def contents(folder: Path) -> dict[str, bytes]:
    return {str(file): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


class Trial:
    def __init__(self, folder: Path) -> None:
        self.folder = folder / "out"
        self.said: list[str] = []

    def measure(self, asked: Asked, study: Nothing = Nothing()) -> dict[str, str]:
        file = frame.measure(study, self.folder, asked, self.said.append)
        found: dict[str, str] = json.loads(file.read_text())
        return found

    def step(self, name: str) -> Path:
        return self.folder / "steps" / "round" / f"{name}.json"


@pytest.fixture
def trial(tmp_path: Path) -> Trial:
    return Trial(tmp_path)


def test_a_second_study_does_not_enter_whatever_it_asks(trial: Trial) -> None:
    """Not even when what it asks would replace study.json."""
    refused = []

    def second() -> None:
        for rounds in (1, 2):
            with pytest.raises(UserError) as error:
                trial.measure(Asked(resume=True, rounds=rounds))
            refused.append(str(error.value))

    trial.measure(Asked(rounds=3), Nothing(second))
    assert refused == 4 * [f"another study is at work in {trial.folder}; wait for its end"]
    assert json.loads((trial.folder / "study.json").read_text())["rounds"] == 3
    trial.measure(Asked(resume=True, rounds=1))  # nobody is at work any more


@pytest.mark.parametrize(
    "asked, reason",
    [
        (Asked(resume=True, report_only=True, only=("two",)), "no program was measured"),
        (Asked(resume=True, only=("two",), more={"missing": True}), "something is missing"),
        (Asked(resume=True, quick=True), "begun without --quick"),
        (Asked(rounds=3), "continue it with --resume"),
    ],
)
def test_what_fails_changes_nothing(trial: Trial, asked: Asked, reason: str) -> None:
    trial.measure(Asked(only=("one",)))
    before = contents(trial.folder)
    with pytest.raises(UserError, match=reason):
        trial.measure(asked)
    assert contents(trial.folder) == before
    assert trial.measure(Asked(resume=True, report_only=True)) == {"one": "ONE"}


def test_a_study_that_cannot_begin_leaves_no_folder(trial: Trial) -> None:
    with pytest.raises(UserError, match="something is missing"):
        trial.measure(Asked(more={"missing": True}))
    with pytest.raises(UserError, match="holds no study"):
        trial.measure(Asked(resume=True))
    assert not trial.folder.exists()


def test_an_interrupted_study_keeps_what_was_asked(trial: Trial) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    trial.measure(Asked(only=("one",)))
    with pytest.raises(KeyboardInterrupt):
        trial.measure(Asked(resume=True, only=("one", "two")), Nothing(interrupt))
    assert trial.measure(Asked(resume=True)) == {"one": "ONE", "two": "TWO"}


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"fingerprint": "x"}', '{"result": {}}'])
def test_a_damaged_step_is_named_and_measured_again(trial: Trial, text: str) -> None:
    trial.measure(Asked())
    trial.step("two").write_text(text)
    assert trial.measure(Asked(resume=True, report_only=True)) == {"one": "ONE"}
    assert f"{trial.step('two')} is damaged: it is left out" in trial.said[-1]
    trial.said.clear()
    assert trial.measure(Asked(resume=True)) == {"one": "ONE", "two": "TWO"}
    assert f"{trial.step('two')} is damaged: it is measured again" in trial.said


@pytest.mark.parametrize("report_only", [False, True])
def test_a_result_of_another_shape_names_its_file(trial: Trial, report_only: bool) -> None:
    trial.measure(Asked())
    saved = json.loads(trial.step("two").read_text())
    trial.step("two").write_text(json.dumps(saved | {"result": {}}))
    with pytest.raises(UserError) as error:
        trial.measure(Asked(resume=True, report_only=report_only))
    assert str(error.value) == (
        f"{trial.step('two')} is damaged: KeyError 'name'; remove it: --resume measures it again"
    )
    trial.step("two").unlink()
    assert trial.measure(Asked(resume=True)) == {"one": "ONE", "two": "TWO"}


@pytest.mark.parametrize("text", ["", "[]", "7", '"study"'])
def test_a_damaged_study_is_named(trial: Trial, text: str) -> None:
    trial.measure(Asked())
    file = trial.folder / "study.json"
    file.write_text(text)
    with pytest.raises(UserError) as error:
        trial.measure(Asked(resume=True))
    assert str(error.value) == f"{file} is damaged; begin anew with another --out"
