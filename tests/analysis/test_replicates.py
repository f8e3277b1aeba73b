# SPDX-License-Identifier: MIT
"""Ratios of several machines: how they are pooled, which machines may be pooled, and which may
measure at all."""

import csv
import io
import math
import random
from typing import Any, Sequence

import pytest
from allotrope.features.cluster.machines import ANY_NOISE, Machine, Machines
from allotrope.features.suite.means import mean_ratio, means, pooled_ratios
from allotrope.features.suite.output import as_csv, recommend_suite
from allotrope.features.suite.tables import program_rows
from allotrope.statistics.intervals import summarize
from allotrope.statistics.replicates import pooled

ROUNDS = 3


class TestPooled:
    def test_by_hand(self) -> None:
        """Logarithms 0.1, 0.2, 0.3: mean 0.2, standard error 0.1/sqrt 3, t(2) = 4.303 of 95%."""
        found = pooled([math.exp(0.1), math.exp(0.3), math.exp(0.2)], 0.95)
        assert found is not None
        assert math.isclose(math.log(found.median), 0.2)
        assert math.isclose(math.log(found.high), 0.2 + 4.30265 * 0.1 / math.sqrt(3), rel_tol=1e-5)
        assert math.isclose(math.log(found.low), 0.2 - 4.30265 * 0.1 / math.sqrt(3), rel_tol=1e-5)

    def test_two_machines_are_no_sample(self) -> None:
        assert pooled([1.0, 1.1]) is None

    def test_intervals_cover_what_they_promise(self) -> None:
        """Of 1,000 times three machines whose mean is 1.1; 95% would be 950, and fewer than 925
        come once in five thousand."""
        chance = random.Random(3)
        covered = 0
        for _ in range(1000):
            ratios = [chance.lognormvariate(math.log(1.1), 0.05) for _ in range(3)]
            found = pooled(ratios, 0.95)
            assert found is not None
            covered += found.low <= 1.1 <= found.high
        assert 925 <= covered <= 975


def entry(name: str, host: str, ratio: float, kernel: str = "6.1", status: str = "ok") -> Any:
    """glibc and mock on a machine, which differ by `ratio` in everything."""

    def result(spec: str, factor: float) -> dict[str, Any]:
        base = [1.0] * ROUNDS
        figures = vars(summarize([factor] * ROUNDS, base)) | {"verdict": None}
        quantities = ("cpu_seconds", "wall_seconds", "minor_faults", "peak_rss_bytes")
        own = {"spec": spec, "status": "ok" if spec == "glibc" else status}
        unknown = dict.fromkeys(("tree_peak_bytes", "served", "served_missing"))
        return own | dict.fromkeys(quantities, figures) | unknown

    comparison = {
        "machine": {"cpu": "Z80", "kernel": kernel},
        "baseline": "glibc",
        "incomplete": None,
        "deterministic": True,
        "results": [result("glibc", 1), result("mock", ratio)],
    }
    return {
        "name": name,
        "host": host,
        "status": "measured",
        "reason": None,
        "comparison": comparison,
    }


def document(programs: Sequence[Any], replicate: int) -> dict[str, Any]:
    made: dict[str, Any] = {
        "baseline": "glibc",
        "interrupted": False,
        "replicate": replicate,
        "allocators": [{"spec": "glibc"}, {"spec": "mock"}],
        "programs": programs,
    }
    made["means"] = means(made)
    made["pooled"] = pooled_ratios(made)
    return made


THREE = [
    *(entry("p", host, ratio) for host, ratio in (("a", 1.0), ("b", 2.0), ("c", 4.0))),
    *(entry("q", host, ratio) for host, ratio in (("a", 4.0), ("b", 2.0), ("c", 1.0))),
]


