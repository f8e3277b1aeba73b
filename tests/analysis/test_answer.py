# SPDX-License-Identifier: MIT
"""The first half page of the 1992 study: each of its sentences on figures that are made up, one way
and the other."""

from __future__ import annotations

from typing import Any, Mapping

import pytest
from allotrope.study.zorn import paper
from allotrope.study.zorn.answer import QUESTIONS, Answer, answers, limits, reconciliation
from allotrope.study.zorn.cautions import of_timed, of_traced
from allotrope.study.zorn.paper import BSD, COLLECTOR, SUNOS
from allotrope.study.zorn.plan import GENERATIONS
from allotrope.study.zorn.printed import PRINTED
from allotrope.study.zorn.programs import Form, Program
from allotrope.study.zorn.report import make_report
from allotrope.study.zorn.results import Results
from allotrope.study.zorn.rules import all_claims
from allotrope.study.zorn.tables import all_tables
from made_up_study import undrawn, whole_study  # noqa: F401
from test_rules import AS_CLAIMED, OPPOSITE, PICTURES, World, claimed_heap, collected, lacking

NOTHING = Results([], {"quick": False, "rounds": 30})


def told(world: World, results: Results = NOTHING) -> dict[str, Answer]:
    printed = {claim.number: claim for claim in all_claims(PRINTED)}
    return {one.number: one for one in answers(results, all_claims(world), printed)}


AS_IT_WAS = {
    "2a": "still so",
    "4a": "still so",
    "12": "still so",
    "5c": "fastest: still BSD; least room: still SunOS's",
    "13": "still so",
    "11": "generations: as foretold, of another collector",
}
THE_OTHER_WAY = {
    "2a": "no longer so: 0 agree, 6 refute it",
    "4a": "no longer so: 0 agree, 5 refute it",
    "12": "no longer so",
    "5c": "fastest: no longer BSD; least room: no longer SunOS's",
    "13": "no longer so",
    "11": "generations: not as foretold",
}


def test_the_words_follow_the_verdicts() -> None:
    assert {number: one.word for number, one in told(AS_CLAIMED).items()} == AS_IT_WAS
    assert {number: one.word for number, one in told(OPPOSITE).items()} == THE_OTHER_WAY


def test_yes_is_what_the_paper_says() -> None:
    """ "Does it cost CPU time?" beside "no longer so" would say the opposite of what was found."""
    assert "comparable" in QUESTIONS["2a"] and "30 to 150% more" in QUESTIONS["4a"]
    assert "true cost" in QUESTIONS["12"] and "better to change" in QUESTIONS["13"]


def test_what_refutes_the_paper_is_named_with_its_side() -> None:
    found = told(OPPOSITE)
    all_six = ", ".join(paper.PROGRAMS)
    assert f"more than the paper says in {all_six}" in found["2a"].now
    assert "less than the paper says in cfrac, espresso, gawk, ghostscript, perl" in found["4a"].now
    for one in told(AS_CLAIMED).values():
        assert "than the paper says" not in one.now and "beyond" not in one.now


def test_what_goes_beyond_the_paper_is_named_and_not_called_the_same() -> None:
    def heap(name: str, form: str, spec: str) -> float:
        return 9000 if (name, spec) == ("gawk", COLLECTOR) else claimed_heap(name, form, spec)

    found = told(AS_CLAIMED.but(heap=heap))["4a"]
    assert "; beyond what the paper says in gawk;" in found.now
    assert found.word == "still 30% and more; beyond 150% in 1 of 5"


@pytest.mark.parametrize("world, count", [(AS_CLAIMED, "6 of 6"), (OPPOSITE, "0 of 6")])
def test_counts_are_those_of_the_figures(world: World, count: str) -> None:
    found = told(world)
    slowest = "1 of 6" if world is AS_CLAIMED else "6 of 6"
    assert f"CPU time comparable in {count} programs" in found["12"].now
    assert f"BSD fastest in {count} programs" in found["5c"].now
    assert f"SunOS's smallest in {count}" in found["5c"].now
    assert world is AS_CLAIMED or f"slowest of all in {slowest} programs" in found["2a"].now
    assert f"another malloc gains more in {count.replace('6', '4')}" in found["13"].now


