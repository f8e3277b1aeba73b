# SPDX-License-Identifier: MIT
"""tests/measure/two_studies.py on studies that are made up: two of one world agree as often as
chance lets them, one of another world is seen, and what is counted is told when it differs."""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path
from typing import Any

import pytest
from under import SOURCE

sys.path.append(str(SOURCE / "tests" / "measure"))
import two_studies  # noqa: E402

ROUNDS = 30
PROGRAMS = ("cfrac", "gawk", "perl", "yacr")
CONFIGURATIONS = tuple(f"optimised allocator-{number}" for number in range(10))
BARRIERS = ("oracle", "remsets", *(f"cards-{number}" for number in range(10)))
BENCHMARKS = ("destroy", "interactive")
SEEDS = 12
NOISE, LAYOUT = 0.03, 0.10  # of a run; of what a layout does to a figure, in both studies alike
Steps = dict[tuple[str, str], Any]  # by kind and name
SHIFTED = 0.05


def layout_effect(what: str, number: int) -> float:
    return random.Random(f"{what} {number}").gauss(0, LAYOUT)


def zorn(seed: int, shift: dict[str, float] = {}) -> Steps:
    """shift: by configuration, what its time is more than in the other world."""
    noise = random.Random(seed)

    def run(program: str, one: str, number: int) -> dict[str, float]:
        effect = layout_effect(program + one, number) + noise.gauss(0, NOISE)
        return {"cpu": (1 + shift.get(one, 0)) * 2.718**effect, "padding": 100 * number}

    return {
        ("round", f"{program} {number}"): {
            one: run(program, one, number) for one in (two_studies.BASELINE, *CONFIGURATIONS)
        }
        for program in PROGRAMS
        for number in range(1, ROUNDS + 1)
    }


def barriers(seed: int, shift: dict[str, float] = {}) -> Steps:
    noise = random.Random(seed)

    def run(name: str, barrier: str, number: int) -> dict[str, Any]:
        effect = layout_effect(name + barrier, number) + noise.gauss(0, NOISE)
        return {"ns": {"running": 1e6 * (1 + shift.get(barrier, 0)) * 2.718**effect}}

    found: Steps = {("instructions", "cards-1024"): {"old_into_old": 5.0}}
    for name in BENCHMARKS:
        for number in range(1, ROUNDS + 1):
            runs = {one: run(name, one, number) for one in BARRIERS}
            found["round", f"{name} {number}"] = {"order": f"-order{number}", "barriers": runs}
    return found


def written(folder: Path, study: Steps) -> Path:
    for (kind, name), result in study.items():
        (folder / "steps" / kind).mkdir(parents=True, exist_ok=True)
        (folder / "steps" / kind / f"{name}.json").write_text(json.dumps({"result": result}))
    return folder


WORLDS = pytest.mark.parametrize(
    "make, differences, moved",
    [
        (zorn, two_studies.zorn_differences, "optimised allocator-3"),
        (barriers, two_studies.barriers_differences, "cards-3"),
    ],
)


@WORLDS
def test_of_two_studies_of_one_world_about_95_percent_contain_0(
    make: Any, differences: Any, moved: str, tmp_path: Path
) -> None:
    inside = []
    for seed in range(SEEDS):
        one = written(tmp_path / f"{seed} one", make(2 * seed))
        two = written(tmp_path / f"{seed} two", make(2 * seed + 1))
        inside += [low <= 0 <= high for low, _, high in differences(one, two).values()]
    assert len(inside) >= SEEDS * 40
    assert 0.93 < sum(inside) / len(inside) < 0.97


@WORLDS
def test_a_shifted_world_is_seen(make: Any, differences: Any, moved: str, tmp_path: Path) -> None:
    """By less than a layout does, and more than two runs in one layout differ by."""
    one = written(tmp_path / "one", make(1))
    two = written(tmp_path / "two", make(2, {moved: SHIFTED}))
    found = {key: at for key, at in differences(one, two).items() if moved in f"{key} "}
    assert found
    for low, middle, high in found.values():
        assert low > 0 and abs(middle - SHIFTED) < 0.03


