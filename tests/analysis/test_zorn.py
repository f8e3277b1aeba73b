# SPDX-License-Identifier: MIT
"""The study: its verdicts on figures made by hand, its steps, and the whole on tiny loads."""

from __future__ import annotations

import csv
import json
import math
import re
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any, Sequence

import pytest
from allotrope.statistics.intervals import Estimate
from allotrope.study.report import claim_record, contradictions, summary, write_report
from allotrope.study.zorn import paper
from allotrope.study.zorn.answer import answers, limits, reconciliation
from allotrope.study.chart import claims_chart
from allotrope.study.claims import Claim, Part, judge
from allotrope.study.explanations import Explanation, read_explanations
from allotrope.study.zorn.cache_sets import busiest_share, misses_by_place, page_start_share
from allotrope.study.zorn.figures import (
    domain_figure,
    faults_figure,
    look,
    memory_figure,
    misses_figure,
    survival_figure,
)
from allotrope.study.zorn.locality_tables import faults_table
from allotrope.study.zorn.measurements import as_text, read_measurements
from allotrope.study.ranges import Range
from allotrope.study.zorn.pairs import ALL_1992
from allotrope.study.zorn.plan import begun_with, choose
from allotrope.study.zorn.printed import PRINTED
from allotrope.study.zorn.programs import Form, Program, read_programs
from allotrope.study.zorn.report import make_report, report_from
from allotrope.study.zorn.results import Results
from allotrope.study.zorn.rules import all_claims
from allotrope.study.zorn.short_names import SHORT
from allotrope.study.store import Step, Store
from allotrope.study.zorn.tables import (
    all_tables,
    collections_table,
    factors_table,
    memory_table,
    variants_table,
    waste_table,
)
from allotrope.system.errors import UserError
from browser import Browser, browser  # noqa: F401
from conftest import Command
from made_up_study import undrawn, whole_study  # noqa: F401
from under import BUILD, HANG, await_that

SCHEMA = "allotrope.zorn/1"

TINY = """
[[program]]
name = "cfrac"
row = "1992"
packages = []
setup = []
scale = { timed = "10000000000000061", traced = "1000003" }
[program.optimised]
command = ["{build}/bench_programs/cfrac/cfrac", "{scale}"]
[program.unoptimised]
command = ["{build}/bench_programs/cfrac/cfrac_malloc", "{scale}"]
[program.collected]
command = ["{build}/bench_programs/cfrac/cfrac_uncounted", "{scale}"]

[[program]]
name = "echo"
row = "1992"
packages = []
setup = []
[program.optimised]
command = ["/bin/echo", "hello"]
"""


def tiny_study(programs: Path, folder: Path) -> list[str]:
    """The words that measure TINY into a folder, quickly."""
    return [
        *("zorn", "--quick", "--rounds", "2", "--programs", str(programs)),
        *("--only", "cfrac", "--only", "echo", "--out", str(folder)),
    ]


# Verdicts


@pytest.mark.parametrize(
    "measured, standing",
    [
        (Estimate(1.5, 1.2, 1.8), "in"),
        (Estimate(1.0, 1.0, 2.0), "in"),
        (Estimate(1.5, 0.9, 1.8), "open"),
        (Estimate(2.5, 2.1, 2.8), "out"),
        (Estimate(0.5, 0.4, 0.6), "out"),
        (1.0, "in"),
        (2.1, "out"),
        (None, "missing"),
    ],
)
def test_a_part_stands_by_its_interval(measured: Any, standing: str) -> None:
    assert Part("gawk", measured, Range(1, 2)).standing() == standing


@pytest.mark.parametrize(
    "values, verdict",
    [
        ([1.0, 2.0], "holds"),
        ([0.0, 3.0], "does not hold"),
        ([1.0, 3.0], "does not hold"),
        ([1.0, None], "not decided"),
        ([3.0, None], "does not hold"),
        ([1.0, 3.0, None], "does not hold"),
        ([None, None], "not measured"),
        ([], "not measured"),
    ],
)
def test_a_verdict_follows_from_the_parts(values: list[float | None], verdict: str) -> None:
    parts = [Part(str(number), value, Range(1, 2)) for number, value in enumerate(values)]
    assert judge(parts) == verdict


def test_a_part_outside_says_by_how_much() -> None:
    assert str(Part("gawk", 2.5, Range(1, 2))) == "gawk 2.5, 0.5 above the range"
    low = Part("perl", Estimate(0.5, 0.4, 0.75), Range(1, 2))
    assert str(low) == "perl 0.5 [0.4, 0.75], 0.25 below the range"
    assert str(Part("yacr", None, Range(1, 2))) == "yacr not measured"


def test_a_ratio_to_nothing_is_undefined_and_not_unmeasured() -> None:
    nothing = Part("gawk", math.nan, Range(1, 2))
    assert str(nothing) == "gawk undefined" and nothing.standing() == "undefined"
    assert judge([nothing]) == "not decided"
    claim = Claim("7a", "", "", "", [nothing])
    assert claim_record(claim)["parts"][0]["value"] is None
    json.dumps(claim_record(claim), allow_nan=False)
    assert "gawk undefined" in claim.figures()


def program(name: str, *forms: str) -> Program:
    commands = {form: Form([name], [name]) for form in ("optimised", *forms)}
    return Program(name, "1992", "", "", "base", commands, None)


ROUNDS = 10  # enough for every claim (asking.py)


