# SPDX-License-Identifier: MIT
"""Conditions that fail a comparison, the difference of two comparisons, and builds."""

import json
import os
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from allotrope.commands import compare_suite
from allotrope.features.compare.difference import (
    Difference,
    change_of,
    check_pair,
    compare_pair,
    difference_lines,
    difference_rows,
    difference_sentences,
    judge_changes,
    quotient,
)
from allotrope.features.compare.gate import (
    check_conditions,
    check_gate,
    check_looks,
    check_quantities,
    judge,
    parse_condition,
)
from allotrope.features.compare.output import SCHEMA
from allotrope.features.server.plan import ServerPlan
from allotrope.features.suite.gate import judge_programs, suite_gate_lines
from allotrope.features.suite.measure import Program, Settings, Suite, SuiteRun
from allotrope.statistics.intervals import Estimate
from allotrope.system.allocators import glibc
from allotrope.system.errors import UserError
from conftest import Command
from made_up_suite import ROUNDS, made_up, measured
from under import OWN_MALLOC


INTERRUPTED = {"asked": 12, "interrupted": True}


def quantity(median: float, ratio: tuple[float, float, float], rounds: int = 11) -> dict[str, Any]:
    low, middle, high = ratio
    return {
        "median": median,
        "low": median * 0.9,
        "high": median * 1.1,
        "ratio": middle,
        "ratio_low": low,
        "ratio_high": high,
        "interval": "order-statistic" if rounds >= 9 else "range",
        "coverage": 0.98,
        "rounds": [median] * rounds,
    }


def document(cpu: tuple[float, float, float], rounds: int = 11, **more: Any) -> dict[str, Any]:
    """rounds: those that were measured; as many were asked for, unless `more` says otherwise."""
    one = (1.0, 1.0, 1.0)
    keys = ("wall_seconds", "peak_rss_bytes", "tree_peak_bytes", "minor_faults")
    results = []
    for spec, ratio in (("glibc", one), ("blocks:x=1.5", cpu)):
        results.append(
            {"spec": spec, "status": "ok", "cpu_seconds": quantity(2.0, ratio, rounds)}
            | {key: quantity(100 * 2.0**20, one, rounds) for key in keys}
        )
    return {
        "schema": "allotrope.compare/1",
        "date": "2026-11-23T00:00:00Z",
        "baseline": "glibc",
        "rounds": more.pop("asked", rounds),
        "command": ["x"],
        "machine": {"cpu": "one", "kernel": "6", "libc": "g"},
        "server": None,
        "results": results,
    } | more


