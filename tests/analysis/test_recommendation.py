# SPDX-License-Identifier: MIT
"""The words follow from the figures: one constructed comparison for each thing that can be said."""

import random
from typing import Any, Sequence

import pytest
from allotrope.features.compare.recommendation import recommend
from allotrope.output.sentences import Sentence
from allotrope.statistics.intervals import summarize

MIB = 1 << 20
SPREAD = (0.998, 1.001, 0.999, 1.0, 1.002, 1.0005, 0.9995, 1.001, 0.9985, 1.0, 0.9997)


def figures(median: float, spread: Sequence[float] = SPREAD, turn: int = 0) -> list[float | None]:
    return [median * spread[(place + turn) % len(spread)] for place in range(len(spread))]


def account(resident: int | None = None, **changes: Any) -> dict[str, Any]:
    """resident: the most that was in memory; else all that was mapped."""
    heap: dict[str, Any] = {
        "command": "program",
        "processes": 1,
        "mapped_peak_bytes": 11 * MIB,
        "requested_peak_bytes": 10 * MIB,
        "fragmentation": 1.1,
        "waste": {
            "header": 0,
            "rounding": MIB // 2,
            "alignment": 0,
            "cached": 0,
            "external": MIB // 2,
        },
        "at_peak": {
            "time_seconds": 1,
            "requested_bytes": 10 * MIB,
            "mapped_bytes": 11 * MIB,
            "resident_bytes": 11 * MIB,
        },
        "live": {"blocks": 3, "requested_bytes": 1000, "allocated_bytes": 2000},
        "metadata_bytes": 0,
        "calls": {"malloc": 10_000, "free": 9000},
        "system_calls": {},
    } | changes
    heap["resident_peak_bytes"] = resident or heap["mapped_peak_bytes"]
    if heap["requested_peak_bytes"]:
        heap["fragmentation"] = heap["mapped_peak_bytes"] / heap["requested_peak_bytes"]
    return heap


class Case:
    """A comparison under construction; glibc takes 1 s and 100 MiB."""

    def __init__(self, **changes: Any) -> None:
        self.entries: list[tuple[str, dict[str, Any], dict[str, Any]]] = []
        self.changes = changes
        self.add("glibc")

    def add(
        self,
        spec: str,
        cpu: float = 1,
        memory: float = 100,
        wall: float | None = None,
        spread: Sequence[float] = SPREAD,
        **result: Any,
    ) -> "Case":
        turn = 3 * len(self.entries)
        values = {
            "cpu_seconds": figures(cpu, spread, turn),
            "wall_seconds": figures(cpu if wall is None else wall, spread, turn),
            "peak_rss_bytes": figures(memory * MIB, [1.0] * 11),
        }
        self.entries.append((spec, values, result))
        return self

    def fail(self, spec: str, **failure: Any) -> "Case":
        details = {
            "when": "round 3",
            "exit_status": None,
            "signal": 11,
            "timed_out": False,
            "ending": "killed by SIGSEGV",
            "message": None,
        }
        self.entries.append((spec, {}, {"status": "failed", "failure": details | failure}))
        return self

    def document(self) -> dict[str, Any]:
        base = self.entries[0][1]
        rounds = self.changes.pop("rounds", 11)
        results = []
        for spec, values, changes in self.entries:
            result: dict[str, Any] = dict(
                spec=spec,
                status="ok",
                failure=None,
                heap=None,
                tree_peak_bytes=None,
                heap_missing=None,
            )
            for quantity in ("cpu_seconds", "wall_seconds", "peak_rss_bytes"):
                summary = None
                if values:
                    mine, theirs = values[quantity][:rounds], base[quantity][:rounds]
                    summary = summarize(mine, theirs)
                result[quantity] = summary and vars(summary)
            results.append(result | changes)
        document = dict(
            baseline="glibc",
            rounds=rounds,
            deterministic=True,
            interrupted=False,
            incomplete=None,
            results=results,
        )
        return document | self.changes

    def sentences(self) -> list[Sentence]:
        return recommend(self.document())

    def headline(self) -> Sentence:
        return self.sentences()[0]

    def said(self, title: str) -> str:
        """What is said under a title; empty when nothing is."""
        return " ".join(one.text for one in self.sentences() if one.title == title)