def made_by_hand(collector: dict[str, float]) -> Results:
    """Six programs in which every explicit allocator takes 1 s, and the collector as given."""
    programs = [program(name, "unoptimised", "collected") for name in paper.PROGRAMS]
    results = Results(programs, {"quick": False})
    for one in programs:
        explicit = {
            f"optimised {spec}:classic": {"cpu": 1.0, "rss": 1}
            for spec in ("cartesian", "knuth", "bsd", "gnu")
        }
        took = {"collected gc:classic": {"cpu": collector[one.name], "rss": 1}}
        results.rounds[one.name] = [explicit | took for _ in range(ROUNDS)]
    return results


def claim_of(results: Results, number: str) -> Claim:
    return next(claim for claim in all_claims(results) if claim.number == number)


def test_the_collectors_time_is_judged_over_all_six() -> None:
    alike = made_by_hand(dict.fromkeys(paper.PROGRAMS, 1.1))
    assert claim_of(alike, "2a").verdict == "holds"
    slow = made_by_hand(dict.fromkeys(paper.PROGRAMS, 1.1) | {"perl": 1.5})
    assert claim_of(slow, "2a").verdict == "does not hold"
    assert "perl 1.5, 0.23 above the range" in claim_of(slow, "2a").figures()
    del slow.rounds["gawk"], slow.rounds["perl"]
    assert claim_of(slow, "2a").verdict == "not decided"


def test_the_collectors_ranks_are_counted() -> None:
    once_each = dict.fromkeys(paper.PROGRAMS, 1.0) | {"cfrac": 0.8, "gawk": 1.2}
    ranks = claim_of(made_by_hand(once_each), "2b")
    # As fast as the others: perhaps slowest, perhaps fastest.
    assert [part.measured for part in ranks.parts] == [Estimate(1, 1, 5), Estimate(1, 1, 5)]
    assert ranks.verdict == "not decided"
    clear = {name: 1.2 for name in paper.PROGRAMS} | {"cfrac": 0.8}
    often = claim_of(made_by_hand(clear), "2b")
    assert [part.measured for part in often.parts] == [Estimate(5, 5, 5), Estimate(1, 1, 1)]
    assert often.verdict == "does not hold"


def test_one_failed_run_is_left_out_of_its_row() -> None:
    results = made_by_hand(dict.fromkeys(paper.PROGRAMS, 1.1))
    verdicts = {claim.number: claim.verdict for claim in all_claims(results)}
    for name in results.rounds:
        results.rounds[name].append(dict(results.rounds[name][0]))
    results.rounds["perl"][3]["collected gc:classic"] = {"failure": "not done after 60 s"}
    assert {claim.number: claim.verdict for claim in all_claims(results)} == verdicts
    assert "perl 1.1;" in claim_of(results, "2a").figures()


def test_programs_that_were_left_out_of_the_study_are_missing_from_its_claims() -> None:
    results = made_by_hand(dict.fromkeys(paper.PROGRAMS, 1.1))
    for name, rounds in results.rounds.items():
        for each in rounds:
            for spec in ("cartesian", "knuth", "bsd", "gnu"):
                each[f"unoptimised {spec}:classic"] = {"cpu": 1.04, "rss": 1}
    ghostless = [one for one in results.programs if one.name != "ghostscript"]
    results.programs = ghostless
    assert claim_of(results, "6b").verdict == "holds"
    results.programs = [one for one in ghostless if one.name != "gawk"]
    claim = claim_of(results, "6b")
    assert claim.verdict == "not decided" and "gawk not measured" in claim.figures()


def test_an_explanation_is_given_only_of_programs_that_are_out() -> None:
    slow = dict.fromkeys(paper.PROGRAMS, 1.1)
    found = Explanation("gawk has 18,000 collections", ("gawk",))

    def why(took: dict[str, float], explanation: Explanation | None = found) -> str:
        return replace(claim_of(made_by_hand(took), "2a"), explanation=explanation).why()

    assert why(slow) == ""
    assert "gawk" in why(slow | {"gawk": 4.5})
    assert why(slow | {"cfrac": 4.5}) == ""
    assert why(slow | {"cfrac": 4.5}, Explanation("of whatever is outside")) != ""
    assert why(slow | {"gawk": 4.5}, None) == ""


def with_bsd(times: Sequence[Sequence[float]]) -> Results:
    """By program, as often as there are rounds: what BSD takes where the others take 1 s."""
    results = made_by_hand(dict.fromkeys(paper.PROGRAMS, 1.0))
    for name, seconds in zip(paper.PROGRAMS, times, strict=True):
        results.rounds[name] = [
            taken | {"optimised bsd:classic": {"cpu": cpu, "rss": 1}}
            for taken, cpu in zip(results.rounds[name], seconds, strict=True)
        ]
    return results


def test_bsd_is_fastest_where_the_interval_says_so() -> None:
    faster, slower, either = [0.9] * 10, [1.1] * 10, [0.9] * 6 + [1.1] * 4
    clear = claim_of(with_bsd([faster] * 3 + [slower] * 3), "5c")
    assert clear.parts[0].measured == Estimate(3, 3, 3) and clear.verdict == "holds"
    open_ = claim_of(with_bsd([faster] * 2 + [either] + [slower] * 3), "5c")
    assert open_.parts[0].measured == Estimate(3, 2, 3) and open_.verdict == "not decided"
    four = claim_of(with_bsd([faster] * 4 + [slower] * 2), "5c")
    assert four.verdict == "holds" and "beyond the range" in four.figures()
    two = claim_of(with_bsd([faster] * 2 + [slower] * 4), "5c")
    assert two.verdict == "does not hold"


def test_what_was_not_measured_is_said() -> None:
    nothing = Results([program(name) for name in paper.PROGRAMS], {"quick": False})
    assert {claim.verdict for claim in all_claims(nothing)} == {"not measured"}