class TestConditions:
    @pytest.mark.parametrize(
        "text, cpu, met",
        [
            ("blocks:x=1.5.cpu > 1.05", (1.06, 1.08, 1.10), True),
            ("blocks:x=1.5.cpu > 1.05", (1.04, 1.08, 1.10), None),
            ("blocks:x=1.5.cpu > 1.05", (1.00, 1.02, 1.04), False),
            ("blocks:x=1.5.cpu>5%", (1.06, 1.08, 1.10), True),
            ("blocks:x=1.5.cpu < -10%", (0.8, 0.85, 0.89), True),
            ("blocks:x=1.5.cpu < 1", (0.9, 0.99, 1.0), None),
            ("blocks:x=1.5.cpu <= 1", (0.9, 0.99, 1.0), True),
            ("blocks:x=1.5.cpu >= 1", (0.9, 0.99, 0.999), False),
            ("any.cpu_seconds > 1.05", (1.06, 1.08, 1.10), True),
            ("blocks:x=1.5.cpu > 1.7s", (1, 1, 1), True),
            ("glibc.rss > 120MiB", (1, 1, 1), False),
            ("glibc.memory > 100MiB", (1, 1, 1), None),
        ],
    )
    def test_met_by_the_whole_interval_only(
        self, text: str, cpu: tuple[float, float, float], met: bool | None
    ) -> None:
        (judgement,) = judge([parse_condition(text)], document(cpu))
        assert judgement.met is met, judgement.line

    @pytest.mark.parametrize("bound", ["> 1.05", "> 5%", "< 5s"])
    def test_an_interruption_leaves_a_range_which_decides_nothing(self, bound: str) -> None:
        """However many rounds were asked for; the remedy is said, and of changes too."""
        broken = document((1.2, 1.3, 1.4), rounds=5, **INTERRUPTED)
        condition = parse_condition(f"any.cpu {bound}")
        judgements = judge([condition], broken)
        if condition.unit is None:
            judgements += judge([condition], broken, change_of(document((1, 1, 1)), broken))
            judgements += judge([condition], document((2, 2, 2)), change_of(broken, broken))
        for judgement in judgements:
            assert judgement.met is None
            told = "not decided; more --rounds would tell (5 rounds, too few for an interval): "
            assert told in judgement.line
        suite = judge_programs([condition], {"programs": [entry("a", broken)]})
        assert suite_gate_lines(suite)[1] == "Of 1 judgement: 0 failures, 1 not decided."

    @pytest.mark.parametrize("condition", ["any.cpu > 1s", "any.rss > 1MiB", "any.faults > 2"])
    def test_without_any_round_there_are_no_figures_of_any_quantity(self, condition: str) -> None:
        nothing = document((1, 1, 1), rounds=5, **INTERRUPTED)
        for result in nothing["results"]:
            for key, value in list(result.items()):
                result[key] = None if isinstance(value, dict) else value
        (judgement,) = judge([parse_condition(condition)], nothing)
        assert judgement.met and "no figures" in judgement.line

    def test_no_figures_are_a_failure(self) -> None:
        without = document((1, 1, 1))
        without["results"][1]["cpu_seconds"] = None
        (judgement,) = judge([parse_condition("any.cpu > 2")], without)
        assert judgement.met and "no figures" in judgement.line

    @pytest.mark.parametrize("name", ["tree", "tree_peak_bytes", "major_faults", "end", "p99_us"])
    def test_what_no_contender_has_is_a_failure_and_no_unknown_quantity(self, name: str) -> None:
        """As the tree's peak of a single process, or all of a server of which no run went well."""
        server = {"metrics": [{"name": "p99_us"}], "cpu_quantity": "cpu_per_request_seconds"}
        found = document((1, 1, 1), server=server)
        for result in found["results"]:
            result["tree_peak_bytes"] = None
        (judgement,) = judge([parse_condition(f"any.{name} > 5%")], found)
        assert judgement.met and "no figures" in judgement.line

    def test_a_duet_has_no_wall_times(self) -> None:
        condition = parse_condition("any.wall > 5%")
        contenders = [glibc(), replace(glibc(), spec="blocks")]
        check_gate([condition], contenders, 0, 16)
        with pytest.raises(UserError, match="--duet measures no wall times; leave one out"):
            check_gate([condition], contenders, 0, 16, duet=True)

    @pytest.mark.parametrize(
        "status", ["out-of-reach", "reach-unknown", "different-output", "nondeterministic"]
    )
    @pytest.mark.parametrize("which", [0, 1])
    def test_what_was_not_served_is_a_failure(self, status: str, which: int) -> None:
        """Also of the baseline, and of either of two comparisons."""
        good, other = document((1, 1, 1)), document((1, 1, 1))
        other["results"][which]["status"] = status
        condition = parse_condition("blocks:x=1.5.cpu > 5")
        (judgement,) = judge([condition], other)
        assert judgement.met and status in judgement.line
        for before, after in ((good, other), (other, good)):
            (judgement,) = judge([condition], after, change_of(before, after))
            assert judgement.met, judgement.line

    def test_any_of_nobody_is_refused(self) -> None:
        """Else a gate on the baseline alone would pass, whatever it measures."""
        condition = parse_condition("any.cpu > 5%")
        why = "any is every allocator but the baseline glibc, and no other is compared; add one"
        with pytest.raises(UserError, match=why):
            check_quantities([condition], ["glibc"], "glibc", server=False)
        alone = document((1, 1, 1))
        del alone["results"][1]
        for bound in ("5%", "1s"):
            with pytest.raises(UserError, match=why):
                judge([parse_condition(f"any.cpu > {bound}")], alone)

    @pytest.mark.parametrize("text", ["", "cpu > 1", "a.cpu", "a.cpu = 1", "a.cpu > x"])
    def test_what_is_no_condition(self, text: str) -> None:
        with pytest.raises(UserError, match="is no condition"):
            parse_condition(text)

    def test_questions_that_cannot_be_judged(self) -> None:
        one = parse_condition("blocks.cpu > 1.05")
        with pytest.raises(UserError, match="at least --rounds 9"):
            check_conditions([one], ["blocks"], 8)
        with pytest.raises(UserError, match="no allocator that is compared: glibc, any"):
            check_conditions([one], ["glibc"], 11)
        with pytest.raises(UserError, match="no unit 'MB'"):
            parse_condition("blocks.rss > 5MB")
        with pytest.raises(UserError, match="no quantity 'pages'.*cpu_seconds"):
            judge([parse_condition("any.pages > 1")], document((1, 1, 1)))

    def test_with_until_the_last_look_must_have_an_interval(self, mock: Command) -> None:
        one = [parse_condition("any.cpu > 1.05")]
        assert check_looks(one, 5, 400) == 400 and check_looks([], 5, 9) == 9
        # Three looks share the permitted error, so each needs more rounds than one would.
        with pytest.raises(UserError, match="at least --most-rounds 11; 9 would decide nothing"):
            check_looks(one, 5, 9)
        gate = ("--until=2%", "--most-rounds=8", "--fail-if=any.cpu > 1", "-a", "mock")
        done = mock.run("compare", *gate, "--", "true")
        assert done.returncode == 2 and "at least --most-rounds 9; 8 would" in done.stderr

    @pytest.mark.parametrize(
        "text, why",
        [
            ("any.rss > 5s", "peak_rss_bytes is not in s; valid are %, B, KiB"),
            ("any.cpu > 5MiB", "cpu_seconds is not in MiB; valid are %, us"),
            ("any.faults > 5B", "minor_faults is not in B; valid are a ratio"),
            ("glibc.cpu > 1.05", "glibc is the baseline, whose ratio to itself is 1"),
        ],
    )
    def test_units_and_ratios_that_mean_nothing(self, text: str, why: str) -> None:
        """Before it is measured, and of a document."""
        condition = parse_condition(text)
        with pytest.raises(UserError, match=why):
            judge([condition], document((1, 1, 1)))
        with pytest.raises(UserError, match=why):
            check_quantities([condition], ["glibc", "blocks"], "glibc", server=True)

    def test_a_time_is_held_against_microseconds(self) -> None:
        with_load = document((1, 1, 1))
        for result in with_load["results"]:
            result["metric:p99_us"] = quantity(2000, (1, 1, 1))
        for bound, met in (("1.5ms", True), ("1500us", True), ("2ms", None), ("0.003s", False)):
            (judgement,) = judge([parse_condition(f"any.p99_us > {bound}")], with_load)
            assert judgement.met is met, judgement.line
        with pytest.raises(UserError, match="p99_us is not in KiB"):
            judge([parse_condition("any.p99_us > 1KiB")], with_load)

    def test_what_only_a_load_tells_is_known_afterwards(self) -> None:
        for name in ("p99_us", "mean"):
            condition = parse_condition(f"any.{name} > 2")
            check_quantities([condition], ["glibc", "blocks"], "glibc", server=True)
            with pytest.raises(UserError, match=f"no quantity '{name}'"):
                check_quantities([condition], ["glibc", "blocks"], "glibc", server=False)