class TestChoice:
    def test_faster_and_leaner_is_the_choice(self) -> None:
        headline = Case().add("a", 0.8, 70).add("b", 0.9, 90).headline()
        assert headline.kind == "choice" and headline.text.startswith("a: ")
        assert "20% less CPU" in headline.text and "30% less memory" in headline.text

    def test_faster_at_equal_memory_is_the_choice(self) -> None:
        headline = Case().add("a", 0.8, 100).headline()
        assert headline.text.startswith("a: ")
        assert "the same memory within 2%" in headline.text

    def test_leaner_at_equal_speed_is_the_choice(self) -> None:
        headline = Case().add("a", 1, 60).headline()
        assert headline.text.startswith("a: ") and "40% less memory" in headline.text

    def test_worse_all_over_means_stay(self) -> None:
        headline = Case().add("a", 1.2, 100).add("b", 1, 200).headline()
        assert headline.kind == "choice" and headline.text.startswith("stay with glibc: a and b")

    def test_equals_are_named(self) -> None:
        case = Case().add("a", 0.8).add("b", 0.8)
        assert case.headline().text[:2] in ("a:", "b:")
        assert case.said("As good") in (
            "the figures do not tell b from a.",
            "the figures do not tell a from b.",
        )

    def test_twice_as_much_is_said_so(self) -> None:
        assert "2.5 times as much memory" in Case().add("a", 0.5, 250).said("The price")


class TestTradeOff:
    def test_speed_against_memory(self) -> None:
        case = Case().add("fast", 0.7, 150).add("lean", 1.1, 60)
        assert case.headline().text == "it is a trade-off: fast for speed, lean for memory."
        assert "0.7 s, 150 MiB" in case.said("The price")
        assert "1.1 s, 60.0 MiB" in case.said("The price")
        assert "50% more memory" in case.said("fast against glibc")
        assert "10% more CPU" in case.said("lean against glibc")

    def test_baseline_may_be_one_side(self) -> None:
        case = Case().add("fast", 0.7, 150)
        assert case.headline().text == "it is a trade-off: fast for speed, glibc for memory."
        assert [one.title for one in case.sentences()] == ["Choice", "The price"]

    def test_the_one_without_a_price_is_named(self) -> None:
        case = Case().add("fast", 0.7, 150).add("lean", 1.1, 60).add("middle", 0.9, 90)
        assert case.said("Without a price").startswith("middle against glibc: 10% less CPU")

    def test_neither_side_is_one_whom_an_equal_beats_in_the_other_quantity(self) -> None:
        """Though its median is the least by a hair."""
        case = Case().add("fast", 0.7, 140).add("cheap", 0.8, 100.2)
        assert case.headline().text == "it is a trade-off: fast for speed, cheap for memory."
        assert "20% less CPU" in case.said("cheap against glibc")
        case = Case().add("fast", 0.7, 200).add("slowlean", 2.0, 80).add("lean", 0.9, 80.2)
        assert case.headline().text == "it is a trade-off: fast for speed, lean for memory."
        case = Case().add("fast", 0.7, 200).add("fast2", 0.701, 130)
        assert case.headline().text == "it is a trade-off: fast2 for speed, glibc for memory."

    def test_without_a_price_the_leaner_of_equals_is_named(self) -> None:
        case = Case().add("fast", 0.7, 150).add("lean", 1.1, 60)
        case.add("middle", 0.9, 95).add("middle2", 0.901, 75)
        assert case.said("Without a price").startswith("middle2 against glibc: 10% less CPU")

    def test_another_choice_by_the_clock_is_told(self) -> None:
        case = Case().add("frugal", 0.7, wall=1).add("parallel", 0.9, wall=0.5)
        assert "parallel against frugal: 50% less wall time" in case.said("By the clock")

    def test_clock_that_agrees_is_not_mentioned(self) -> None:
        assert Case().add("a", 0.7, wall=0.5).said("By the clock") == ""