def test_sets_are_told_by_their_place_in_a_page() -> None:
    even = [10] * 4096
    assert busiest_share(even) == pytest.approx(1 / 64)
    assert page_start_share(even) == pytest.approx(1 / 64)
    headers = [100 if number % 128 < 2 else 0 for number in range(4096)]
    assert page_start_share(headers) == 1
    assert busiest_share(headers) == 1
    assert page_start_share([0] * 4096) == 0
    assert misses_by_place(headers) == [3200, 3200] + [0] * 126


def traced(curves: dict[str, list[tuple[int, int]]]) -> Results:
    """gawk with these faults by frames; the first 100 are first touches."""
    results = Results([program("gawk", "unoptimised", "collected")], {"quick": False})
    for key, points in curves.items():
        curve = [{"frames": frames, "faults": faults, "cold": 100} for frames, faults in points]
        pages = [{"page_size": size, "cold": 100, "curve": curve} for size in (4096, 8192)]
        results.locality["gawk", key] = {
            "pages": {"references": 10**6, "pages": pages, "classes": []},
            "caches": {"results": [], "shapes": []},
        }
    return results


CURVES = {
    "optimised bsd:classic": [(1, 9000), (16, 2000), (64, 300), (256, 100)],
    "collected gc:classic": [(1, 9000), (16, 8000), (64, 6000), (256, 100)],
}


def test_the_fixed_memory_is_one_for_all_at_which_most_replace_pages_and_differ_most() -> None:
    results = traced(CURVES)
    # 5,900 over 200 from 64 frames on; at 256 nothing is replaced any more.
    assert results.fixed_memory() == 128 * 4096
    assert results.replacement_faults("gawk", "collected", "gc:classic", 64 * 4096) == 5900
    # Another program replaces pages in less memory only: then it is that of both.
    results.programs = [*results.programs, program("perl", "unoptimised", "collected")]
    smaller = {
        "optimised bsd:classic": [(1, 9000), (8, 900), (32, 100)],
        "collected gc:classic": [(1, 9000), (8, 8000), (32, 100)],
    }
    for key, found in traced(smaller).locality.items():
        results.locality["perl", key[1]] = found
    assert results.fixed_memory() == 16 * 4096


def test_page_faults_are_told_from_first_touches_at_two_memories_and_page_sizes() -> None:
    figure = faults_figure(traced(CURVES))
    assert "512K" in figure.title
    assert figure.rows == [["gawk", "200 (200.00)", "5,900 (5,900.00)"]]
    sheet = faults_table(traced(CURVES))
    rows = {row[0]: row[1:] for row in sheet.rows}
    assert sheet.header[1:] == ["BSD", "Boehm–Weiser"]
    assert rows["gawk, 512K, 4K pages"] == ["200 (1.00)", "5,900 (29.50)"]
    assert rows["gawk, 2M, 4K pages"] == ["0 (undefined)", "0 (undefined)"]
    assert rows["gawk, first touches, 8K pages"] == ["100", "100"]


def test_misses_are_told_as_counts_and_rates() -> None:
    results = traced(CURVES)
    one = {"bytes": paper.CACHE_1992, "block": 32, "ways": 1, "misses": 25_000}
    for found in results.locality.values():
        found["caches"]["results"] = [one]
    assert misses_figure(results).rows == [["gawk", "2.50% (25,000)", "2.50% (25,000)"]]


# Tables and figures


def test_collections_are_told_in_the_time_of_the_process() -> None:
    results = Results([program("gawk")], {"quick": False})
    gc = {"collections": 4, "pause_ns": 9e9, "cpu_ns": 1e9, "longest_pause_ns": 5e9}
    account = {"heap": {"mapped_peak_bytes": 1}, "peak": {}, "cpu": 2.0}
    results.accounts["gawk", "optimised gc:classic"] = account | {"gc": gc | {"root_bytes": 4096}}
    results.accounts["gawk", "optimised libgc"] = account | {"gc": gc | {"pauses": 9}}
    rows = collections_table(results).rows
    assert rows[0] == ["gawk", "Boehm–Weiser", "4", "1.00", "2.00", *rows[0][5:]]
    assert rows[0][5:] == ["2,250.00", "5,000.00", "1.0 KiB"]
    # libgc pauses oftener than it collects, and does not tell of roots.
    assert rows[1][5:] == ["1,000.00", "5,000.00", "not measured"]


def test_time_in_heaps_of_several_sizes_is_told_to_that_in_the_largest() -> None:
    results = Results([program("gawk")], {"quick": False})
    small = {"factor": 1.25, "cpu": 3.0, "collections": 90, "heap_bytes": 2 << 20}
    large = {"factor": 2.0, "cpu": 2.0, "collections": 9, "heap_bytes": 4 << 20}
    failed = {"factor": 8.0, "failure": "no memory"}
    results.factors["gawk", "optimised gc:classic"] = {"heaps": [small, large, failed]}
    rows = factors_table(results).rows
    told = ["1.50 (90, 2.0 MiB)", "1.00 (9, 4.0 MiB)", "failed"]
    assert rows == [["gawk", "Boehm–Weiser", *told]]


def test_a_heap_begun_with_a_size_heeds_the_pointers_that_the_program_needs() -> None:
    for pointers, spec, begun in (
        ("base", "gc:classic", "gc:classic,initial=8192"),
        ("interior", "gc:classic", "gc:classic,pointers=interior,initial=8192"),
        ("interior", "gc:free=ignore", "gc:free=ignore,initial=8192"),
        ("interior", "gc", "gc:initial=8192"),
    ):
        collector = choose(spec, pointers)
        assert collector and begun_with(collector, 8192).spec == begun