def test_the_memory_system_is_told_as_it_is() -> None:
    much = told(collected(1.0, 3.0, 20, 5))["12"].now
    assert "heaps rise more than CPU time in 6 of 6; page faults in 6 of 6" in much
    little = told(collected(2.0, 1.0, 1, 1))["12"].now
    assert "CPU time comparable in 0 of 6" in little
    assert (
        "heaps rise more than CPU time in 0 of 6; page faults in 0 of 6; misses in 0 of 6" in little
    )


def test_generations_are_told_as_they_are() -> None:
    fewer = told(AS_CLAIMED)["11"].now
    assert "with generations 0.10 times the page faults of the same without; 0.25 times" in fewer
    more = AS_CLAIMED.but(faults={**AS_CLAIMED.faults, GENERATIONS: 80_000})
    assert "with generations 2.00 times the page faults" in told(more)["11"].now


def test_what_is_missing_counts_for_nothing() -> None:
    found = told(lacking(lambda name, form, spec: name == "perl"))
    assert "BSD fastest in 5 of 5 programs" in found["5c"].now
    slow = OPPOSITE.but()
    slow.pairs = lambda name, one, base: (  # type: ignore[method-assign]
        [] if name == "perl" else World.pairs(slow, name, one, base)
    )
    assert told(slow)["2a"].word == "no longer so: 0 agree, 5 refute it"


# Results as a study has them


def program(name: str) -> Program:
    forms = ("optimised", "unoptimised", "collected")
    return Program(name, "1992", "", "", "base", {one: Form([name], [name]) for one in forms}, None)


def with_sizes(heaps: tuple[float, float], processes: tuple[float, float]) -> Results:
    """Bytes under SunOS's and the collector, of each program."""
    results = Results([program(name) for name in paper.PROGRAMS], {"quick": False, "rounds": 30})
    keys = (f"optimised {SUNOS}", f"collected {COLLECTOR}")
    for name in paper.PROGRAMS:
        runs: dict[str, Any] = {
            key: {"cpu": 1.0, "rss": rss, "load": 0.5} for key, rss in zip(keys, processes)
        }
        results.rounds[name] = [dict(runs) for _ in range(30)]
        for key, heap in zip(keys, heaps):
            results.accounts[name, key] = {"heap": {"mapped_peak_bytes": heap}, "peak": {}}
    return results


MIB = 1 << 20


def test_heap_and_resident_memory_are_reconciled_whichever_rises_more() -> None:
    said = reconciliation(with_sizes((MIB, 2.5 * MIB), (9 * MIB, 10 * MIB)))
    assert "heap is 2.5 times that of the best malloc and 2.5 times SunOS's" in said
    assert "resident memory is 1.11 times SunOS's" in said
    assert "heap 1.0 MiB to 2.5 MiB, process 9.0 MiB to 10.0 MiB" in said
    assert "Some 8.0 MiB of that process are no heap" in said and "comes near 1" in said
    other = reconciliation(with_sizes((MIB, 1.1 * MIB), (9 * MIB, 30 * MIB)))
    assert "comes near 1" not in other and "no measure of what is touched" in other
    assert reconciliation(NOTHING) == ""