class TestUndecided:
    def test_no_difference_stays_with_glibc(self) -> None:
        headline = Case().add("a").add("b", 1.005).headline()
        assert headline.kind == "undecided" and headline.title == "No difference"
        assert headline.text.startswith("stay with glibc")

    def test_overlapping_intervals_do_not_decide(self) -> None:
        wild = (0.7, 1.4, 0.8, 1.2, 0.75, 1.3, 0.9, 1.1, 0.85, 1.25, 0.72)
        case = Case().add("a", 0.95, spread=wild)
        assert case.headline().kind == "undecided"
        text = case.headline().text
        assert case.headline().title == "Not decided" and "More rounds may tell" in text
        assert "CPU is not decided at 2% for a 0.855 [0.666, 1.330]" in text

    def test_worse_in_one_and_open_in_the_other_is_no_choice(self) -> None:
        """More memory may buy time: then it would be a trade-off."""
        wild = (0.7, 1.4, 0.8, 1.2, 0.75, 1.3, 0.9, 1.1, 0.85, 1.25, 0.72)
        case = Case().add("a", 0.9, 130, spread=wild)
        assert case.headline().title == "Not decided"
        assert "stay with glibc: CPU is not decided at 2% for a" in case.headline().text
        assert "a takes 30% more memory" in case.said("Worse")

    def test_worse_in_one_and_at_best_the_same_in_the_other_is_out(self) -> None:
        rather_more = (0.99, 1.0, 1.03, 1.04, 1.01, 1.02, 1.05, 1.0, 1.03, 0.99, 1.06)
        case = Case().add("a", 1, 130, spread=rather_more)
        assert case.headline().title == "Choice"
        assert case.headline().text == "stay with glibc: a is worse in CPU or memory."

    def test_less_memory_at_a_price_that_is_open_is_no_choice(self) -> None:
        wild = (0.7, 1.4, 0.8, 1.2, 0.75, 1.3, 0.9, 1.1, 0.85, 1.25, 0.72)
        headline = Case().add("a", 1, 70, spread=wild).headline()
        assert headline.title == "Not decided"
        assert "but what it costs is not decided" in headline.text
        assert "30% less memory" in headline.text

    def test_less_memory_and_rather_less_time_is_a_choice(self) -> None:
        """CPU [0.95, 0.99] is not decided at 2%, but it is no price."""
        rather_less = (0.95, 0.97, 0.99, 0.96, 0.98, 0.97, 0.955, 0.985, 0.97, 0.96, 0.975)
        headline = Case().add("a", 1, 70, spread=rather_less).headline()
        assert headline.title == "Choice" and headline.text.startswith("a: ")

    def test_difference_without_weight_does_not_decide(self) -> None:
        """Told apart for certain, but by 1%."""
        assert Case().add("a", 0.99, spread=[1.0] * 11).headline().kind == "undecided"

    def test_kilobytes_do_not_decide(self) -> None:
        case = Case()
        case.entries.clear()
        case.add("glibc", 1, 3).add("a", 1, 2.5)
        assert case.headline().kind == "undecided"

    def test_a_hidden_difference_of_memory_is_said(self) -> None:
        case = Case()
        case.entries.clear()
        case.add("glibc", 1, 3).add("a", 0.8, 3.45)
        assert "15% more memory, below 1.0 MiB (1.150" in case.headline().text

    def test_a_choice_is_not_called_leanest_where_another_is_leaner_by_little(self) -> None:
        case = Case()
        case.entries.clear()
        case.add("glibc", 1, 1.5).add("bsd", 0.42, 2.1)
        text = case.headline().text
        assert text.startswith("bsd: nothing measured is shown to be faster, and nothing leaner by")
        assert "40% more memory, below 1.0 MiB" in text

    def test_kilobytes_are_not_called_the_same(self) -> None:
        case = Case()
        case.entries.clear()
        case.add("glibc", 1, 3).add("a", 1, 2.5)
        text = "stay with glibc: a is the same within 2%, in memory within 1.0 MiB."
        assert case.headline().text == text

    def test_memory_that_is_perhaps_little_does_not_decide(self) -> None:
        """0.7 to 1.3 MiB more than 5 MiB: worse by the ratio, by 1 MiB or not is open."""
        spread = [1.14, 1.26] * 5 + [1.2]
        for turn, cpu in enumerate((1, 0.8)):
            case = Case()
            case.entries.clear()
            case.add("glibc", 1, 5).add("a", cpu, 5)
            case.entries[1][1]["peak_rss_bytes"] = figures(5 * MIB, spread)
            headline = case.headline()
            assert headline.title == "Not decided" and "1.200 [1.140, 1.260]" in headline.text
            said = (
                "memory is not decided at 2% and 1.0 MiB for a 1.200",
                "20% more memory, perhaps below 1.0 MiB (1.200",
            )
            assert said[turn] in headline.text

    def test_large_figures_are_written_out(self) -> None:
        case = Case(rounds=5)
        case.entries.clear()
        assert "glibc (1,160 s)" in case.add("glibc", 1160).add("a", 12_345).sentences()[1].text

    def test_few_rounds_do_not_decide(self) -> None:
        case = Case(rounds=5).add("a", 0.5, 50)
        sentences = recommend(case.document())
        assert sentences[0].kind == "undecided" and "5 rounds do not tell" in sentences[0].text
        assert "least CPU: a (0.5 s); least memory: a (50.0 MiB)" in sentences[1].text

    def test_output_that_varies_does_not_decide(self) -> None:
        case = Case(deterministic=False)
        case.add("a", 0.5, status="nondeterministic")
        case.entries[0][2]["status"] = "nondeterministic"
        assert case.headline().kind == "undecided"
        assert "differs from run to run" in case.headline().text
        assert "--check" in case.headline().text

    def test_nothing_to_choose_from(self) -> None:
        assert Case().headline().text == "only glibc was measured."
        text = Case().fail("a").headline().text
        assert text == "a does not go with this program, and glibc is left."
        case = Case().add("a", status="different-output").add("b", status="different-output")
        assert case.headline().text.startswith("a and b do not go with this program")

    def test_what_is_worse_is_said_with_its_cost(self) -> None:
        case = Case().add("a", 1.2, 300).add("b")
        assert case.headline().text.startswith("stay with glibc")
        assert case.said("Worse") == "a takes 20% more CPU and 3.0 times as much memory."

    def test_no_difference_is_no_choice_though_another_is_faster(self) -> None:
        """c beats glibc and b in CPU but is fat; b is told from neither, so it is no choice."""
        uneven = [1 + 0.08 * (place % 3 - 1) for place in range(11)]
        case = Case().add("c", 0.95, 300).add("b", 0.97, 100, spread=uneven)
        assert case.headline().text.startswith("stay with glibc: what is better than it in one")
        assert "5% less CPU" in case.said("c against glibc")

    def test_who_has_too_few_rounds_keeps_all_from_a_choice(self) -> None:
        """Whoever it is: the baseline may have had one more when it was interrupted."""
        case = Case().add("a", 0.5, 50)
        document = case.document() | {"confidence": 0.998}
        assert recommend(document)[0].kind == "choice"
        for quantity in ("cpu_seconds", "peak_rss_bytes"):
            mine = document["results"][1][quantity]
            mine |= {"interval": "range", "rounds": [*mine["rounds"][:8], None, None, None]}
        said = recommend(document)[0].text
        assert said.startswith("8 rounds do not tell") and "it takes 10, better 16" in said

    def test_without_a_round_the_reason_is_the_headline(self) -> None:
        case = Case(incomplete="interrupted")
        case.entries.clear()
        case.entries.append(("glibc", {}, {}))
        assert case.headline().text == "no round was measured: interrupted."