def with_heaps(peaks: dict[str, int]) -> Results:
    results = Results([program("yacr")], {"quick": False})
    waste = {"header": 10, "rounding": 20, "alignment": 0, "external": 30}
    for spec, peak in peaks.items():
        asked = {"requested_bytes": peak - 60, "mapped_bytes": peak, "waste": waste}
        results.accounts["yacr", f"optimised {spec}"] = {
            "heap": {"mapped_peak_bytes": peak},
            "peak": asked,
        }
    return results


def test_a_heap_far_below_the_others_does_not_flatten_the_picture() -> None:
    results = with_heaps({"cartesian:classic": 100_000, "bsd:classic": 150_000, "gc:classic": 350})
    svg = memory_figure(results).svg or ""
    assert ">0.0035<" in svg and ">0.5<" in svg and ">0.1<" not in svg
    rows = memory_table(results, "table-4", ALL_1992, False).rows
    assert rows[0][-1].startswith("0.0035 ")
    assert rows[1] == ["  in 1992", "1.00 (13,841)", "1.03 (14,245)", "0.79 (10,944)"]


def test_where_a_heaps_bytes_are_adds_up() -> None:
    sheet = waste_table(with_heaps({"cartesian:classic": 1000, "bsd:classic": 1500}))
    assert len(sheet.records) == 2
    for one in sheet.records:
        parts = ("requested", "header", "rounding", "alignment", "external")
        assert sum(one[f"{part}_bytes"] for part in parts) == one["heap_bytes"]


def test_what_nearly_all_outlives_is_drawn_on_the_whole_scale() -> None:
    results = Results([program("yacr", "unoptimised")], {"quick": False})
    curve = [(10.0, 1.0), (1e5, 0.9999999), (1e6, 0.9999998)]
    results.events["yacr", "unoptimised cartesian:classic"] = {
        "survival": {"instructions": curve, "bytes": curve}
    }
    svg = survival_figure(results).svg or ""
    ticks = {"0", "20", "40", "60", "80", "100"}
    assert {text for text in ticks if f">{text}<" in svg} == ticks


def test_an_allocator_looks_alike_in_all_figures() -> None:
    results = made_by_hand(dict.fromkeys(paper.PROGRAMS, 1.1))
    for name, rounds in results.rounds.items():
        slower = {"unoptimised bsd:classic": {"cpu": 1.1, "rss": 1}}
        results.rounds[name] = [{**one, **slower} for one in rounds]
    svg = domain_figure(results).svg or ""
    assert look(("optimised", "bsd:classic"))[1] in svg and "unoptimised" not in svg
    assert ">1992<" in svg


def test_the_paper_is_beside_each_table_of_domain_allocators() -> None:
    results = made_by_hand(dict.fromkeys(paper.PROGRAMS, 1.1))
    results.programs = [program("ghostscript"), program("cfrac", "unoptimised")]
    for sheet in all_tables(results):
        if sheet.name in ("table-5", "table-6"):
            assert ("Figure 3" in sheet.title) is (sheet.name == "table-5")  # its picture alone
            names = [row[0] for row in sheet.rows]
            assert names == ["ghostscript", "  in 1992", "cfrac", "  in 1992"]
            assert "1.00" not in " ".join(sheet.rows[0])
    results.rounds["cfrac"] = [
        taken | {"unoptimised cartesian:classic": {"cpu": 1.5, "rss": 1}}
        for taken in results.rounds["cfrac"]
    ]
    sheet = next(one for one in all_tables(results) if one.name == "table-5")
    assert [row[:2] for row in sheet.rows[2:]] == [
        ["cfrac", "1.50 [1.50, 1.50]"],
        ["  in 1992", "1.62"],
    ]


def test_memory_of_programs_with_pools_is_counted_whole() -> None:
    python = replace(program("python3", "unoptimised"), row="today")
    results = Results([python], {"quick": False})
    both = {"optimised bsd:classic": 100, "unoptimised bsd:classic": 150}
    results.rounds["python3"] = [{key: {"cpu": 1.0, "rss": rss} for key, rss in both.items()}] * 6
    for key, peak in (("optimised bsd:classic", 10), ("unoptimised bsd:classic", 60)):
        results.accounts["python3", key] = {"heap": {"mapped_peak_bytes": peak}, "peak": {}}
    sheet = next(one for one in all_tables(results) if one.name == "table-6")
    # Of the heap alone it would be 6: the pools are mapped beside it.
    assert sheet.rows == [["python3", "1.50 [1.50, 1.50] resident"]]


def test_readings_that_cannot_be_dated_are_shown_apart() -> None:
    heaps = {"cartesian:classic": 1000, "knuth:classic": 900, "knuth:classic,cut=end": 1800}
    sheet = variants_table(with_heaps(heaps))
    assert sheet.header[1:] == ["SunOS", "Knuth", "Knuth, cut=end"]
    assert sheet.rows[0][-1].startswith("1.80 ")
    assert variants_table(with_heaps({"cartesian:classic": 1000})).rows == []


def test_heap_and_resident_memory_are_reconciled() -> None:
    results = made_by_hand(dict.fromkeys(paper.PROGRAMS, 1.1))
    assert reconciliation(results) == ""
    for name in paper.PROGRAMS:
        for key in results.rounds[name][0]:
            peak = 2500 if "gc" in key else 1000
            results.accounts[name, key] = {"heap": {"mapped_peak_bytes": peak}, "peak": {}}
    said = reconciliation(results)
    assert "heap is 2.5 times that of the best malloc" in said and "memory is 1 times" in said