def without_figures(document: dict[str, Any]) -> dict[str, Any]:
    """As of a comparison before its first round."""
    results = [
        {key: None if isinstance(value, dict) else value for key, value in one.items()}
        for one in document["results"]
    ]
    return document | {"results": results}


def held(before: dict[str, Any], after: dict[str, Any]) -> Difference:
    return compare_pair(("old.json", before), ("new.json", after))


def rows_of(before: dict[str, Any], after: dict[str, Any]) -> list[list[str]]:
    return difference_rows(held(before, after))


class TestDifference:
    def test_quotient_spans_what_both_intervals_allow(self) -> None:
        before, after = (quantity(1, ratio) for ratio in ((0.9, 1.0, 1.1), (1.8, 2.0, 2.2)))
        found = quotient(before, after, "ratio")
        assert found == Estimate(2.0, 1.8 / 1.1, 2.2 / 0.9)
        assert quotient(None, after, "ratio") is None

    def test_rows_say_less_and_more(self) -> None:
        rows = rows_of(document((1.1, 1.11, 1.12)), document((0.9, 0.91, 0.92)))
        cpu = next(row for row in rows if row[:2] == ["blocks:x=1.5", "CPU"])
        assert cpu[4].startswith("0.820 [0.804, 0.836]") and cpu[5] == "better"

    def test_a_range_of_few_rounds_decides_nothing(self) -> None:
        few = document((1.1, 1.11, 1.12), rounds=8)
        rows = rows_of(few, document((0.9, 0.91, 0.92)))
        assert {row[5] for row in rows[1:]} == {"not decided"}

    def test_with_until_an_interval_needs_more_rounds(self) -> None:
        """Each of several looks has more confidence than one."""
        few, enough = (document((1.1, 1.11, 1.12), confidence=1 - 0.005 / 9) for _ in range(2))
        for key, value in few["results"][1].items():
            if isinstance(value, dict):
                few["results"][1][key] = value | {"interval": "range"}
        note = "Below 12 rounds there is no interval but a range, which decides nothing."
        assert note in check_pair(few, enough) and note in check_pair(enough, few)

    @pytest.mark.parametrize("later", [False, True])
    def test_nor_does_what_an_interruption_left(self, later: bool) -> None:
        pair = [document((1.1, 1.11, 1.12), 5, **INTERRUPTED), document((0.9, 0.91, 0.92))]
        found = held(*(reversed(pair) if later else pair))
        assert {row[5] for row in difference_rows(found)[1:]} == {"not decided"}
        assert found.notes == [
            "Below 9 rounds there is no interval but a range, which decides nothing.",
            f"The {'later' if later else 'earlier'} comparison was interrupted; its figures are of "
            "the rounds before that.",
        ]

    def test_what_has_no_round_is_named(self) -> None:
        early, whole = without_figures(document((1, 1, 1))), document((1, 1, 1))
        files = {"old.json": (early, whole), "new.json": (whole, early)}
        files["old.json and new.json"] = (early, early)
        for names, pair in files.items():
            found = held(*pair)
            (sentence,) = difference_sentences(found)
            have = "have" if " and " in names else "has"
            assert str(sentence) == f"Nothing to compare: {names} {have} no figures."
            assert not any(line.startswith("change:") for line in difference_lines(found))
        one, other = (document((1, 1, 1)) for _ in range(2))
        one["results"][0], other["results"][1] = (
            without_figures(one)["results"][0],
            without_figures(other)["results"][1],
        )
        (sentence,) = difference_sentences(held(one, other))
        assert sentence.text == "no allocator has figures in both."

    def test_what_ended_otherwise_is_told_too(self) -> None:
        early = without_figures(document((1, 1, 1), interrupted=True))
        broken = document((1, 1, 1), incomplete="glibc failed in round 10")
        assert held(early, broken).notes == [
            "The earlier comparison was interrupted before its first round.",
            "The later comparison is incomplete: glibc failed in round 10.",
        ]

    def test_little_memory_is_told_in_the_table_and_by_the_gate_alone(self) -> None:
        pair = [measured("a", (9.0, size))["comparison"] for size in (2.0, 2.5)]
        pair[0] |= {"date": "", "command": ["x"]}
        found = held(*pair)
        memory = next(row for row in difference_rows(found) if row[:2] == ["mock", "memory"])
        assert memory[4:] == ["1.250 [1.250, 1.250]", "worse by 512 KiB"]
        assert [str(one) for one in difference_sentences(found)] == [
            "Of 6 changes: 0 worse, 0 better, 5 the same within 2%, 0 not decided, 1 of memory "
            "below 1.0 MiB, or perhaps so."
        ]
        assert "a difference below 1.0 MiB is not told on top" in difference_lines(found)[1]
        (judgement,) = judge([parse_condition("any.memory > 5%")], pair[1], change_of(*pair))
        assert judgement.met and judgement.line.endswith("1.250 [1.250, 1.250], below 1.0 MiB")

    def test_a_ratio_that_fell_for_the_baselines_growth_is_no_better_memory(self) -> None:
        before, after = (measured("a", sizes)["comparison"] for sizes in ((10, 20), (30, 31)))
        found = held(before, after)
        assert [str(one) for one in difference_sentences(found)[1:]] == [
            "Worse: glibc in memory.",
            "Better against glibc alone: mock in memory.",
        ]
        assert "against glibc alone: the ratio changed so" in difference_lines(found)[1]

    def test_the_threshold_is_the_later_comparisons(self) -> None:
        pair = document((1.1, 1.11, 1.12)), document((0.9, 0.91, 0.92), threshold=0.5)
        cpu = next(row for row in rows_of(*pair) if row[:2] == ["blocks:x=1.5", "CPU"])
        assert cpu[5] == "same"
        assert "by more than 50%." in difference_lines(held(*pair))[0]
        pair[1]["threshold"] = 0.125
        assert "by more than 12.5%." in difference_lines(held(*pair))[0]

    def test_what_was_not_served_has_no_verdict(self) -> None:
        before, after = document((1.1, 1.11, 1.12)), document((0.9, 0.91, 0.92))
        before["results"][1]["status"] = "out-of-reach"
        rows = rows_of(before, after)
        assert {row[5] for row in rows[1:] if row[0] != "glibc"} == {""}
        assert any(
            "out-of-reach in the earlier comparison" in one for one in check_pair(before, after)
        )

    def test_what_does_not_go_together(self) -> None:
        one, other = document((1, 1, 1)), document((1, 1, 1), baseline="blocks:x=1.5")
        with pytest.raises(UserError, match="different baselines"):
            check_pair(one, other)
        notes = check_pair(one, document((1, 1, 1), command=["y"], machine={"cpu": "two"}))
        assert notes[0] == "The commands differ."
        assert "The machine's cpu differs: one, then two." in notes
        other = document((1, 1, 1))
        other["results"][1]["version"] = "2"
        assert "The version of blocks:x=1.5 differs: None, then 2." in check_pair(one, other)

    def test_other_work_of_the_same_command_is_told(self) -> None:
        settings = {"input": None, "prepare": "sync", "duet": False}
        server = {"metrics": [], "cpu_quantity": "cpu_seconds", "setup": None, "load": "ab -n 9"}
        one = document((1, 1, 1), settings=settings, server=server)
        other = document(
            (1, 1, 1),
            settings={"input": "data", "prepare": "true", "duet": True},
            server=server | {"setup": "fill", "load": "ab -n 10"},
        )
        assert check_pair(one, one) == []
        assert check_pair(one, other) == [
            "The input differs: none, then data.",
            "The preparation differs: sync, then true.",
            "The setup differs: none, then fill.",
            "The load differs: ab -n 9, then ab -n 10.",
            "Only the later comparison is a duet.",
        ]

    def test_any_is_whoever_is_in_both(self) -> None:
        """Who is only in the later one has no change. By name it is asked for in vain."""
        before, after = document((1, 1, 1)), document((1, 1, 1))
        after["results"].append(after["results"][1] | {"spec": "new"})
        (judgement,) = judge_changes([parse_condition("any.cpu > 5%")], before, after)
        assert judgement.spec == "blocks:x=1.5" and judgement.met is False
        (judgement,) = judge_changes([parse_condition("new.cpu > 5%")], before, after)
        assert judgement.met and "no figures" in judgement.line
        pair = ({"programs": [entry("a", one)]} for one in (before, after))
        judged = judge_programs([parse_condition("any.cpu > 5%")], *reversed([*pair]))
        assert [one.met for one in judged["a"]] == [False]
        del before["results"][1]
        with pytest.raises(UserError, match="no allocator but the baseline .* is in both"):
            judge_changes([parse_condition("any.cpu > 5%")], before, after)

    def test_a_figure_that_was_nought_has_no_ratio(self) -> None:
        """Nor one that may have been."""
        one = quantity(1, (1.0, 1.0, 1.0))
        assert quotient(quantity(1, (0.0, 0.5, 1.0)), one, "ratio") is None
        assert quotient(quantity(1, (-1.0, 0.5, 1.0)), one, "ratio") is None
        assert quotient(one, quantity(1, (-1.0, 0.5, 1.0)), "ratio") is None

    def test_on_the_command_line(self, real: Command, tmp_path: Path) -> None:
        files = []
        for name, cpu in (("old", (0.98, 1.0, 1.02)), ("new", (1.3, 1.31, 1.32))):
            files.append(tmp_path / f"{name}.json")
            files[-1].write_text(json.dumps(document(cpu)))
        line = ["compare", "--from", str(files[1]), "--against", str(files[0])]
        done = real.run(*line)
        assert done.returncode == 0 and "1.310 [1.275, 1.347]  worse" in done.stdout
        done = real.run(*line, "--fail-if", "any.cpu > 1.2")
        assert done.returncode == 3 and "yes, failed" in done.stdout
        done = real.run("compare", "--from", str(files[0]), "--fail-if", "any.cpu > 1.2")
        assert done.returncode == 0 and "Fail if any.cpu > 1.2" in done.stdout
        broken = document((1.3, 1.31, 1.32), rounds=5, **INTERRUPTED)
        files[1].write_text(json.dumps(broken))
        for words in (line, line[:3]):
            done = real.run(*words, "--fail-if", "any.cpu > 1.2")
            assert done.returncode == 0 and "not decided; more --rounds" in done.stdout
        files[1].write_text(json.dumps(document((1.3, 1.31, 1.32))))
        done = real.run("compare", "--against", str(files[0]), "--", "ls")
        assert done.returncode == 2 and "--against needs --from" in done.stderr
        done = real.run(*line, "--rounds", "3")
        assert done.returncode == 2 and "leave out --rounds" in done.stderr
        forms = ["--csv", "changes.csv", "--html", "changes.html", "--markdown", "-"]
        done = real.run(*line, *forms, cwd=tmp_path)
        assert done.returncode == 0 and "**Worse:** blocks:x=1.5 in CPU." in done.stdout
        assert ",blocks:x=1.5,cpu_seconds,ratio," in (tmp_path / "changes.csv").read_text()
        assert "What has changed: " in (tmp_path / "changes.html").read_text()

    def test_as_json(self, real: Command, tmp_path: Path) -> None:
        for name, cpu in (("old", (0.98, 1.0, 1.02)), ("new", (1.3, 1.31, 1.32))):
            (tmp_path / f"{name}.json").write_text(json.dumps(document(cpu)))
        line = ["compare", "--from", "new.json", "--fail-if", "any.cpu > 1.2", "--json"]
        done = real.run(*line, "-", "--against", "old.json", cwd=tmp_path)
        assert done.returncode == 3 and "1.310 [1.275, 1.347]  worse" in done.stderr
        found = json.loads(done.stdout)
        assert found["schema"] == "allotrope.difference/1"
        assert (found["before"]["file"], found["after"]["file"]) == ("old.json", "new.json")
        cpu = [one for one in found["changes"] if one["quantity"] == "cpu_seconds"]
        assert [(one["spec"], one["of"]) for one in cpu] == [
            ("glibc", "figure"),
            ("blocks:x=1.5", "ratio"),
        ]
        assert cpu[1]["change"] == pytest.approx(1.31) and cpu[1]["verdict"] == "worse"
        assert cpu[1]["change_low"] == pytest.approx(1.3 / 1.02)
        assert [(one["spec"], one["met"]) for one in found["conditions"]] == [
            ("blocks:x=1.5", True)
        ]
        done = real.run(*line, "old.json", "--against", "old.json", cwd=tmp_path)
        assert done.returncode == 2 and "--json: old.json is already read" in done.stderr
        done = real.run(*line, "-", cwd=tmp_path)
        assert done.returncode == 2 and "needs --against" in done.stderr


