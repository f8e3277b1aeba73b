# SPDX-License-Identifier: MIT
"""Suites: what a file may say, what is measured, interruption, and the means over programs."""

import json
import math
import os
import random
import re
import signal
import statistics
import subprocess
import time
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from allotrope.features.compare.difference import Difference, difference_sentences
from allotrope.features.compare.page import compare_page
from allotrope.features.suite import page as suite_page
from allotrope.features.suite.difference import change_tables, compare_suites
from allotrope.features.suite.means import mean_ratio, means, memory_that_counts
from allotrope.features.suite.output import as_csv, as_markdown, recommend_suite
from allotrope.features.suite.tables import means_rows, program_rows, served_rows
from allotrope.output import page
from allotrope.statistics.resampling import geometric_mean
from allotrope.system.errors import UserError
from made_up_suite import ROUNDS, made_up, measured
from browser import DESKTOP, PHONE, Browser, browser  # noqa: F401
from conftest import Command
from under import HANG, SOURCE
from test_compare import SCHEMA as COMPARISON
from test_compare import closed, keys

MEAN = closed(
    dict.fromkeys(("ratio", "low", "high", "programs", "rounds", "machines"), {"type": "number"})
    | {"verdict": {"enum": ["better", "worse", "same", "not decided", None]}},
    ["object", "null"],
)
PROGRAM = closed(
    {
        "name": {"type": "string"},
        "host": {"type": ["string", "null"]},
        "status": {"enum": ["measured", "skipped", "failed", "not-measured"]},
        "reason": {"type": ["string", "null"]},
        "comparison": {"anyOf": [{"type": "null"}, COMPARISON]},
    }
)
QUANTITIES = ["cpu_seconds", "wall_seconds", "memory_bytes", "minor_faults"]
MEANS = {"additionalProperties": MEAN, "required": [*QUANTITIES, "counted_memory_bytes"]}
POOLED = {"additionalProperties": MEAN, "required": QUANTITIES}
MACHINE = closed(
    {
        "host": {"type": "string"},
        "kind": {"type": "string"},
        "noise": {"type": ["number", "null"]},
        "quiet": {"type": ["boolean", "null"]},
        "itself": closed(
            dict.fromkeys(("ratio", "low", "high"), {"type": "number"}), ["object", "null"]
        ),
    }
)
SCHEMA = closed(
    keys("suite title date machine")
    | {
        "machines": {"type": ["array", "null"], "items": MACHINE},
        "replicate": {"type": "integer"},
        "pooled": {
            "type": ["object", "null"],
            "additionalProperties": {"additionalProperties": POOLED},
        },
        "varied": {
            "type": ["object", "null"],
            "additionalProperties": {"items": {"type": "string"}},
        },
        "schema": {"const": "allotrope.suite/1"},
        "baseline": {"type": "string"},
        "rounds": {"type": "integer"},
        "confidence": {"const": 0.995},
        "resampling": {"required": ["replicates", "seed"]},
        "interrupted": {"type": "boolean"},
        "allocators": {
            "items": {"required": ["spec", "allocator", "preset", "options", "version"]}
        },
        "programs": {"items": PROGRAM},
        "means": {"additionalProperties": MEANS},
    }
)

TWO = """
title = "two"
[environment]
WORD = "common"
[[program]]
name = "echo"
command = ["echo", "$SUITE"]
[[program]]
name = "shell"
setup = "echo made > input; echo >> $SUITE/setups"
input = "input"
command = 'cat; echo "$WORD $HOME" | sed "s|$PWD|here|"'
environment = { WORD = "own" }
"""


@pytest.fixture
def suite(tmp_path: Path) -> Any:
    """Writes a suite and measures it; returns the process, and the JSON, checked."""

    def measure(
        command: Command, text: str, *options: str, rounds: int = 2
    ) -> tuple[subprocess.CompletedProcess[str], dict[str, Any] | None]:
        (tmp_path / "suite.toml").write_text(text)
        words = ["--suite", str(tmp_path / "suite.toml"), "--rounds", str(rounds)]
        words += ["--json", str(tmp_path / "suite.json"), "--state", str(tmp_path / "state")]
        if "-a" not in options:
            options = ("-a", "glibc", "-a", "mock", *options)
        done = command.run("compare", *words, *options)
        if not (tmp_path / "suite.json").exists():
            return done, None
        document = json.loads((tmp_path / "suite.json").read_text())
        jsonschema.validate(document, SCHEMA)
        return done, document

    return measure