class TestRefusal:
    def test_failure_is_named_with_its_message(self) -> None:
        said = Case().fail("a", message="heap is unwell").said("Not for this program")
        assert said == "a failed in round 3: killed by SIGSEGV (heap is unwell)."

    def test_other_output_is_never_chosen(self) -> None:
        case = Case().add("a", 0.1, 1, status="different-output").add("b", 0.9)
        assert case.headline().text.startswith("b: ")
        assert "under a the command writes something else" in case.said("Not for this program")

    def test_other_output_of_a_build_is_not_the_allocators(self) -> None:
        said = "the command writes something else than under"
        case = Case(command=["{build}"], baseline="a").add("b", status="different-output")
        case.entries[0] = ("a", *case.entries[0][1:])
        assert f"under b {said} a. Either the builds" in case.said("Not for this program")

    def test_a_build_that_is_well_under_glibc_is_not_at_fault(self) -> None:
        said = "the command writes something else than under"
        case = Case(command=["{build}"], baseline="a/glibc")
        case.entries[0] = ("a/glibc", *case.entries[0][1:])
        case.add("b/glibc").add("b/bsd", status="different-output")
        assert f"under b/bsd {said} glibc. Either the allocator" in case.said(
            "Not for this program"
        )


class TestFindings:
    def leak(self, live: int, peak: int = 104 * MIB) -> str:
        held = {"blocks": 25_600, "requested_bytes": live, "allocated_bytes": live}
        heap = account(live=held, requested_peak_bytes=peak, mapped_peak_bytes=peak)
        return Case().add("a", heap=heap).said("Never freed")

    def test_leak_is_named(self) -> None:
        said = self.leak(100 * MIB)
        assert said.startswith("100 MiB were never freed: 25,600 blocks")
        assert "leak" in said and "104 MiB at most" in said

    @pytest.mark.parametrize("live", [0, MIB // 2, 10 * MIB])
    def test_a_little_that_is_left_is_no_leak(self, live: int) -> None:
        assert self.leak(live) == ""

    def test_the_most_cautious_account_is_believed(self) -> None:
        leaky = account(live={"blocks": 1, "requested_bytes": 9 * MIB})
        assert Case().add("a", heap=leaky).add("b", heap=account()).said("Never freed") == ""

    def test_account_without_live_bytes_says_nothing(self) -> None:
        assert Case().add("a", heap=account(live=None)).said("Never freed") == ""

    def test_fragmentation_is_named_with_who_does_better(self) -> None:
        bad = account(
            mapped_peak_bytes=200 * MIB,
            requested_peak_bytes=100 * MIB,
            waste=account()["waste"] | {"external": 90 * MIB},
        )
        good = account(mapped_peak_bytes=110 * MIB, requested_peak_bytes=100 * MIB)
        said = Case().add("bad", heap=bad).add("good", heap=good).said("Fragmentation")
        assert (
            "asked for 100 MiB at most" in said and "200 MiB of memory under bad, 2.0 times" in said
        )
        assert "90.0 MiB free room between blocks" in said and "good did with 110 MiB" in said

    @pytest.mark.parametrize("calls", [(128, 0), (232, 12), (100_000, 5000), (150, 99)])
    def test_who_hardly_frees_is_not_called_fragmented(self, calls: tuple[int, int]) -> None:
        """Nothing was freed that could have served."""
        heap = account(
            mapped_peak_bytes=200 * MIB,
            requested_peak_bytes=100 * MIB,
            calls=dict(zip(("malloc", "free"), calls)),
        )
        assert Case().add("a", heap=heap).said("Fragmentation") == ""
        heap["calls"] = {"malloc": 100, "calloc": 50, "realloc": 30, "aligned": 20, "free": 110}
        assert Case().add("a", heap=heap).said("Fragmentation") != ""

    def test_memory_that_nothing_touched_is_not_called_fragmented(self) -> None:
        sizes = {"mapped_peak_bytes": 200 * MIB, "requested_peak_bytes": 100 * MIB}
        for resident in (8 * MIB, 103 * MIB, 149 * MIB):
            heap = account(resident, **sizes)
            assert Case().add("a", heap=heap).said("Fragmentation") == ""
        said = Case().add("a", heap=account(150 * MIB, **sizes)).said("Fragmentation")
        assert "150 MiB of memory under a, 1.5 times" in said

    def test_without_resident_memory_nothing_is_called_fragmented(self) -> None:
        """As in a sandbox."""
        heap = account(mapped_peak_bytes=200 * MIB, requested_peak_bytes=100 * MIB)
        heap["resident_peak_bytes"] = None
        assert Case().add("a", heap=heap).said("Fragmentation") == ""

    def test_small_heaps_are_not_called_fragmented(self) -> None:
        small = account(mapped_peak_bytes=3 * MIB, requested_peak_bytes=MIB)
        assert Case().add("a", heap=small).said("Fragmentation") == ""

    def test_a_suites_program_is_advised_what_a_suite_takes(self) -> None:
        alone = Case(others_cpus=1.9, machine={"cpus": 2}).said("Loaded")
        assert "--duet" in alone and "--until" in alone
        inside = Case(others_cpus=1.9, machine={"cpus": 2}, of_suite=True).said("Loaded")
        assert inside.endswith("or try --rounds 22.")

    def test_rounding_is_not_called_fragmentation(self) -> None:
        waste = account()["waste"] | {"rounding": 95 * MIB}
        peak = account()["at_peak"] | {"mapped_bytes": 200 * MIB}
        heap = account(
            mapped_peak_bytes=200 * MIB, requested_peak_bytes=100 * MIB, waste=waste, at_peak=peak
        )
        case = Case().add("a", heap=heap)
        assert case.said("Fragmentation") == ""
        assert "95.0 MiB of the heap's 200 MiB (48%)" in case.said("Rounding")

    def test_garbage_is_not_called_fragmentation(self) -> None:
        heap = account(
            mapped_peak_bytes=200 * MIB,
            requested_peak_bytes=100 * MIB,
            collector={"collections": 7},
        )
        case = Case().add("gc:free=ignore", heap=heap, options={"free": "ignore"})
        assert case.said("Fragmentation") == ""
        assert "200 MiB, 2.0 times" in case.said("Garbage") and "were 7." in case.said("Garbage")

    def test_sound_heaps_are_not_mentioned(self) -> None:
        sentences = Case().add("a", heap=account()).sentences()
        assert [one for one in sentences if one.kind == "finding"] == []

    def test_waste_that_is_not_known_is_no_finding(self) -> None:
        heap = account(waste=None, at_peak={"mapped_bytes": None})
        assert [
            one for one in Case().add("a", heap=heap).sentences() if one.kind == "finding"
        ] == []


def out_of_reach(command: str, allocator: str, file: str) -> dict[str, Any]:
    row = {
        "command": command,
        "allocator": allocator,
        "object": file,
        "in_reach": False,
        "processes": 1,
        "cpu_seconds": 1.0,
        "allocations": None,
    }
    found = {"in_reach": False, "cpu_share": 0.0, "allocations": None, "processes": 1}
    return {"status": "out-of-reach", "served": found | {"rows": [row]}}


class TestOutOfReach:
    def test_a_baseline_out_of_reach_carries_no_verdict(self) -> None:
        case = Case().add("a", 0.5)
        case.entries[0] = (
            *case.entries[0][:2],
            out_of_reach("server", "jemalloc", "/usr/lib/libjemalloc.so.2"),
        )
        headline = case.headline()
        assert headline.title == "Not decided"
        assert "glibc did not serve server (libjemalloc.so.2 did)" in headline.text
        assert "--baseline" in headline.text

    def test_an_allocator_out_of_reach_is_not_chosen(self) -> None:
        case = Case().add("a", 0.5, 50, **out_of_reach("tool", "own", "/bin/tool")).add("b", 0.9)
        assert case.headline().text.startswith("b: ")
        said = case.said("Out of reach")
        assert said.startswith("a did not serve tool (it has a malloc of its own), which used most")

    def test_where_nobody_reaches_all_rows_are_the_same(self) -> None:
        static = out_of_reach("go", "static", "/bin/go")
        case = Case().add("a", 0.5, **static)
        case.entries[0] = (*case.entries[0][:2], static)
        assert "all rows are the same program" in case.headline().text
        assert case.said("Out of reach").startswith("glibc and a did not serve go (it is linked")


def unknown_reach(reason: str = "for /proc is not mounted") -> dict[str, Any]:
    return {"status": "reach-unknown", "served": None, "served_missing": reason}


class TestUnknownReach:
    def test_a_baseline_of_which_nothing_is_known_carries_no_verdict(self) -> None:
        case = Case().add("a", 0.5)
        case.entries[0] = (*case.entries[0][:2], unknown_reach())
        assert case.headline().title == "Not decided"
        assert "who served the program under glibc is not known" in case.headline().text
        assert "for /proc is not mounted" in case.headline().text

    def test_an_allocator_of_which_nothing_is_known_is_not_chosen(self) -> None:
        case = Case().add("a", 0.5, 50, **unknown_reach("for the kernel allows no ptrace"))
        assert "who served the program under a is not known" in case.headline().text
        case.add("b", 0.9)
        assert case.headline().text.startswith("b: ")
        assert case.said("Reach unknown").startswith("who served the program under a is not known")
        assert "for the kernel allows no ptrace" in case.said("Reach unknown")
        assert "Allow ptrace" in case.said("Reach unknown")


def served_little(share: float | None, allocations: int, cpu: float = 1) -> dict[str, Any]:
    row = {
        "command": "gocgo",
        "allocator": "a",
        "object": "/x",
        "in_reach": True,
        "processes": 1,
        "cpu_seconds": cpu,
        "allocations": allocations,
        "malloc_share": share,
        "own_bytes": None if share is None else 2 * MIB,
    }
    return {"served": {"in_reach": True, "cpu_share": 1.0, "processes": 1, "rows": [row]}}


class TestServedLittle:
    """Of memory that malloc does not serve no allocator decides."""

    def case(self, *little: tuple[float | None, int]) -> Case:
        case = Case()
        case.entries.clear()
        for name, one in zip(("glibc", "a"), little):
            case.add(name, 1 if name == "glibc" else 0.5, **served_little(*one))
        return case

    @pytest.mark.parametrize("share, count", [(0.01, 17), (0.049, 9999), (None, 0), (0.0, 0)])
    def test_next_to_nothing_carries_no_recommendation(
        self, share: float | None, count: int
    ) -> None:
        case = self.case((None, count), (share, count))
        assert case.headline().title == "Not decided"
        text = case.headline().text
        assert text.startswith("malloc serves next to nothing of gocgo: it was called")
        assert case.said("Measured all the same") == ""

    @pytest.mark.parametrize("share, count", [(0.05, 17), (0.01, 10_001), (None, 17), (0.9, 2)])
    def test_more_than_that_does(self, share: float | None, count: int) -> None:
        case = self.case((None, count), (share, count))
        assert case.headline().title == "Choice"

    def test_builds_differ_where_no_allocator_can(self) -> None:
        case = Case()
        case.entries.clear()
        for name, cpu in (("glibc", 1.0), ("new", 0.5)):
            build = {"build": f"./{name}", "allocator": "glibc", "preset": None, "options": {}}
            case.add(name, cpu, **build, **served_little(0.01, 17))
        assert case.headline().text.startswith("new: ")
        assert case.said("Memory of its own") == ""

    def test_memory_of_the_programs_own_is_told(self) -> None:
        said = self.case((None, 50_000), (0.3, 50_000)).said("Memory of its own")
        assert said.startswith("malloc was asked for 30% of gocgo's memory; the rest is mapped by")
        assert self.case((None, 50_000), (0.8, 50_000)).said("Memory of its own") == ""


class TestLimits:
    def test_a_load_that_is_not_known_is_told(self) -> None:
        said = Case(others_cpus=None).add("a").said("Load unknown")
        assert (
            "how much other programs used the processors while the rounds ran is not known: that "
            "takes /proc/stat, and 0.2 s at least" in said
        )
        assert Case().add("a").said("Load unknown") == ""  # a document of before

    def test_a_loaded_machine_is_told_with_the_remedy(self) -> None:
        machine = {"cpus": 2}
        said = Case(others_cpus=1.7, machine=machine, until=None).add("a").said("Loaded")
        assert "1.7 of 2 processors" in said and "--until 2%" in said
        assert Case(others_cpus=0.1, machine=machine, until=None).add("a").said("Loaded") == ""

    def test_short_runs_are_told(self) -> None:
        case = Case()
        case.entries.clear()
        case.add("glibc", 0.003).add("a", 0.003)
        said = case.said("Short")
        assert said.startswith("a run takes at most 3 ms of CPU, much of which may be")

    def test_an_incomplete_comparison_is_told_with_its_reason(self) -> None:
        said = Case(incomplete="the baseline failed in round 4").add("a").said("Incomplete")
        assert said.startswith("the baseline failed in round 4")


@pytest.mark.parametrize("seed", range(200))
def test_never_chooses_what_is_beaten_in_both(seed: int) -> None:
    """Whatever the figures: who is noticeably worse in both respects is not recommended, the
    first sentence is a choice or says why not, and no sentence is empty."""
    chance = random.Random(seed)
    case = Case()
    for name in ("p", "q", "r", "s"):
        spread = [chance.lognormvariate(0, 0.02) for _ in range(11)]
        case.add(name, chance.uniform(0.8, 1.2), chance.uniform(60, 140), spread=spread)
    sentences = case.sentences()
    assert sentences[0].kind in ("choice", "undecided")
    assert all(one.text.endswith(".") and one.title for one in sentences)
    results = {one["spec"]: one for one in case.document()["results"]}
    headline = sentences[0].text
    chosen = [
        name
        for name in results
        if headline.startswith((f"{name}: ", f"stay with {name}")) or f"{name} for " in headline
    ]
    assert chosen or "do not add up" in headline or "it costs is not decided" in headline
    for name in chosen:
        mine = results[name]
        for other in results.values():
            faster = other["cpu_seconds"]["high"] < 0.95 * mine["cpu_seconds"]["low"]
            leaner = other["peak_rss_bytes"]["high"] < 0.95 * mine["peak_rss_bytes"]["low"]
            assert not (faster and leaner), (name, other["spec"])