def test_limits_say_what_the_machine_was_and_how_large_the_heaps_are() -> None:
    results = made_by_hand(dict.fromkeys(paper.PROGRAMS, 1.1))
    results.study = {"quick": False, "rounds": ROUNDS}
    said = " ".join(limits(results))
    assert "10 rounds (30 and a quiet machine were wanted)" in said and "was not kept" in said
    results.study = {"quick": False, "rounds": 30}
    results.rounds = {
        name: [
            {key: {**run, "load": float(place)} for key, run in each.items()}
            for place, each in enumerate(rounds)
        ]
        for name, rounds in results.rounds.items()
    }
    results.accounts["gawk", "optimised cartesian:classic"] = {
        "heap": {"mapped_peak_bytes": 147_456}
    }
    said = " ".join(limits(results))
    assert (
        "10 of 30 rounds (30 and a quiet machine were wanted); the machine's load was 5.0" in said
    )
    assert "gawk 144 KiB for 1,006 KB" in said


def test_the_answers_put_1992_beside_today() -> None:
    results = made_by_hand(dict.fromkeys(paper.PROGRAMS, 1.1))
    printed = {claim.number: claim for claim in all_claims(PRINTED)}
    found = {one.number: one for one in answers(results, all_claims(results), printed)}
    assert found["2a"].then.startswith(
        "0.70 to 1.27 times SunOS's malloc; 0.70 to 1.10 beside the same program, unoptimised "
        "(cfrac apart); slowest of all in 1 of 6"
    )
    assert found["2a"].now.startswith("1.10 times SunOS's malloc; slowest of all in 6 of 6")
    assert found["2a"].word == "still so"
    assert found["4a"].then.startswith("a heap 1.34 to 2.46 times that of the best malloc; 0.79")
    assert found["4a"].now == "not measured"
    assert found["5c"].then.startswith("BSD fastest in 3 of 6 programs; its heap up to 1.42 ")
    assert found["13"].then.startswith("without its own up to 1.62 times")
    slow = made_by_hand(dict.fromkeys(paper.PROGRAMS, 1.1) | {"perl": 1.5})
    assert answers(slow, all_claims(slow), printed)[0].word == "no longer so: 5 agree, 1 refute it"
    for name in paper.PROGRAMS:
        for each in results.rounds[name]:
            each["collected libgc"] = {"cpu": 1.3, "rss": 1}
    assert (
        "libgc takes 1.18 times the 1992" in answers(results, all_claims(results), printed)[-1].now
    )
    assert [claim.number for claim, _ in contradictions(printed)] == ["1c", "5b", "5d", "6c"]


def test_the_chart_has_a_row_for_every_claim() -> None:
    claims = all_claims(made_by_hand(dict.fromkeys(paper.PROGRAMS, 1.1)))
    chart = claims_chart(claims, {claim.number: claim for claim in all_claims(PRINTED)}, SHORT)
    assert set(SHORT) == {claim.number for claim in claims}
    for number, name in SHORT.items():
        assert f">{number}  {name}<" in (chart.svg or "").replace("&#160;", " ")


def test_a_quick_study_has_a_chart_of_claims_on_programs_that_it_lacks() -> None:
    found = whole_study()
    found.programs = [one for one in found.programs if one.name == "yacr"]
    found.study = {**found.study, "quick": True}
    report = make_report(found)
    assert not next(claim for claim in report.claims if claim.number == "4a").parts
    assert report.chart.svg


@pytest.mark.usefixtures("undrawn")
def test_few_rounds_indicate() -> None:
    for rounds, word in ((5, "indication"), (6, "verdict")):
        results = made_by_hand(dict.fromkeys(paper.PROGRAMS, 1.1))
        results.study = {"quick": False, "rounds": rounds}
        report = make_report(results)
        assert summary(report).startswith(f"{word}s, of {len(SHORT)} claims: ")


# What was measured in one file, and what its reader found


def test_measurements_are_read_as_they_were(tmp_path: Path) -> None:
    results = traced(CURVES)
    results.rounds = made_by_hand(dict.fromkeys(paper.PROGRAMS, 1.1)).rounds
    results.missing["perl"] = "needs packages: perl"
    results.samples["gawk", "unoptimised cartesian:classic"] = {"failure": "no perf"}
    file = tmp_path / "measurements.json"
    file.write_text(as_text(results))
    read = read_measurements(file)
    assert as_text(read) == as_text(results)
    assert (read.rounds, read.missing, read.samples) == (
        results.rounds,
        results.missing,
        results.samples,
    )
    pair = ("collected", "gc:classic")
    assert read.replacement_faults("gawk", *pair, 64 * 4096) == 5900
    lines = [line.rstrip(",") for line in file.read_text().splitlines()]
    steps = [json.loads(line) for line in lines if line.startswith('{"kind"')]
    assert len(steps) == 6 * ROUNDS + 2 + 1  # rounds, locality, samples: a line for each


@pytest.mark.parametrize(
    "was, now, complaint",
    [
        ('"cpu":1.1', '"cpu":1.2', "is damaged: it is not what the study wrote"),
        ('"digest"', '"digests"', "is damaged: it is not what the study wrote"),
        ("measurements/1", "measurements/2", "holds no measurements of a study"),
        ('"steps": [', '"steps": ', "is damaged: it is no JSON"),
    ],
)
def test_damaged_measurements_are_refused(
    tmp_path: Path, was: str, now: str, complaint: str
) -> None:
    text = as_text(made_by_hand(dict.fromkeys(paper.PROGRAMS, 1.1)))
    file = tmp_path / "measurements.json"
    assert was in text
    file.write_text(text.replace(was, now, 1))
    with pytest.raises(UserError, match=complaint):
        read_measurements(file)