@WORLDS
def test_where_many_are_shifted_the_studies_do_not_agree(
    make: Any, differences: Any, moved: str, tmp_path: Path
) -> None:
    many = dict.fromkeys([*CONFIGURATIONS[:3], *BARRIERS[2:5]], SHIFTED)
    one, two = written(tmp_path / "one", make(1)), written(tmp_path / "two", make(2, many))
    assert not two_studies.compare_times(one, two)


@WORLDS
def test_rounds_of_different_layouts_are_no_pair(
    make: Any, differences: Any, moved: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = make(2)
    for (kind, name), result in other.items():
        if kind == "round" and name.endswith(" 7"):
            result["order"] = "-order8"
            for run in result.values():
                if "padding" in run:
                    run["padding"] += 16
    if make is zorn:
        for result in other.values():
            result.pop("order", None)
    differences(written(tmp_path / "one", make(1)), written(tmp_path / "two", other))
    count = len(PROGRAMS if make is zorn else BENCHMARKS)
    assert f"{count} rounds have another layout in the other study" in capsys.readouterr().out


@WORLDS
def test_a_failed_run_takes_its_own_round_only(
    make: Any, differences: Any, moved: str, tmp_path: Path
) -> None:
    """And a baseline's all of its round."""
    one, other = make(1), make(2)
    baseline = two_studies.BASELINE if make is zorn else two_studies.BARRIERS_BASELINE
    subject = next(name for kind, name in other if kind == "round" and name.endswith(" 7"))
    for number, failed in ((7, moved), (9, baseline)):
        result = other["round", subject.replace(" 7", f" {number}")]
        result.get("barriers", result)[failed] = {"failure": "timed out"}
    found = differences(written(tmp_path / "one", one), written(tmp_path / "two", other))
    assert all(abs(middle) < SHIFTED for _, middle, _ in found.values())
    whole = differences(written(tmp_path / "a", make(1)), written(tmp_path / "b", make(2)))
    assert found.keys() == whole.keys()
    changed = {key for key in found if found[key] != whole[key]}
    assert changed and all(key.startswith(subject.split()[0]) for key in changed)


def test_counted_figures_that_differ_are_listed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def study(peak: int, births: int) -> Steps:
        return {
            ("account", "gawk optimised bsd-classic"): {"heap": {"mapped_peak_bytes": peak}},
            ("events", "gawk unoptimised cartesian-classic"): {"objects": births, "bytes": 5},
        }

    one, two = written(tmp_path / "one", study(4096, 7)), written(tmp_path / "two", study(8192, 7))
    assert two_studies.compare_exact(one, two) == 1
    told = capsys.readouterr().out
    assert "gawk optimised bsd-classic: 1 differ: mapped_peak_bytes 4096 and 8192" in told
    assert "events: 2 figures are identical, 0 are not" in told
    assert two_studies.compare_exact(one, one) == 0


@WORLDS
def test_what_was_kept_of_two_studies_tells_what_their_folders_tell(
    make: Any, differences: Any, moved: str, tmp_path: Path
) -> None:
    kinds, subject = ({"round": "rounds"}, "program") if make is zorn else ({}, "name")

    def kept(name: str, study: Steps) -> Path:
        steps = [
            {"kind": kinds.get(kind, kind), subject: step.rsplit(" ", 1)[0], "result": result}
            for (kind, step), result in study.items()
        ]
        (tmp_path / name).write_text(json.dumps({"steps": steps}))
        return tmp_path / name

    one, two = make(1), make(2, {moved: SHIFTED})
    of_folders = differences(written(tmp_path / "one", one), written(tmp_path / "two", two))
    assert differences(kept("one.json", one), kept("two.json", two)) == of_folders
    assert two_studies.is_of_barriers(tmp_path / "one.json") == (make is barriers)