class TestMeasuring:
    def test_every_program_is_compared(self, mock: Command, suite: Any, tmp_path: Path) -> None:
        done, document = suite(mock, TWO, rounds=9)
        assert done.returncode == 0, done.stderr
        assert [entry["name"] for entry in document["programs"]] == ["echo", "shell"]
        for entry in document["programs"]:
            comparison = entry["comparison"]
            assert [one["status"] for one in comparison["results"]] == ["ok", "ok"]
            for result in comparison["results"]:
                assert len(result["wall_seconds"]["rounds"]) == 9
                assert None not in result["wall_seconds"]["rounds"]
        assert document["means"]["mock"]["cpu_seconds"]["programs"] == 2
        assert document["means"]["glibc"]["cpu_seconds"]["ratio"] == 1
        assert not (tmp_path / "state").exists()
        assert (tmp_path / "setups").read_text() == "\n"

    def test_estimate_comes_before_the_rounds(self, mock: Command, suite: Any) -> None:
        done, _ = suite(mock, TWO)
        lines = done.stderr.splitlines()
        # Each program: mock's warm-up, both accounts, and two rounds of two.
        assert lines[0].startswith("2 programs × 2 allocators × 2 rounds: 14 runs, about ")
        assert [line.split(",")[0] for line in lines[1:]] == ["round 1 of 2", "round 2 of 2"]

    def test_rounds_of_programs_take_turns(self, mock: Command, suite: Any, tmp_path: Path) -> None:
        program = '[[program]]\nname = "{0}"\ncommand = "printf {0} >> $SUITE/trace"\n'
        suite(mock, program.format("p") + program.format("q"), "--warmup", "0", rounds=3)
        # References, accounts of both, then the rounds: glibc and mock of p, of q, of p, ...
        assert (tmp_path / "trace").read_text() == "ppqq" * 5

    def test_only_the_programs_named_are_measured(self, mock: Command, suite: Any) -> None:
        _, document = suite(mock, TWO, "--only", "shell")
        assert [entry["name"] for entry in document["programs"]] == ["shell"]

    def test_surroundings_are_the_suites(
        self, mock: Command, suite: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Whoever runs it, whatever else is in it: paths of one length, variables by name."""
        monkeypatch.setenv("INCIDENTAL", "yes")
        monkeypatch.setenv("LC_TIME", "C")
        program = (
            '[[program]]\nname = "{0}"\ncheck = "none"\nsetup = "env > $SUITE/setup"\n'
            'command = "env | grep -v PADDING > $SUITE/{0}; pwd | wc -c >> $SUITE/lengths"\n'
        )
        suite(mock, program.format("p") + program.format("longer_name"))
        for name in ("p", "longer_name", "setup"):
            variables = dict(line.split("=", 1) for line in (tmp_path / name).read_text().split())
            assert "INCIDENTAL" not in variables
            assert variables["LC_TIME"] == "C" and "PATH" in variables
        assert len(set((tmp_path / "lengths").read_text().split())) == 1

    def test_check_and_prepare(self, mock: Command, suite: Any) -> None:
        text = """
        [[program]]
        name = "p"
        prepare = "echo x > fresh"
        check = "grep -q x"
        command = "cat fresh; rm fresh; echo $$"
        """
        _, document = suite(mock, text)
        assert {one["status"] for one in document["programs"][0]["comparison"]["results"]} == {"ok"}


class TestTrouble:
    def test_missing_package_skips(self, mock: Command, suite: Any) -> None:
        text = TWO + '[[program]]\nname = "none"\ncommand = ["none"]\npackages = ["no-such-one"]\n'
        done, document = suite(mock, text)
        assert done.returncode == 0
        skipped = document["programs"][2]
        assert skipped["status"] == "skipped" and "no-such-one" in skipped["reason"]
        assert "none: needs the Debian package no-such-one" in done.stdout

    @pytest.mark.parametrize(
        "line, reason",
        [
            ('command = ["false"]', "fails under glibc"),
            ('command = ["no-such-program"]', "command not found"),
            ('command = ["true"]\nsetup = "echo why >&2; exit 3"', "status 3 (why)"),
        ],
    )
    def test_a_program_that_fails_fails_alone(
        self, mock: Command, suite: Any, line: str, reason: str
    ) -> None:
        done, document = suite(mock, TWO + f'[[program]]\nname = "bad"\n{line}\n')
        assert done.returncode == 1
        assert document["programs"][2]["status"] == "failed"
        assert reason in document["programs"][2]["reason"]
        assert document["means"]["mock"]["cpu_seconds"]["programs"] == 2

    def test_an_allocator_that_fails_is_out_of_the_mean(self, mock: Command, suite: Any) -> None:
        specs = ("-a", "glibc", "-a", "mock", "-a", "mock:crash")
        done, document = suite(mock, TWO, *specs)
        assert done.returncode == 1
        assert document["means"]["mock:crash"]["cpu_seconds"] is None
        assert "mock:crash: echo (failed) and shell (failed)" in " ".join(done.stdout.split())

    def test_output_that_varies_everywhere_names_the_remedy(
        self, mock: Command, suite: Any
    ) -> None:
        done, _ = suite(mock, '[[program]]\nname = "varies"\ncommand = "echo $$"\n')
        said = " ".join(done.stdout.split())
        assert "Not decided: glibc counts in no program: their output differs" in said
        assert 'say so with check = "none" or give check a command' in said

    def test_output_that_varies_is_out_of_the_mean(self, mock: Command, suite: Any) -> None:
        text = TWO + '[[program]]\nname = "varies"\ncommand = "echo $$"\n'
        done, document = suite(mock, text)
        assert done.returncode == 0
        assert document["means"]["mock"]["cpu_seconds"]["programs"] == 2
        said = " ".join(done.stdout.split())
        assert 'varies: its output differs from run to run under glibc itself; check = "none"' in (
            said
        )

    @pytest.mark.parametrize(
        "text, message",
        [
            ("x = 1", "unknown key 'x'"),
            ("title = 'x'", "has no [[program]]"),
            ("[[program]]\nname='p'", "program 'p' has no command"),
            ("[[program]]\ncommand='p'", "has no name"),
            ("[[program]]\nname='p'\ncommand='x'\nfoo=1", "unknown key 'foo'"),
            ("[[program]]\nname='p'\ncommand=3", "command must be list or str, not 3"),
            ("[[program]]\nname='p'\ncommand=['x', 3]", "must hold strings only"),
            ("[[program]]\nname='p'\ncommand='x'\nenvironment={A=1}", "table of strings"),
            ("[[program]]\nname='p'\ncommand='x'\n" * 2, "two programs are called 'p'"),
            ("= nonsense", "is no TOML"),
            ("program = ['x']", "has no [[program]]"),
            *(
                (f"[[program]]\nname='p'\ncommand='x'\ntimeout_seconds={seconds}", "above 0")
                for seconds in ("0", "-1", "nan", "inf", "true")
            ),
        ],
    )
    def test_bad_files_are_named(self, mock: Command, suite: Any, text: str, message: str) -> None:
        done, _ = suite(mock, text)
        assert done.returncode == 2 and message in done.stderr
        assert len(done.stderr.splitlines()) == 1

    @pytest.mark.parametrize(
        "options, message",
        [
            (["--suite", "x.toml"], "cannot read x.toml"),
            (["--suite", "x.toml", "--check", "none"], "--check does not go with --suite"),
            (
                ["--suite", "x.toml", "--witness"],
                "--witness does not go with --suite; hyperfine and perf are asked about one",
            ),
            (["--suite", "x.toml", "--", "echo"], "leave out 'echo'"),
            (["--resume", "--", "echo"], "--resume needs --suite"),
            (["--only", "x", "--", "echo"], "--only needs --suite"),
        ],
    )
    def test_options_that_do_not_fit(self, mock: Command, options: list[str], message: str) -> None:
        done = mock.run("compare", *options)
        assert done.returncode == 2 and message in done.stderr

    def test_an_unknown_program_is_refused_with_those_there_are(
        self, mock: Command, suite: Any
    ) -> None:
        done, _ = suite(mock, TWO, "--only", "ls")
        assert done.returncode == 2 and "there are: echo; shell" in done.stderr


SLOW = '''
[[program]]
name = "p"
command = "sleep 0.05; echo p"
[[program]]
name = "q"
setup = """
echo >> $SUITE/setups
test ! -e $SUITE/block || { touch $SUITE/blocked; sleep 60; }
test ! -e $SUITE/spoilt || { echo why >&2; exit 3; }
"""
packages = ["some-package"]
command = "sleep 0.05; printf q >> $SUITE/trace; echo q"
'''


class TestResuming:
    @pytest.fixture(autouse=True)
    def some_package(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Is installed until there is a file `removed`."""
        query = tmp_path / "bin" / "dpkg-query"
        query.parent.mkdir()
        query.write_text(f"#!/bin/sh\ntest -e {tmp_path}/removed || echo installed 1\n")
        query.chmod(0o755)
        monkeypatch.setenv("PATH", str(query.parent), prepend=os.pathsep)

    def interrupt(self, mock: Command, tmp_path: Path) -> list[str]:
        """A suite of ten rounds, interrupted in the middle; returns its words."""
        (tmp_path / "suite.toml").write_text(SLOW)
        words = ["compare", "--suite", str(tmp_path / "suite.toml"), "--rounds", "10"]
        words += ["-a", "glibc", "-a", "mock", "--state", str(tmp_path / "state")]
        words += ["--json", str(tmp_path / "json")]
        started = mock.start(*words, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        trace = tmp_path / "trace"
        while started.poll() is None and (not trace.exists() or len(trace.read_text()) < 10):
            time.sleep(0.01)
        started.send_signal(signal.SIGINT)
        out, error = started.communicate(timeout=HANG)
        assert started.returncode == 130, error
        assert "--resume continues from" in error and "interrupted" in out
        return words

    def test_interrupted_suite_goes_on(self, mock: Command, tmp_path: Path) -> None:
        words = self.interrupt(mock, tmp_path)
        document = json.loads((tmp_path / "json").read_text())
        jsonschema.validate(document, SCHEMA)
        assert document["interrupted"] is True
        before = document["programs"][0]["comparison"]["results"][0]["wall_seconds"]["rounds"]
        assert 0 < len(before) < 10 and None not in before
        done = mock.run(*words, "--resume")
        assert done.returncode == 0, done.stderr
        document = json.loads((tmp_path / "json").read_text())
        jsonschema.validate(document, SCHEMA)
        assert document["interrupted"] is False
        for entry in document["programs"]:
            for result in entry["comparison"]["results"]:
                rounds = result["wall_seconds"]["rounds"]
                assert len(rounds) == 10 and None not in rounds
        after = document["programs"][0]["comparison"]["results"][0]["wall_seconds"]["rounds"]
        assert after[: len(before)] == before
        assert document["programs"][0]["comparison"]["results"][1]["heap"] is not None
        assert not (tmp_path / "state").exists()
        assert (tmp_path / "setups").read_text() == "\n\n"

    def test_interrupted_again_it_loses_nothing(self, mock: Command, tmp_path: Path) -> None:
        """While the first programs are taken up, the state has the others all the same."""
        words = self.interrupt(mock, tmp_path)
        before = json.loads((tmp_path / "state").read_text())["programs"]
        measured = json.loads((tmp_path / "json").read_text())["programs"]
        (tmp_path / "block").touch()
        started = mock.start(*words, "--resume", stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        while started.poll() is None and not (tmp_path / "blocked").exists():
            time.sleep(0.01)
        started.send_signal(signal.SIGINT)
        _, error = started.communicate(timeout=HANG)
        assert started.returncode == 130, error
        assert json.loads((tmp_path / "state").read_text())["programs"] == before
        again = json.loads((tmp_path / "json").read_text())["programs"]
        for one, other in zip(measured, again, strict=True):
            assert one["comparison"]["results"] == other["comparison"]["results"]

    @pytest.mark.parametrize(
        "obstacle, reason",
        [
            ("spoilt", "setup ended with status 3 (why)"),
            ("removed", "needs the Debian package some-package"),
        ],
    )
    def test_a_program_that_cannot_go_on_keeps_its_rounds(
        self, mock: Command, tmp_path: Path, obstacle: str, reason: str
    ) -> None:
        """It was dropped from the state file, and its rounds with it."""
        words = self.interrupt(mock, tmp_path)
        kept = (tmp_path / "state").read_text()
        (tmp_path / obstacle).touch()
        done = mock.run(*words, "--resume")
        assert done.returncode == 2 and f"--resume: q cannot go on: {reason}; mend" in done.stderr
        assert (tmp_path / "state").read_text() == kept
        (tmp_path / obstacle).unlink()
        assert mock.run(*words, "--resume").returncode == 0

    def test_the_load_of_earlier_rounds_is_kept(
        self, mock: Command, suite: Any, tmp_path: Path
    ) -> None:
        """When nothing is left to be measured, there is no other."""
        slow = TWO.replace("cat;", "sleep 0.1; cat;")
        done, _ = suite(mock, slow, "--only", "shell", "--csv", "/dev/full")
        assert done.returncode == 2 and "No space left on device" in done.stderr
        done, document = suite(mock, slow, "--only", "shell", "--resume")
        assert done.returncode == 0 and "Load unknown" not in done.stdout
        assert all(one["comparison"]["others_cpus"] is not None for one in document["programs"])

    def test_state_is_not_overwritten(self, mock: Command, tmp_path: Path) -> None:
        words = self.interrupt(mock, tmp_path)
        kept = (tmp_path / "state").read_text()
        done = mock.run(*words)
        assert done.returncode == 2 and "continue it with --resume" in done.stderr
        assert (tmp_path / "state").read_text() == kept

    def test_another_question_is_refused(self, mock: Command, tmp_path: Path) -> None:
        words = self.interrupt(mock, tmp_path)
        others = [{"10": "11"}.get(word, word) for word in words]
        done = mock.run(*others, "--resume")
        assert done.returncode == 2 and "begun with other rounds" in done.stderr
        (tmp_path / "suite.toml").write_text(SLOW + "\n# changed\n")
        done = mock.run(*words, "--resume")
        assert done.returncode == 2 and "begun with other suite" in done.stderr

    @pytest.mark.parametrize(
        "key, name", [("cpu", "processor"), ("kernel", "kernel"), ("libc", "libc")]
    )
    def test_another_machine_is_refused(
        self, mock: Command, tmp_path: Path, key: str, name: str
    ) -> None:
        words = self.interrupt(mock, tmp_path)
        state = json.loads((tmp_path / "state").read_text())
        here, state["machine"][key] = state["machine"][key], "other"
        (tmp_path / "state").write_text(json.dumps(state))
        done = mock.run(*words, "--resume")
        assert done.returncode == 2
        assert f"was begun with another {name} (other; here: {here}); go on there" in done.stderr
        assert json.loads((tmp_path / "state").read_text()) == state

    @pytest.mark.parametrize(
        "text, message",
        [
            (None, "cannot read"),
            ("{", "damaged"),
            ("{}", "not the state"),
            ("[]", "not the state"),
        ],
    )
    def test_a_state_that_cannot_be_resumed_is_told(
        self, mock: Command, suite: Any, tmp_path: Path, text: str | None, message: str
    ) -> None:
        if text is not None:
            (tmp_path / "state").write_text(text)
        done, _ = suite(mock, TWO, "--resume")
        assert done.returncode == 2 and message in done.stderr


class TestMeans:
    def test_the_mean_is_geometric_over_medians(self) -> None:
        mean = geometric_mean([[2.0] * 7, [0.5] * 7, [4.0] * 7])
        assert mean is not None and math.isclose(mean.ratio, 4 ** (1 / 3))
        assert math.isclose(mean.low, mean.high) and (mean.programs, mean.rounds) == (3, 7)

    def test_same_figures_give_the_same_interval(self) -> None:
        ratios = [[random.Random(3).lognormvariate(0, 0.1) for _ in range(11)]]
        assert geometric_mean(ratios) == geometric_mean(ratios)

    def test_one_round_is_no_sample(self) -> None:
        assert geometric_mean([[1.0], [1.1]]) is None

    def test_disturbance_of_a_round_is_kept_together(self) -> None:
        """Rounds that hit all programs alike are not averaged away by many programs."""
        chance = random.Random(1)
        hits = [chance.lognormvariate(0, 0.1) for _ in range(11)]
        alike = geometric_mean([hits] * 20)
        single = geometric_mean([hits])
        assert alike is not None and single is not None
        assert math.isclose(alike.low, single.low) and math.isclose(alike.high, single.high)

    @pytest.mark.parametrize("programs, rounds", [(1, 11), (6, 11), (12, 7)])
    def test_intervals_cover_what_they_promise(self, programs: int, rounds: int) -> None:
        """Of 300 simulated suites whose true mean is 1.1; by chance 95% would give 285 and less
        than 272 once in ten thousand."""
        chance = random.Random(programs)
        covered = 0
        for _ in range(300):
            mean = geometric_mean(
                [
                    [chance.lognormvariate(math.log(1.1), 0.05) for _ in range(rounds)]
                    for _ in range(programs)
                ]
            )
            assert mean is not None
            covered += mean.low <= 1.1 <= mean.high
        assert covered >= 272

    def test_means_follow_from_the_rounds(self, mock: Command, suite: Any) -> None:
        _, document = suite(mock, TWO, rounds=5)
        logarithms = []
        for entry in document["programs"]:
            base, mine = (one["minor_faults"]["rounds"] for one in entry["comparison"]["results"])
            logarithms.append(statistics.median(math.log(a / b) for a, b in zip(mine, base)))
        expected = math.exp(statistics.fmean(logarithms))
        assert math.isclose(document["means"]["mock"]["minor_faults"]["ratio"], expected)
        back = mean_ratio(document, "glibc", "mock", "minor_faults")
        assert back is not None and math.isclose(back.ratio, 1 / expected)


def grown(document: dict[str, Any], factor: float) -> dict[str, Any]:
    """A suite in which mock takes `factor` times glibc's CPU and memory, but for a little."""
    from allotrope.statistics.intervals import summarize

    for entry in document["programs"]:
        base, mine = entry["comparison"]["results"]
        for key in ("cpu_seconds", "wall_seconds", "peak_rss_bytes"):
            values = [1 + place / 1000 for place in range(9)]
            ours = [factor * value for value in values[::-1]]
            base[key] = vars(summarize(values, values))
            mine[key] = vars(summarize(ours, values))
        base["tree_peak_bytes"] = mine["tree_peak_bytes"] = None  # the machine's, not made up
    document["means"] = means(document)
    return document


class TestWords:
    def test_a_faster_suite_recommends_its_allocator(self, mock: Command, suite: Any) -> None:
        _, document = suite(mock, TWO, rounds=9)
        sentences = recommend_suite(grown(document, 0.8))
        assert sentences[0].text.startswith("mock: nothing measured is shown to be faster")
        assert "20% less CPU" in sentences[0].text
        assert any("geometric means over 2 programs" in one.text for one in sentences)

    def test_a_slower_suite_stays_with_glibc(self, mock: Command, suite: Any) -> None:
        _, document = suite(mock, TWO, rounds=9)
        assert recommend_suite(grown(document, 1.2))[0].text.startswith("stay with glibc")

    def test_two_rounds_do_not_decide(self, mock: Command, suite: Any) -> None:
        _, document = suite(mock, TWO, rounds=2)
        assert recommend_suite(document)[0].kind == "undecided"

    def test_load_and_who_served_are_told(self, mock: Command, suite: Any) -> None:
        _, document = suite(mock, TWO, rounds=9)
        first, second = (entry["comparison"] for entry in document["programs"])
        first["others_cpus"], second["others_cpus"] = 0.1, 1.9
        go = {"command": "go", "allocator": "static", "object": "/go", "in_reach": False}
        second["results"][1]["served"] = {
            "cpu_share": 0.5,
            "rows": [go | {"processes": 1, "allocations": None}],
        }
        names = [entry["name"] for entry in document["programs"]]
        said = {one.title: one.text for one in recommend_suite(document)}
        assert f"1.9 of {second['machine']['cpus']} processors" in said["Loaded"]
        assert f"while the rounds of {names[1]} ran, more than for any other" in said["Loaded"]
        assert said["Who served"].startswith(f"{names[1]}: mock did not serve go (it is linked")
        assert served_rows(document)[-1][::2] == [names[1], "its own (static)"]
        first["others_cpus"] = second["others_cpus"] = None
        said = {one.title: one.text for one in recommend_suite(document)}
        assert "is not known" in said["Load unknown"] and "Loaded" not in said

    @pytest.mark.parametrize("strangers", [("glibc", "mock"), ("mock",)], ids=["both", "mock"])
    def test_who_served_no_program_is_the_reason(
        self, mock: Command, suite: Any, strangers: tuple[str, ...]
    ) -> None:
        _, document = suite(mock, TWO, rounds=9)
        row = {"command": "go", "allocator": "static", "object": "/go", "in_reach": False}
        for entry in document["programs"]:
            for result in entry["comparison"]["results"]:
                if result["spec"] in strangers:
                    served = {"rows": [row | {"processes": 1, "allocations": None}]}
                    result |= {"status": "out-of-reach", "served": served}
        document["means"] = means(document)
        sentence = recommend_suite(document)[0]
        assert (sentence.kind, sentence.text) == (
            "undecided",
            f"{strangers[0]} did not serve go (it is linked statically).",
        )


SMALL, MORE = (1.5, 2.0), (100.0, 130.0)
# 0.5 to 2 MiB more, or less: by 1 MiB or not is not decided.
ROUGHLY_MORE = (2.0, [2.5, 4.0] * (ROUNDS // 2))
ROUGHLY_LESS = (4.0, [2.0, 3.5] * (ROUNDS // 2))
OF_EACH = (0.95, 1.0, 1.05)  # MiB more on each machine


class TestMemory:
    """A difference below 1 MiB counts in no choice: program by program, and in the mean."""

    def test_small_programs_are_not_worse(self) -> None:
        document = made_up([measured(name, SMALL) for name in "abc"])
        found = document["means"]["mock"]
        assert math.isclose(found["memory_bytes"]["ratio"], 4 / 3)
        assert found["counted_memory_bytes"] is None
        headline, *others = recommend_suite(document)
        said = "stay with glibc: mock is the same within 2%, in memory within 1.0 MiB."
        assert (headline.title, headline.text) == ("No difference", said)
        assert [one.title for one in others] == ["What this is"]

    def test_small_programs_do_not_keep_a_faster_one_away(self) -> None:
        headline = recommend_suite(made_up([measured(name, SMALL, cpu=0.8) for name in "abc"]))[0]
        assert headline.title == "Choice" and headline.text.startswith("mock: ")
        assert "33% more memory, below 1.0 MiB (1.333" in headline.text
        assert "nothing leaner by 1.0 MiB or more" in headline.text

    def test_the_large_program_decides(self) -> None:
        """Though a dozen small ones point the other way."""
        small = [measured(f"small{number}", (2.0, 1.5)) for number in range(12)]
        document = made_up([*small, measured("large", MORE)])
        found = document["means"]["mock"]
        assert found["memory_bytes"]["verdict"] == "better"
        assert found["counted_memory_bytes"]["verdict"] == "worse"
        assert found["counted_memory_bytes"]["programs"] == 1
        sentences = recommend_suite(document)
        assert sentences[0].text == "stay with glibc: mock is worse in CPU or memory."
        said = {one.title: one.text for one in sentences}
        assert said["Worse"] == "mock takes 30% more memory."
        assert "small10 and small11 do not count in the mean of memory under mock: " in (
            said["Little memory"]
        )
        assert "more than 2% from glibc, but below 1.0 MiB." in said["Little memory"]

    def test_programs_in_doubt_do_not_tip_the_mean(self) -> None:
        """With the twelve memory is better, without them it is worse."""
        doubtful = [measured(f"doubtful{number}", ROUGHLY_LESS) for number in range(12)]
        document = made_up([*doubtful, measured("large", MORE)])
        counted = document["means"]["mock"]["counted_memory_bytes"]
        assert (counted["verdict"], counted["programs"]) == ("not decided", 13)
        assert counted["high"] == pytest.approx(1.3) and counted["low"] < 0.7
        headline, *others = recommend_suite(document)
        assert "memory is not decided at 2% for mock 0." in headline.text
        said = {one.title: one.text for one in others}
        assert said["Little memory"].endswith(
            "doubtful11 do count in the mean of memory under mock is not decided, so the interval "
            "is that of both cases."
        )

    def test_programs_in_doubt_that_change_nothing_are_not_named(self) -> None:
        document = made_up([measured("doubtful", ROUGHLY_MORE), measured("large", MORE)])
        counted = document["means"]["mock"]["counted_memory_bytes"]
        assert (counted["verdict"], counted["programs"]) == ("worse", 2)
        assert "Little memory" not in [one.title for one in recommend_suite(document)]

    def test_perhaps_no_program_counts(self) -> None:
        document = made_up([measured(name, ROUGHLY_MORE) for name in "abc"])
        counted = document["means"]["mock"]["counted_memory_bytes"]
        assert (counted["verdict"], counted["low"]) == ("not decided", 1)
        assert recommend_suite(document)[0].kind == "undecided"

    def test_large_programs_that_are_the_same_count(self) -> None:
        same = [measured(f"same{number}", (100.0, 100.2)) for number in range(10)]
        document = made_up([*same, measured("worse", (10.0, 12.0))])
        counted = document["means"]["mock"]["counted_memory_bytes"]
        assert (counted["verdict"], counted["programs"]) == ("same", 11)
        sentences = recommend_suite(document)
        assert sentences[0].title == "No difference"
        assert "Little memory" not in [one.title for one in sentences]

    def test_machines_are_judged_together(self) -> None:
        programs = [
            measured(name, memory, host=host)
            for name, memory in (("small", (2.0, 1.5)), ("large", MORE))
            for host in "abc"
        ]
        document = made_up(programs, replicate=3)
        counted = document["means"]["mock"]["counted_memory_bytes"]
        assert (counted["programs"], counted["machines"]) == (1, 3)
        assert math.isclose(counted["ratio"], 1.3)
        rows = program_rows(document, "memory_bytes")
        assert [row[2] for row in rows[-2:]] == ["0.75~", "1.30*"]
        programs = [measured("p", (9, 9 + more), host=host) for host, more in zip("abc", OF_EACH)]
        assert program_rows(made_up(programs, replicate=3), "memory_bytes")[-1][2] == "1.11~?"

    def test_an_allocator_with_itself_stays_the_same(self) -> None:
        """10 suites of programs of 10 to 200 MiB, whose memory varies from run to run by 5%: that
        programs are chosen by their figures makes nobody better. The mean of a suite varies by half
        a percent, that of ten by a sixth of one."""
        chance = random.Random(1992)

        def rounds(size: float) -> list[float]:
            return [size * chance.lognormvariate(0, 0.05) for _ in range(ROUNDS)]

        found = []
        for _ in range(10):
            programs = [
                measured(f"{number}", (rounds(size), rounds(size)))
                for number, size in enumerate((10, 50, 200) * 8)
            ]
            mean = memory_that_counts(bare(programs), "mock", "glibc")
            assert mean is not None and mean.low <= 1 <= mean.high
            found.append(mean)
        assert abs(statistics.fmean(math.log(mean.ratio) for mean in found)) < 0.006


def bare(programs: list[Any]) -> dict[str, Any]:
    """As much of a document as a mean needs, without those that it has already."""
    return {"baseline": "glibc", "programs": programs}


class TestTables:
    DECIDED = [
        measured("little", SMALL, cpu=0.8),
        measured("much", MORE, cpu=1.01),
        measured("open", (100.0, 100.0), cpu=[0.9, 1.1] * (ROUNDS // 2)),
        measured("roughly", ROUGHLY_MORE),
    ]

    def test_a_mark_tells_every_verdict(self) -> None:
        document = made_up(self.DECIDED)
        assert program_rows(document, "cpu_seconds")[1:] == [
            ["little", "1.00", "0.80*"],
            ["much", "1.00", "1.01="],
            ["open", "1.00", "0.99?"],
            ["roughly", "1.00", "1.00="],
        ]
        assert [row[2] for row in program_rows(document, "memory_bytes")[1:]] == [
            "1.33~",
            "1.30*",
            "1.00=",
            "1.58~?",
        ]

    def test_where_there_is_room_it_is_in_words(self) -> None:
        document = made_up(self.DECIDED)
        assert program_rows(document, "cpu_seconds", full=True)[1:] == [
            ["little", "baseline", "0.800 [0.800, 0.800] better"],
            ["much", "baseline", "1.010 [1.010, 1.010] same"],
            ["open", "baseline", "0.995 [0.900, 1.100] not decided"],
            ["roughly", "baseline", "1.000 [1.000, 1.000] same"],
        ]
        text = as_markdown(document)
        assert "1.581 [1.250, 2.000] worse by 512 KiB to 2.0 MiB" in text
        assert "1.333 [1.333, 1.333] worse by 512 KiB" in text
        assert "medians [99.5% interval]; verdicts are at 2%." in text

    def test_the_mean_of_memory_is_the_one_that_counts(self) -> None:
        small = [measured(f"small{number}", (2.0, 1.5)) for number in range(3)]
        document = made_up([*small, measured("large", MORE)])
        titles, _, mock = means_rows(document)
        assert mock[titles.index("peak memory")] == "1.300 [1.300, 1.300]*"
        titles, _, mock = means_rows(made_up(small), full=True)
        words = "0.750 [0.750, 0.750] better by less than 1.0 MiB"
        assert mock[titles.index("peak memory")] == words

    def test_csv_has_the_verdicts(self) -> None:
        lines = as_csv(made_up([measured("large", MORE)])).splitlines()
        assert lines[0].endswith(",ratio_high,verdict")
        assert ",,mock,,counted_memory_bytes,,1.3,1.3,1.3,worse" in lines
        assert any(line.startswith("large,,mock,ok,peak_rss_bytes,") for line in lines)


@pytest.mark.parametrize("rounds, word", [(2, "range"), (9, "interval")])
def test_pages_call_a_range_a_range(mock: Command, suite: Any, rounds: int, word: str) -> None:
    _, document = suite(mock, TWO, rounds=rounds)
    comparison = document["programs"][0]["comparison"]
    texts = [
        page.render(made) for made in (suite_page.suite_page(document), compare_page(comparison))
    ]
    assert re.search(r">\d\.\d{3} \[[\d., ]+\] (better|worse|same|not decided)", texts[0])
    for text in texts:
        other = {"range": "interval", "interval": "range"}[word]
        assert f"with their {word}s" in text and f"with their {other}s" not in text
        assert f"with its {other}" not in text and f"are the {other}s" not in text


@pytest.mark.parametrize("size", [PHONE, DESKTOP], ids=["phone", "desktop"])
def test_page_in_a_browser(
    browser: Browser, mock: Command, suite: Any, tmp_path: Path, size: Any  # noqa: F811
) -> None:
    specs = ("-a", "glibc", "-a", "mock", "-a", "mock:crash")
    text = TWO.replace('"$SUITE"', f'"{"long" * 100}"')
    _, document = suite(mock, text, *specs, rounds=6)
    (tmp_path / "page.html").write_text(page.render(suite_page.suite_page(document)))
    browser.open(tmp_path / "page.html", size)
    assert browser.errors() == []
    assert len(browser.requests()) == 1
    assert browser.run("return document.documentElement.scrollWidth") <= size[0]
    assert browser.run("return document.querySelectorAll('.plot .scatterlayer .trace').length") >= 8


class TestDrawingAgain:
    def test_the_page_follows_from_the_json_alone(
        self, mock: Command, suite: Any, tmp_path: Path
    ) -> None:
        first, again = tmp_path / "first.html", tmp_path / "again.html"
        specs = ("-a", "glibc", "-a", "mock", "-a", "mock:crash")
        _, document = suite(mock, TWO, "--html", str(first), *specs, rounds=6)
        kept = tmp_path / "2026-11-22-two.json"
        for text in (json.dumps(document, indent=1), json.dumps(document, separators=(",", ":"))):
            kept.write_text(text)
            done = mock.run("compare", "--from", str(kept), "--html", str(again))
            assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
            assert again.read_bytes() == first.read_bytes()

    @pytest.mark.parametrize(
        "change, complaint",
        [
            (lambda document: json.dumps(document)[:-9], "is damaged: it is no JSON"),
            (lambda document: json.dumps([document]), "is not what compare --json writes"),
            (lambda document: json.dumps(document | {"schema": "x"}), "is not what compare"),
            (lambda document: json.dumps(document | {"programs": 3}), "is damaged: TypeError"),
            (lambda document: json.dumps({"schema": document["schema"]}), "is damaged: KeyError"),
        ],
    )
    def test_damage_is_told(
        self, mock: Command, suite: Any, tmp_path: Path, change: Any, complaint: str
    ) -> None:
        _, document = suite(mock, TWO, rounds=1)
        (tmp_path / "kept.json").write_text(change(document))
        words = ["--from", str(tmp_path / "kept.json"), "--html", str(tmp_path / "page.html")]
        done = mock.run("compare", *words)
        assert done.returncode == 2 and complaint in done.stderr
        assert done.stderr.count("\n") == 1 and not (tmp_path / "page.html").exists()

    @pytest.mark.parametrize(
        "options, message",
        [
            (["--from", "x.json"], "--from needs --html FILE, where the page is to go"),
            (["--from", "x.json", "--html", "y", "--rounds", "3"], "leave out --rounds"),
            (["--from", "x.json", "--html", "y", "--suite", "z"], "leave out --suite"),
            (["--from", "x.json", "--html", "y", "--", "echo"], "leave out the command"),
            (["--from", "/nowhere.json", "--html", "y"], "cannot read /nowhere.json"),
        ],
    )
    def test_it_measures_nothing(self, mock: Command, options: list[str], message: str) -> None:
        done = mock.run("compare", *options)
        assert done.returncode == 2 and message in done.stderr


def held(before: Any, after: Any) -> Difference:
    return compare_suites(("old.json", before), ("new.json", after))


def verdicts(difference: Difference, name: str) -> dict[str, str | None]:
    """Of mock in a quantity, by program."""
    found = [one for one in difference.found if (one.spec, one.name) == ("mock", name)]
    return {one.part or "mean": one.verdict for one in found}


class TestDifference:
    """Two suites are held against each other program by program, and so are their means."""

    def test_each_program_and_the_mean_have_a_verdict(self) -> None:
        before = made_up([measured("a", MORE), measured("b", MORE, 0.9)])
        after = made_up([measured("a", (100.0, 140.0), 1.2), measured("b", MORE, 0.9)])
        found = held(before, after)
        assert verdicts(found, "CPU") == {"a": "worse", "b": "same", "mean": "worse"}
        assert verdicts(found, "memory") == {"a": "worse", "b": "same", "mean": "worse"}
        mean = found.found[-3]
        assert (mean.quantity, mean.of, mean.part) == ("cpu_seconds", "mean", None)
        assert math.isclose(mean.before, math.sqrt(0.9)) and mean.change is not None
        assert math.isclose(mean.change.median, math.sqrt(1.2))
        assert found.notes == []
        assert [str(one) for one in difference_sentences(found)] == [
            "Of 15 changes: 6 worse, 0 better, 9 the same within 2%, 0 not decided.",
            "Worse: mock in CPU (a and geometric mean); mock in wall time (a and geometric mean)"
            "; mock in memory (a and geometric mean).",
        ]

    def test_little_memory_has_a_mark_and_is_not_told_on_top(self) -> None:
        """Nor is a mean of such programs."""
        names = ("a", "b")
        small = [made_up([measured(name, (9.0, size)) for name in names]) for size in (2.0, 2.5)]
        found = held(*small)
        table = dict(change_tables(found))["memory, after over before"]
        assert [row[2] for row in table[1:]] == ["1.25~", "1.25~", "1.25~"]
        (sentence,) = difference_sentences(found)
        assert "0 worse" in sentence.text and "3 of memory below 1.0 MiB" in sentence.text
        for document, size in zip(small, (100.0, 140.0)):
            large = measured("large", (9.0, size))
            document |= made_up([*document["programs"], large])
        told = difference_sentences(held(*small))[1]
        assert str(told) == "Worse: mock in memory (large and geometric mean)."

    def test_a_mean_that_fell_for_the_baselines_growth_is_no_better_memory(self) -> None:
        pair = [made_up([measured("a", sizes)]) for sizes in ((10, 20), (30, 31))]
        assert str(difference_sentences(held(*pair))[-1]) == (
            "Better against glibc alone: mock in memory (a and geometric mean)."
        )

    def test_a_mean_is_over_the_programs_that_both_went_through(self) -> None:
        """What only one has is named."""
        gone = measured("gone", MORE, 9.0)
        broken = measured("broken", MORE, 5.0)
        broken["comparison"]["results"][1]["status"] = "different-output"
        absent = measured("absent", MORE) | {
            **{"status": "skipped", "reason": "needs x", "comparison": None}
        }
        whole = [measured(name, MORE) for name in ("a", "broken", "absent")]
        found = held(
            made_up([*whole, gone]),
            made_up([measured("a", MORE), broken, absent, measured("fresh", MORE)]),
        )
        assert verdicts(found, "CPU") == {"a": "same", "broken": None, "mean": "same"}
        assert found.notes == [
            "broken: mock is different-output in the later comparison, so its figures carry no "
            "verdict.",
            "Only in the earlier: gone.",
            "Only in the later: fresh.",
            "absent was skipped in the later: needs x.",
        ]

    def test_two_peaks_of_memory_have_no_mean(self) -> None:
        """Of the largest process, and of all together."""
        before, after = (made_up([measured("a", MORE)]) for _ in "ab")
        for result in after["programs"][0]["comparison"]["results"]:
            result["tree_peak_bytes"] = {
                key: value and 2 * value if key in ("median", "low", "high") else value
                for key, value in result["peak_rss_bytes"].items()
            }
        found = held(before, after)
        assert verdicts(found, "memory") == {} and "mean" in verdicts(found, "CPU")

    def test_what_is_so_of_all_is_said_once(self) -> None:
        documents = [made_up([measured(name, MORE) for name in "ab"]) for _ in range(2)]
        for entry in documents[1]["programs"]:
            entry["comparison"]["machine"] = {"cpu": "6502", "kernel": "6.1", "cpus": 1}
        documents[1]["programs"][1]["comparison"]["command"] = ["other"]
        assert held(*documents).notes == [
            "The machine's cpu differs: Z80, then 6502.",
            "b: The commands differ.",
        ]

    def test_few_rounds_decide_nothing(self) -> None:
        before = made_up([measured("a", MORE)])
        after = made_up([measured("a", MORE, 2.0, rounds=8)], interrupted=True)
        after["programs"][0]["comparison"]["rounds"] = ROUNDS  # which were asked for
        found = held(before, after)
        assert verdicts(found, "CPU") == {"a": "not decided", "mean": "not decided"}
        assert found.notes[0].startswith("Below 9 rounds")
        assert "The later suite was interrupted" in found.notes[1]

    def test_replicates_are_paired_by_machine_and_pooled(self) -> None:
        def suite(cpu: float) -> dict[str, Any]:
            parts = [measured("a", MORE, cpu, host) for host in ("x", "y", "z")]
            return made_up(parts, replicate=3)

        found = held(suite(1.0), suite(1.2))
        names = ["a on x", "a on y", "a on z", "a (3 machines)", "mean"]
        assert verdicts(found, "CPU") == dict.fromkeys(names, "worse")
        with pytest.raises(UserError, match="1 and 3 machines a program; measure one again"):
            held(made_up([measured("a", MORE)]), suite(1.0))

    def test_nothing_in_common_is_an_error(self) -> None:
        with pytest.raises(UserError, match="no program that both have measured: a; then b"):
            held(made_up([measured("a", MORE)]), made_up([measured("b", MORE)]))

    @pytest.fixture
    def files(self, tmp_path: Path) -> list[str]:
        """compare's words."""
        of_each = {
            "old": [measured("a", MORE), measured("gone", MORE)],
            "new": [measured("a", MORE, 1.2), measured("fresh", MORE, 9.0)],
        }
        for name, programs in of_each.items():
            (tmp_path / f"{name}.json").write_text(json.dumps(made_up(programs)))
        return ["compare", "--from", "new.json", "--against", "old.json"]

    def test_on_the_command_line(self, real: Command, tmp_path: Path, files: list[str]) -> None:
        done = real.run(*files, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        shown = done.stdout.splitlines()
        assert shown[0] == "CPU, after over before"
        assert [line.split() for line in shown[1:4]] == [
            ["program", "glibc", "mock"],
            ["a", "1.00=", "1.20*"],
            ["geometric", "mean", "–", "1.20*"],
        ]
        assert "Only in the later: fresh." in shown
        gated = [*files, "--json", "-", "--fail-if", "mock.cpu > 1.1"]
        done = real.run(*gated, cwd=tmp_path)
        assert done.returncode == 3, done.stderr
        assert "Of 1 judgement: 1 failure, 0 not decided." in done.stderr
        assert "Not judged, since left out: gone and fresh." in done.stderr
        written = json.loads(done.stdout)
        assert (written["part"], written["after"]["title"]) == ("program", "made up")
        assert [(one["part"], one["met"]) for one in written["conditions"]] == [("a", True)]
        of_mean = [one for one in written["changes"] if one["of"] == "mean"]
        assert [one["quantity"] for one in of_mean] == [
            "cpu_seconds",
            "wall_seconds",
            "memory_bytes",
        ]
        assert real.run(*files, "--fail-if", "any.cpu > 1.3", cwd=tmp_path).returncode == 0

    def test_other_forms(
        self,
        real: Command,
        tmp_path: Path,
        files: list[str],
        browser: Browser,  # noqa: F811
    ) -> None:
        forms = ["--html", "page.html", "--csv", "changes.csv", "--markdown", "-"]
        done = real.run(*files, *forms, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        row = "| a | mock | CPU | 1.000 s | 1.200 s | 1.200 [1.200, 1.200] | worse |"
        assert row in done.stdout.splitlines()
        lines = (tmp_path / "changes.csv").read_text().splitlines()
        assert lines[0].startswith("part,allocator,quantity,of,before,after,change,")
        assert len(lines) == 1 + 6 + 3
        html = (tmp_path / "page.html").read_text()
        assert "What has changed: new.json against old.json" in html
        assert "a and geometric mean" in html and "Only in the earlier: gone." in html
        browser.open(tmp_path / "page.html", PHONE)
        assert browser.errors() == [] and browser.labels_in_trouble() == []
        assert browser.run("return document.documentElement.scrollWidth") <= PHONE[0]
        assert browser.run("return document.querySelectorAll('.plot .trace').length") == 3 * 3

    def test_kinds_that_do_not_match_are_refused(
        self, real: Command, tmp_path: Path, files: list[str]
    ) -> None:
        scan = made_up([measured("a", MORE)], varied={"n": ["1"]})
        (tmp_path / "scan.json").write_text(json.dumps(scan))
        (tmp_path / "one.json").write_text('{"schema": "allotrope.compare/1"}')
        for other, kind in (("scan", "a scan (--vary)"), ("one", "a comparison of one command")):
            done = real.run(*files[:-1], f"{other}.json", cwd=tmp_path)
            assert done.returncode == 2 and done.stderr.count("\n") == 1
            assert "new.json is a suite (--suite) and " in done.stderr
            assert f"{other}.json {kind}" in done.stderr
            assert "measure one again as the other was" in done.stderr
        done = real.run(*files, "--hyperfine-json", "x", cwd=tmp_path)
        assert done.returncode == 2 and "leave out --hyperfine-json" in done.stderr


@pytest.mark.parametrize("name", ["real", "micro"])
def test_our_own_suites_are_sound(name: str) -> None:
    from allotrope.features.suite.measure import read_suite

    programs = read_suite(SOURCE / "bench_programs" / f"{name}.toml").programs
    assert len(programs) >= 12
    for program in programs:
        paths = [word for word in program.command if word.startswith(str(SOURCE))]
        assert all(Path(path).exists() for path in paths if "tests/matrix" in path), paths


def test_document_names_every_key() -> None:
    text = (SOURCE / "docs" / "suites.md").read_text()
    for part in (SCHEMA, PROGRAM, MEAN):
        for key in part["required"]:  # type: ignore[attr-defined]
            assert f"`{key}`" in text, key