@pytest.mark.parametrize(
    "text, complaint",
    [
        ("[2a", "is no TOML"),
        ("[2z]\ntext = 'x'", "there is no claim '2z'; valid are 1a, 2a"),
        ("[2a]", "2a has no text"),
        ("2a = 'x'", "2a has no text"),
        ("[2a]\ntext = 'x'\nprogram = 'gawk'", "2a: unknown key 'program'"),
        ("[2a]\ntext = 'x'\nprograms = 'gawk'", "2a: programs must be a list"),
        ("[2a]\ntext = 'x'\nprograms = ['mawk']", "2a: no program 'mawk'; valid are gawk"),
    ],
)
def test_bad_explanations_are_named(tmp_path: Path, text: str, complaint: str) -> None:
    file = tmp_path / "run.explanations.toml"
    file.write_text(text)
    with pytest.raises(UserError, match=complaint):
        read_explanations(file, ["1a", "2a"], ["gawk"])


def test_explanations_are_read_by_claim(tmp_path: Path) -> None:
    file = tmp_path / "run.explanations.toml"
    assert read_explanations(file, ["1a", "2a"], ["gawk"]) == {}
    file.write_text("[2a]\ntext = 'it collects often'\nprograms = ['gawk']\n[1a]\ntext = 'x'\n")
    assert read_explanations(file, ["1a", "2a"], ["gawk"]) == {
        "2a": Explanation("it collects often", ("gawk",)),
        "1a": Explanation("x"),
    }


def test_programs_with_a_large_load_are_a_row_of_their_own() -> None:
    found = {one.name: one for one in read_programs(None)}
    large = [one for one in found.values() if one.row == "large"]
    assert [one.name for one in large] == ["gawk_large", "yacr_large"]
    for one in large:
        same = found[one.name.removesuffix("_large")]
        assert set(one.forms) == set(same.forms) and same.row == "1992"
        for form, command in one.forms.items():
            assert command.command != same.forms[form].command
            assert not command.large
    results = Results(large, {"quick": False})
    assert not [sheet for sheet in all_tables(results) if sheet.name == "table-5" and sheet.rows]


# Programs that somebody holds


def test_a_given_program_takes_the_place_of_ours_which_stays_beside_it(tmp_path: Path) -> None:
    (tmp_path / "program.toml").write_text(
        'note = "version 2.00"\n'
        'scale = { timed = "33", traced = "28" }\n'
        'optimised = { command = ["{dir}/cfrac", "{scale}"] }\n'
        'collected = { command = ["{dir}/cfrac_gc", "{scale}"] }\n'
    )
    for name in ("cfrac", "cfrac_gc"):
        (tmp_path / name).touch()
    found = read_programs(None, [f"cfrac={tmp_path}"])
    assert [one.name for one in found[:3]] == ["cfrac", "cfrac_ours", "espresso"]
    theirs, ours = found[:2]
    assert theirs.note == "version 2.00" and theirs.missing is None
    assert theirs.forms["collected"].command == [f"{tmp_path}/cfrac_gc", "33"]
    assert theirs.forms["optimised"].traced == [f"{tmp_path}/cfrac", "28"]
    assert ours.row == "1992" and "unoptimised" in ours.forms


@pytest.mark.parametrize(
    "word, text, complaint",
    [
        ("doom={dir}", None, "bad program 'doom="),
        ("cfrac", None, "bad program 'cfrac'; write NAME=DIR, NAME one of cfrac, espresso"),
        ("cfrac={dir}", None, "program.toml: No such file"),
        ("cfrac={dir}", "[", "is no TOML"),
        ("cfrac={dir}", "row = '1992'", "leave out ['row']"),
        ("cfrac={dir}", "speed = 1", "missing keys ['optimised'], unknown keys ['speed']"),
    ],
)
def test_a_bad_given_program_is_named(
    tmp_path: Path, word: str, text: str | None, complaint: str
) -> None:
    if text is not None:
        (tmp_path / "program.toml").write_text(text)
    with pytest.raises(UserError) as error:
        read_programs(None, [word.replace("{dir}", str(tmp_path))])
    assert complaint in str(error.value)


# Steps


def test_a_step_is_used_only_as_it_was_measured(tmp_path: Path) -> None:
    store = Store(tmp_path / "study", SCHEMA)
    step = Step("round", "gawk 1", {"command": ["gawk"]}, 1.0)
    assert store.get(step) is None
    store.put(step, {"cpu": 1.0}, 0.5)
    assert store.get(step) == {"cpu": 1.0}
    assert store.get(Step("round", "gawk 1", {"command": ["mawk"]}, 1.0)) is None
    store.path(step).write_text(store.path(step).read_text()[:20])
    assert store.get(step) is None


def test_a_folder_of_something_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "letter.txt").write_text("dear")
    with pytest.raises(UserError, match="holds something else"):
        Store(tmp_path, SCHEMA).begin({"machine": {}, "quick": True}, False)


def test_another_machine_does_not_continue(tmp_path: Path) -> None:
    store = Store(tmp_path / "study", SCHEMA)
    store.begin({"machine": {"cpu": "a"}, "quick": False}, False)
    store.begin({"machine": {"cpu": "a"}, "quick": False}, True)
    with pytest.raises(UserError, match=r"another machine's \(cpu a, here b\)"):
        store.begin({"machine": {"cpu": "b"}, "quick": False}, True)
    with pytest.raises(UserError, match="begun without --quick"):
        store.begin({"machine": {"cpu": "a"}, "quick": True}, True)
    with pytest.raises(UserError, match="--resume"):
        store.begin({"machine": {"cpu": "a"}, "quick": False}, False)