class TestDocuments:
    def test_machines_are_pooled_program_by_program(self) -> None:
        found = document(THREE, 3)["pooled"]
        mean = found["p"]["mock"]["cpu_seconds"]
        expected = pooled([1.0, 2.0, 4.0])
        assert expected is not None and math.isclose(mean["ratio"], 2)
        assert math.isclose(mean["low"], expected.low)
        assert (mean["programs"], mean["rounds"], mean["machines"]) == (1, ROUNDS, 3)

    def test_the_mean_pools_the_machines_means(self) -> None:
        """Each machine's mean over p and q is 2, so machines do not differ."""
        mean = mean_ratio(document(THREE, 3), "mock", "glibc", "cpu_seconds")
        assert mean is not None and (mean.programs, mean.machines) == (2, 3)
        assert all(math.isclose(one, 2) for one in (mean.ratio, mean.low, mean.high))

    def test_a_program_counts_where_all_machines_have_it(self) -> None:
        lame = THREE[:5] + [entry("q", "c", 1.0, status="failed")]
        mean = mean_ratio(document(lame, 3), "mock", "glibc", "cpu_seconds")
        assert mean is not None and (mean.programs, mean.machines) == (1, 3)
        assert document(lame, 3)["pooled"]["q"]["mock"]["cpu_seconds"] is None

    def test_too_few_machines_are_not_pooled(self) -> None:
        assert document(THREE[:2], 3)["means"]["mock"]["cpu_seconds"] is None

    def test_no_mean_over_unlike_machines(self) -> None:
        alike = [entry("p", "a", 2.0), entry("q", "b", 2.0)]
        assert document(alike, 1)["means"]["mock"]["cpu_seconds"]["ratio"] == 2
        for replicate, rest in ((1, []), (3, THREE[:3])):
            mixed = document([*rest, *alike, entry("r", "d", 2.0, kernel="6.2")], replicate)
            assert mixed["means"]["mock"]["cpu_seconds"] is None
            told = recommend_suite(mixed)
            assert told[0].text == "the machines differ, so there is no mean over them."
            assert "Z80, 6.2: r" in told[-1].text
            if replicate > 1:
                assert mixed["pooled"]["p"]["mock"]["cpu_seconds"] is None

    def test_rows_name_the_machine(self) -> None:
        rows = program_rows(document(THREE, 3), "cpu_seconds")
        assert [row[0] for row in rows[1:4]] == ["p (a)", "p (b)", "p (c)"]
        assert rows[-2:] == [
            ["p (3 machines)", "1.00", "2.00?"],
            ["q (3 machines)", "1.00", "2.00?"],
        ]

    def test_csv_has_the_host(self) -> None:
        rows = list(csv.DictReader(io.StringIO(as_csv(document(THREE, 3)))))
        cpu = [
            (row["program"], row["host"], float(row["ratio"]))
            for row in rows
            if row["allocator"] == "mock" and row["quantity"] == "cpu_seconds"
        ]
        assert [(name, host) for name, host, _ in cpu] == [
            *(("", ""), ("p", ""), ("q", "")),
            *(("p", "a"), ("p", "b"), ("p", "c"), ("q", "a"), ("q", "b"), ("q", "c")),
        ]
        assert all(math.isclose(ratio, 2) for _, host, ratio in cpu if not host)


def itself(low: float, high: float, status: str = "ok") -> dict[str, Any]:
    cpu = {"ratio": math.sqrt(low * high), "ratio_low": low, "ratio_high": high}
    return {"results": [{"status": "ok"}, {"status": status, "cpu_seconds": cpu}]}


class TestQuiet:
    @pytest.mark.parametrize(
        "low, high, quiet",
        [
            (0.99, 1.02, True),
            (1.01, 1.04, True),  # biased, but by less than is borne
            (0.93, 1.01, False),
            (0.99, 1.06, False),
            (0.5, 2.0, False),
        ],
    )
    def test_the_whole_interval_lies_within_the_noise(
        self, low: float, high: float, quiet: bool
    ) -> None:
        machine = Machine("a", "Z80", [])
        machine.decide(itself(low, high), 0.05)
        assert machine.quiet is quiet and machine.facts()["noise"] == 0.05
        assert ("quiet enough" if quiet else "not quiet") in machine.found()

    @pytest.mark.parametrize("answer", [None, itself(1, 1, "failed")])
    def test_without_figures_it_is_not_quiet(self, answer: Any) -> None:
        machine = Machine("a", "Z80", [])
        machine.decide(answer, 0.05)
        assert machine.quiet is False and machine.facts()["itself"] is None


def machines(replicate: int, noise: float, **kinds: str) -> Machines:
    found = Machines(noise, replicate)
    for host, kind in kinds.items():
        found.meet(f"tcp://{host}:1", {"host": host, "kind": kind, "lacks": []})
    return found


class TestChoice:
    def test_workers_of_a_host_are_one_machine(self) -> None:
        found = machines(1, 0.05, a="Z80")
        again = found.meet("tcp://a:2", {"host": "a", "kind": "Z80", "lacks": []})
        assert again is found.hosts["a"] and len(found.hosts) == 1

    def test_only_quiet_machines_measure(self) -> None:
        found = machines(1, 0.05, a="Z80")
        machine = found.hosts["a"]
        assert machine.quiet is None and not found.may_measure(machine)
        machine.quiet = True
        assert found.may_measure(machine)
        assert machines(1, ANY_NOISE, a="Z80").hosts["a"].quiet

    def test_replicates_are_of_one_kind(self) -> None:
        found = machines(3, ANY_NOISE, a="Z80", b="6502", c="Z80", d="6502", e="Z80", f="Z80")
        found.choose(list("abcdef"), {"f": 2, "b": 1})
        assert sorted(found.chosen) == ["a", "c", "f"]
        assert not found.may_measure(found.hosts["e"])

    def test_nothing_is_chosen_before_all_are_decided(self) -> None:
        found = machines(3, 0.05, a="Z80", b="Z80", c="Z80", d="Z80")
        for host in "abc":
            found.hosts[host].quiet = True
        found.choose(list("abcd"), {})
        assert not found.chosen
        found.hosts["d"].quiet = False
        found.choose(list("abcd"), {})
        assert list(found.chosen) == ["a", "b", "c"]

    def test_what_hinders_is_named(self) -> None:
        found = machines(3, ANY_NOISE, a="Z80", b="Z80", c="6502")
        found.choose(list("abc"), {})
        assert found.hindrance([]) == "no worker is left"
        assert found.hindrance(list("abc")).endswith("there are Z80: a, b; 6502: c")
        found.chosen = ["a", "b", "d"]
        assert found.hindrance(list("abc")).startswith("no worker is left on d,")
        found = machines(1, 0.05, a="Z80")
        found.hosts["a"].quiet = False
        assert found.hindrance(["a"]).startswith("no machine is quiet")