def test_limits_count_rounds_failures_and_what_is_missing() -> None:
    whole = with_sizes((MIB, 2 * MIB), (9 * MIB, 10 * MIB))
    said = " ".join(limits(whole))
    assert said.startswith("30 rounds; the machine's load was 0.5 (median; at most 0.5).")
    assert "No run failed." in said and "missing" not in said and "wanted" not in said
    assert f"no values to hold {len(PICTURES)} claims, and parts of claim 12" in said
    for each in whole.rounds["gawk"][5:8]:
        each[f"collected {COLLECTOR}"] = {"failure": "not done after 60 s", "load": 9.0}
    whole.rounds["cfrac"] = whole.rounds["cfrac"][:28]
    whole.locality["perl", f"optimised {BSD}"] = {"failure": "no result"}
    whole.missing["yacr"] = "needs packages: yacr"
    del whole.rounds["yacr"]
    said = " ".join(limits(whole))
    assert said.startswith("28 to 30 of 30 rounds (30 and a quiet machine were wanted);")
    assert "Missing: 1 program: yacr (needs packages: yacr)." in said
    assert f"2 failures: gawk under collected {COLLECTOR} in 3 of 30 rounds" in said
    assert f"perl under optimised {BSD}, page faults and misses (no result)" in said
    assert "None is under an algorithm of the paper" not in said


def test_failures_that_concern_no_algorithm_of_the_paper_say_so() -> None:
    whole = with_sizes((MIB, 2 * MIB), (9 * MIB, 10 * MIB))
    for each in whole.rounds["gawk"]:
        each["collected libgc"] = {"failure": "killed", "load": 1.0}
    said = " ".join(limits(whole))
    assert "1 failure: gawk under collected libgc in 30 of 30 rounds. None is under" in said


def test_a_run_that_went_wrong_in_every_round_has_no_figures() -> None:
    """Its heap is that of a program that writes something else."""
    whole = with_sizes((MIB, 2 * MIB), (9 * MIB, 10 * MIB))
    key = f"optimised {BSD}"
    whole.accounts["gawk", key] = {"heap": {"mapped_peak_bytes": MIB}, "peak": {}}
    for each in whole.rounds["gawk"]:
        each[key] = {"failure": "writes something else than under glibc"}
    assert whole.heap_peak("gawk", "optimised", BSD) is None
    whole.rounds["gawk"][0][key] = {"cpu": 1.0, "rss": 1}
    assert whole.heap_peak("gawk", "optimised", BSD) == MIB


def test_a_loaded_machine_is_not_called_quiet() -> None:
    loaded = with_sizes((MIB, 2 * MIB), (9 * MIB, 10 * MIB))
    for rounds in loaded.rounds.values():
        for each in rounds:
            for run in each.values():
                run["load"] = 8.0
    assert "a quiet machine were wanted" in limits(loaded)[0]


@pytest.mark.usefixtures("undrawn")
def test_one_layout_is_said_where_faults_and_misses_are() -> None:
    report = make_report(whole_study())
    assert any("of one layout of memory, without interval" in one for one in report.limits)
    captions = {one.name: one.caption for one in [*report.figures, *report.beyond]}
    for name in ("figure-4", "figure-5", "figure-6", "figure-7", "page-faults", "misses"):
        assert "ne layout of memory" in captions[name], name


def test_programs_that_say_little_are_named_where_their_figures_stand() -> None:
    results = with_sizes((MIB, 2 * MIB), (9 * MIB, 10 * MIB))
    results.accounts["espresso", f"optimised {SUNOS}"]["heap"]["mapped_peak_bytes"] = 9 * MIB
    said = of_timed(results)
    assert "ghostscript hardly calls malloc" in said
    assert "Below the paper's heap: gawk" not in said and "perl 1.0 MiB (1,422 KB)" in said
    assert "espresso" not in said and "cfrac" not in said
    results.factors["espresso", f"collected {COLLECTOR}"] = {"live_bytes": 668 << 10, "heaps": []}
    assert "espresso 668 KiB (1,387 KB)" in of_traced(results)
    tables: Mapping[str, Any] = {one.name: one for one in all_tables(results)}
    for name in ("table-2", "table-3", "table-4"):
        assert "ghostscript hardly calls malloc" in tables[name].caption
        assert name != "table-3" or "perl 1.0 MiB (1,422 KB)" in tables[name].caption
    results.missing["ghostscript"] = "not there"
    assert "ghostscript" not in of_timed(results).replace("ghostscript 1.0 MiB", "")