def test_what_is_asked_otherwise_on_resuming_is_said_and_kept(tmp_path: Path) -> None:
    store = Store(tmp_path / "study", SCHEMA)
    asked = {"machine": {}, "quick": False, "rounds": 7, "only": [], "programs": None}
    assert store.begin(asked, False) == []
    assert store.begin(asked, True) == []
    said = store.begin(asked | {"rounds": 3, "only": ["gawk"]}, True)
    assert said == ["rounds: begun with 7, now 3", "only: begun with all, now gawk"]
    assert store.study()["rounds"] == 3 and store.begun()["only"] == ["gawk"]


# The whole, on loads of milliseconds


@pytest.fixture(scope="module")
def command() -> Command:
    return Command(BUILD)


@pytest.fixture(scope="module")
def study(command: Command, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A quick study that was ended by TERM on its way, and resumed."""
    folder = tmp_path_factory.mktemp("zorn")
    (folder / "tiny.toml").write_text(TINY)
    words = tiny_study(folder / "tiny.toml", folder / "out")
    first = command.start(*words)
    steps = folder / "out" / "steps"
    await_that(lambda: list(steps.glob("round/*.json")))
    first.send_signal(signal.SIGTERM)
    assert first.wait(HANG) == 130
    kept = {path: path.read_bytes() for path in steps.glob("*/*.json")}
    assert kept and not (folder / "out" / "study.html").exists()
    # With the options it was begun with.
    done = command.run("zorn", "--quick", "--out", words[-1], "--resume", timeout=HANG)
    assert done.returncode == 0, done.stderr
    assert {path: path.read_bytes() for path in kept} == kept
    assert "done before" in done.stderr
    return folder / "out", done.stdout


def test_every_table_and_figure_has_its_data(study: tuple[Path, str]) -> None:
    folder, _ = study
    document = json.loads((folder / "results.json").read_text())
    assert document["schema"] == "allotrope.zorn/1"
    wanted = {f"table-{number}" for number in range(1, 7)}
    wanted |= {f"figure-{number}" for number in range(1, 9)}
    assert wanted <= set(document["sheets"])
    for name, sheet in document["sheets"].items():
        with (folder / "data" / f"{name}.csv").open() as file:
            assert len(list(csv.DictReader(file))) == len(sheet["records"])
    cpu = document["sheets"]["table-3"]["records"]
    assert {(one["program"], one["allocator"]) for one in cpu} == {
        (name, spec)
        for name in ("cfrac", "echo")
        for spec in ("cartesian:classic", "bsd:classic", "gc:classic")
    }
    misses = document["sheets"]["figure-6"]["records"]
    assert any(one["miss_rate"] for one in misses)
    allocated = {one["program"]: one for one in document["sheets"]["table-2"]["records"]}
    collected = document["sheets"]["collections"]["records"]
    assert collected and all(
        0 <= one["cpu_seconds_in_collections"] < one["cpu_seconds"] for one in collected
    )
    assert all("root_bytes_a_collection" in one for one in collected)  # None: no collection
    assert read_measurements(folder / "measurements.json").loads()
    assert 0 < allocated["cfrac"]["malloc_instruction_share"] < 1
    assert 0 < allocated["cfrac"]["free_instruction_share"] < 1
    shares = [
        one
        for one in document["sheets"]["attribution"]["records"]
        if (one["program"], one["allocator"]) == ("cfrac", "bsd:classic")
    ]
    assert shares and 0 < shares[0]["share_allocator"] < 1


def test_survival_never_rises(study: tuple[Path, str]) -> None:
    folder, _ = study
    sheet = json.loads((folder / "results.json").read_text())["sheets"]["figure-8"]
    for clock in ("instructions", "bytes"):
        shares = [
            one["share_of_objects"]
            for one in sheet["records"]
            if (one["program"], one["clock"]) == ("cfrac", clock)
        ]
        assert shares == sorted(shares, reverse=True) and shares[0] > shares[-1]


def test_the_page_is_written_from_what_there_is(command: Command, study: tuple[Path, str]) -> None:
    folder, _ = study
    words = tiny_study(folder.parent / "tiny.toml", folder)
    before = (folder / "results.json").read_text()
    done = command.run(*words, "--resume", "--report-only")
    assert done.returncode == 0, done.stderr
    assert "of other programs" not in done.stderr
    step = next((folder / "steps" / "account").glob("cfrac*.json"))
    was = step.read_text()
    step.write_text(was.replace('"fingerprint": "', '"fingerprint": "0'))
    other = command.run(*words, "--resume", "--report-only")
    step.write_text(was)
    assert "1 results are of other programs, allocators or simulators" in other.stderr
    assert (
        json.loads((folder / "results.json").read_text())["claims"] == json.loads(before)["claims"]
    )


def kept_apart(study: Path, folder: Path) -> Path:
    """The study's measurements, and nothing else of it, in another folder."""
    kept = folder / "2026-11-22-study.json"
    kept.write_bytes((study / "measurements.json").read_bytes())
    return kept


def everything(folder: Path) -> dict[str, bytes]:
    """What a reader of the study gets, by its path in the folder."""
    files = [folder / "study.html", folder / "results.json", *(folder / "data").iterdir()]
    return {str(file.relative_to(folder)): file.read_bytes() for file in files}


def test_the_page_is_drawn_again_from_the_measurements_alone(
    command: Command, study: tuple[Path, str], tmp_path: Path
) -> None:
    folder, said = study
    kept = kept_apart(folder, tmp_path)
    for _ in range(2):  # the second over the first
        done = command.run("zorn", "--from", str(kept), "--out", str(tmp_path / "again"))
        assert done.returncode == 0, done.stderr
        assert done.stdout == said.replace(str(folder), str(tmp_path / "again"))
        assert everything(tmp_path / "again") == everything(folder)


@pytest.mark.usefixtures("undrawn")
def test_explanations_lie_beside_the_measurements(
    command: Command, study: tuple[Path, str], tmp_path: Path
) -> None:
    folder, _ = study
    kept = kept_apart(folder, tmp_path)
    out = json.loads((folder / "results.json").read_text())["claims"]
    claim = next(one for one in out if {part["standing"] for part in one["parts"]} == {"out"})
    named = claim["parts"][0]["about"].partition(",")[0]
    other = next(name for name in paper.PROGRAMS if name != named)
    beside = kept.with_name("2026-11-22-study.explanations.toml")
    for programs, shown in (([named], True), ([other], False), ([], True)):
        beside.write_text(f"[{claim['claim']}]\ntext = 'so it is'\nprograms = {programs}\n")
        assert ("Why: so it is" in report_from(kept).render()) is shown
    beside.write_text("[99]\ntext = 'x'\n")
    done = command.run("zorn", "--from", str(kept), "--out", str(tmp_path / "again"))
    assert done.returncode == 2 and "there is no claim '99'" in done.stderr


def test_a_page_takes_nobodys_place(
    command: Command, study: tuple[Path, str], tmp_path: Path
) -> None:
    folder, _ = study
    before = everything(folder)
    kept = kept_apart(folder, tmp_path)
    for out, complaint in ((folder, "holds another study"), (tmp_path, "holds something else")):
        done = command.run("zorn", "--from", str(kept), "--out", str(out))
        assert done.returncode == 2 and complaint in done.stderr
    assert everything(folder) == before and not (tmp_path / "study.html").exists()
    own = command.run("zorn", "--from", str(folder / "measurements.json"), "--out", str(folder))
    assert own.returncode == 0 and everything(folder) == before


def test_a_quick_study_indicates(study: tuple[Path, str]) -> None:
    folder, said = study
    page = (folder / "study.html").read_text()
    assert "an indication, not a verdict" in page
    assert f"Indications, of {len(SHORT)} claims: " in page
    assert f"indications, of {len(SHORT)} claims: " in said
    assert "https://" not in page and "http://" not in page.replace("http://www.w3.org/", "")
    assert said.rstrip().endswith("study.html")


def test_the_page_opens_and_prints(study: tuple[Path, str], browser: Browser) -> None:  # noqa: F811
    folder, _ = study
    browser.driver.get((folder / "study.html").resolve().as_uri())
    assert browser.errors() == []
    assert len(browser.driver.find_elements("css selector", "figure svg")) >= 7
    width = "return document.documentElement.scrollWidth - document.documentElement.clientWidth"
    assert browser.run(width) <= 0
    browser.cdp(
        "Emulation.setDeviceMetricsOverride",
        width=1280,
        height=900,
        deviceScaleFactor=1,
        mobile=False,
    )
    cut = (
        "return [...document.querySelectorAll('.scroll')].filter(e => e.scrollWidth >"
        " e.clientWidth).map(e => e.getAttribute('aria-label'))"
    )
    assert browser.run(cut) == []
    browser.cdp(
        "Emulation.setDeviceMetricsOverride",
        width=400,
        height=900,
        deviceScaleFactor=1,
        mobile=True,
    )
    assert browser.run(width) <= 0
    narrowest = (
        "return Math.min(...[...document.querySelectorAll('figure svg')]"
        ".map(e => e.getBoundingClientRect().width))"
    )
    assert browser.run(narrowest) >= 600
    assert browser.print_pdf().startswith(b"%PDF")


def test_the_page_of_a_whole_study_can_be_read_in_ten_minutes(
    tmp_path: Path, browser: Browser  # noqa: F811
) -> None:
    """Ten printed pages before the appendix; 200 to 250 words are read in a minute."""
    page = write_report(make_report(whole_study()), tmp_path, SCHEMA)
    browser.driver.get(page.resolve().as_uri())
    assert browser.errors() == []
    browser.run("document.querySelector('.appendix').remove()")
    pages = re.findall(rb"/Type\s*/Page\b", browser.print_pdf())
    assert 5 <= len(pages) <= 10
    text = browser.run(
        "document.querySelectorAll('svg, table.wide').forEach(e => e.remove());"
        "return document.querySelector('main').innerText"
    )
    assert len(text.split()) <= 2400


@pytest.mark.parametrize(
    "words, complaint",
    [
        (["--only", "doom"], "--only: no program 'doom'; valid are cfrac, espresso"),
        (["--programs", "/nowhere.toml"], "cannot read /nowhere.toml: No such file"),
        (["--resume", "--out", "/nowhere"], "--resume: /nowhere holds no study"),
        (["--report-only"], "--report-only needs --resume"),
        (["--from", "x.json"], "--from needs --out DIR, where the page is to go"),
        (["--from", "x.json", "--out", "x", "--quick"], "was measured before; leave out --quick"),
        (["--from", "/nowhere.json", "--out", "x"], "cannot read /nowhere.json: No such file"),
        (["--rounds", "0"], "is no whole number from 1 on"),
        (["gawk"], "one word too many"),
    ],
)
def test_bad_input_is_one_line(command: Command, words: list[str], complaint: str) -> None:
    done = command.run("zorn", *words)
    assert done.returncode == 2
    assert complaint in done.stderr and done.stderr.count("\n") == 1