def entry(name: str, comparison: Any, status: str = "measured") -> dict[str, Any]:
    reason = None if comparison else "no such program"
    return {
        "name": name,
        "host": None,
        "status": status,
        "reason": reason,
        "comparison": comparison,
    }


class TestSuites:
    def test_each_program_is_judged(self) -> None:
        programs = [
            entry("slow", document((1.2, 1.3, 1.4))),
            entry("fast", document((0.8, 0.8, 0.9))),
            entry("near", document((1.0, 1.04, 1.1))),
            entry("broken", None, "failed"),
            entry("absent", None, "skipped"),
        ]
        judged = judge_programs([parse_condition("any.cpu > 1.05")], {"programs": programs})
        met = {name: [one.met for one in judgements] for name, judgements in judged.items()}
        assert met == {
            "slow": [True],
            "fast": [False],
            "near": [None],
            "broken": [True],
            "absent": [],
        }
        lines = suite_gate_lines(judged)
        assert [line.split(":")[0] for line in lines[:3]] == ["slow", "near", "broken"]
        assert "no such program" in lines[2]
        assert lines[3] == "Of 4 judgements: 2 failures, 1 not decided."
        assert lines[4] == "Not judged, since left out: absent."

    def test_on_the_command_line(self, real: Command, tmp_path: Path) -> None:
        suite = '[[program]]\nname = "a"\ncommand = ["echo", "a"]\n'
        (tmp_path / "suite.toml").write_text(f'title = "one"\n{suite}')
        words = ["--suite", "suite.toml", "-a", "glibc", "-a", "bsd", "--warmup=0", "--rounds=9"]
        line = ["compare", *words, "--json", "suite.json", "--fail-if"]
        done = real.run(*line, "any.rss > 1.5GiB", cwd=tmp_path)
        assert done.returncode == 0 and "1 judgement: 0 failures" in done.stdout, done.stderr
        done = real.run(*line, "bsd.rss > 1KiB", cwd=tmp_path)
        assert done.returncode == 3 and "a: fail if bsd.rss > 1KiB: yes" in done.stdout
        again = ["compare", "--from", "suite.json", "--fail-if"]
        done = real.run(*again, "bsd.rss > 1KiB", cwd=tmp_path)
        assert done.returncode == 3 and "a: fail if bsd.rss > 1KiB: yes" in done.stdout
        assert real.run(*again, "bsd.rss > 1GiB", cwd=tmp_path).returncode == 0
        done = real.run("compare", *words, "--fail-if", "bsd.speed > 1", cwd=tmp_path)
        assert done.returncode == 2 and "there is no quantity 'speed'" in done.stderr

    def test_a_damaged_suite_is_one_line(self, real: Command, tmp_path: Path) -> None:
        (tmp_path / "damaged.json").write_text('{"schema": "allotrope.suite/1", "programs": 7}')
        line = ["compare", "--from", "damaged.json", "--fail-if", "any.cpu > 1"]
        done = real.run(*line, cwd=tmp_path)
        assert done.returncode == 2 and "damaged.json is damaged: " in done.stderr

    def test_a_bound_is_kept_by_little_memory_too(self) -> None:
        """It is the user's own; that the difference is little is said."""
        conditions = [parse_condition("any.memory > 5%")]
        words = ((1.5, ", below 1.0 MiB"), (3.0, ", perhaps below 1.0 MiB"), (15.0, ""))
        for base, word in words:
            programs = [measured("p", (base, [1.3 * base, 1.4 * base] * (ROUNDS // 2)))]
            judged = judge_programs(conditions, {"programs": programs})
            assert suite_gate_lines(judged)[0] == (
                f"p: fail if any.memory > 5% (mock): yes, failed: 1.349 [1.300, 1.400]{word}."
            )

    def test_of_a_scan(self, real: Command) -> None:
        words = ["-a", "glibc", "-a", "bsd", "--warmup=0", "--rounds=9", "--vary=n=1,2"]
        line = ["compare", *words, "--fail-if", "bsd.rss > 1KiB", "--", "echo", "{n}"]
        done = real.run(*line)
        assert done.returncode == 3 and "Of 2 judgements: 2 failures" in done.stdout, done.stderr

    def test_a_condition_that_cannot_be_judged_costs_no_result(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """What a server's load does not print is known afterwards."""
        program = Program("a", ["x"], server=ServerPlan("x", "true", "true"))
        suite = Suite(tmp_path / "suite.toml", "made up", [program])
        contenders = [glibc(), replace(glibc(), spec="mock")]
        run = SuiteRun(suite, Settings(contenders, 0, 16, 0), tmp_path / "state")
        found = made_up([measured("a", (2, 2))])
        monkeypatch.setattr(compare_suite, "measure_suite", lambda *_: None)
        monkeypatch.setattr(compare_suite.suite_output, "suite_document", lambda _: found)
        gate, file = [parse_condition("any.p99_us > 5%")], tmp_path / "result.csv"
        with pytest.raises(UserError, match="there is no quantity 'p99_us'"):
            compare_suite.compare_suite(run, False, {"--csv": str(file)}, gate)
        assert "mock,ok,peak_rss_bytes" in file.read_text()


class TestBuilds:
    @pytest.fixture
    def programs(self, tmp_path: Path) -> list[str]:
        """The same program, once with ten times the work."""
        source = tmp_path / "work.c"
        source.write_text(
            "#include <stdio.h>\nint main(int argc, char **argv) { volatile long sum = 0;"
            'for (long i = 0; i < WORK; i++) sum += i; return puts(argc > 1 ? argv[1] : "") < 0; }'
        )
        compiler = os.environ.get("CC", "cc").split()
        names = []
        for name, work in (("short", 10**7), ("long", 10**8)):
            names.append(str(tmp_path / name))
            line = [*compiler, f"-DWORK={work}L", "-o", names[-1], str(source)]
            subprocess.run(line, check=True)
        return names

    def test_first_is_the_baseline_and_a_slower_one_is_caught(
        self, real: Command, tmp_path: Path, programs: list[str]
    ) -> None:
        file = tmp_path / "result.json"
        builds = [f"--build=old={programs[0]}", f"--build=new={programs[1]}"]
        options = ["--rounds=9", "--warmup=0", f"--json={file}", "--fail-if=new.cpu > 2"]
        done = real.run("compare", *builds, *options, "--", "{build}", "hello")
        assert done.returncode == 3, done.stderr
        found = json.loads(file.read_text())
        assert found["baseline"] == "old"
        assert [one["spec"] for one in found["results"]] == ["old", "new"]
        assert [one["status"] for one in found["results"]] == ["ok", "ok"]

    def test_builds_with_a_malloc_of_their_own_are_judged(
        self, real: Command, tmp_path: Path
    ) -> None:
        """What differs is the build, whoever serves it."""
        work = "int main(void) { for (volatile long i = 0; i < WORK; i++) ; return !malloc(9); }"
        (tmp_path / "work.c").write_text(OWN_MALLOC + work)
        compiler = os.environ.get("CC", "cc").split()
        builds = []
        for name, work in (("old", "10000000"), ("new", "100000000")):
            line = [*compiler, f"-DWORK={work}", "-o", str(tmp_path / name)]
            subprocess.run([*line, str(tmp_path / "work.c")], check=True)
            builds.append(f"--build={name}={tmp_path / name}")
        file = tmp_path / "result.json"
        options = ["--rounds=9", "--warmup=0", f"--json={file}", "--markdown=-"]
        done = real.run("compare", *builds, *options, "--", "{build}")
        assert done.returncode == 0, done.stderr
        found = json.loads(file.read_text())
        assert [one["status"] for one in found["results"]] == ["ok", "ok"]
        assert found["results"][1]["cpu_seconds"]["verdict"] == "worse"
        assert "**Choice:** stay with old" in done.stdout
        assert "In new glibc did not serve new (it has a malloc of its own)" in done.stdout
        options = ["-a", "glibc", "-a", "blocks", "--rounds=9", "--fail-if=any.cpu > 9"]
        done = real.run("compare", *builds, *options, "--", "{build}")
        assert done.returncode == 3, "a condition on figures without a verdict"
        assert "To compare the builds as they are, give no -a" in " ".join(done.stdout.split())

    def test_under_several_allocators(self, real: Command, programs: list[str]) -> None:
        builds = [f"--build=old={programs[0]}", f"--build=new={programs[0]}"]
        options = ["-a", "glibc", "-a", "bsd", "--rounds=1", "--warmup=0", "--json=-"]
        done = real.run("compare", *builds, *options, "--", "{build}", "x")
        assert done.returncode == 0, done.stderr
        specs = [one["spec"] for one in json.loads(done.stdout)["results"]]
        assert specs == ["old/glibc", "old/bsd", "new/glibc", "new/bsd"]

    def test_the_baseline_is_the_first_build_under_the_one_that_is_named(
        self, mock: Command
    ) -> None:
        builds = ["--build=old=true", "--build=new=true", "-a", "glibc", "-a", "mock"]
        options = ["--baseline=mock", "--rounds=1", "--warmup=0", "--json=-"]
        done = mock.run("compare", *builds, *options, "--", "{build}")
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout)["baseline"] == "old/mock"

    @pytest.mark.parametrize(
        "words, said",
        [
            (["--build=a=ls", "--build=b=ls", "--", "ls"], "write {build} in the command"),
            (["--build=a=ls", "--", "{build}"], "one build alone"),
            (["--build=ls", "--", "{build}"], "not of the form NAME=PROGRAM"),
            (["--build=any=ls", "--build=b=ls", "--", "{build}"], "'any' is every one of them"),
            (["--build=a=ls", "--build=a=ls", "--", "{build}"], "'a' is given twice"),
            (
                ["--build=a=ls", "--build=b=/no/such", "--", "{build}"],
                "/no/such: command not found",
            ),
        ],
    )
    def test_refused(self, real: Command, words: list[str], said: str) -> None:
        done = real.run("compare", *words)
        assert done.returncode in (2, 127) and said in done.stderr, done.stderr


@pytest.mark.parametrize(
    "words",
    [
        ["--html", "page.html"],
        ["--fail-if", "any.cpu > 1"],
        ["--against", "damaged.json"],
    ],
)
@pytest.mark.parametrize("rest", ["", ', "results": [{}], "rounds": 16', ', "results": 7'])
def test_a_damaged_document_is_one_line(
    real: Command, tmp_path: Path, words: list[str], rest: str
) -> None:
    file = tmp_path / "damaged.json"
    file.write_text(f'{{"schema": "{SCHEMA}"{rest}}}')
    done = real.run("compare", "--from", str(file), *words, cwd=tmp_path)
    assert done.returncode == 2 and done.stderr.count("\n") == 1
    assert "damaged.json is damaged: " in done.stderr
