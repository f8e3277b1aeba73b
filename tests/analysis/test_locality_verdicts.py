# SPDX-License-Identifier: MIT
"""Whose references `allotrope locality` simulated, and what it concludes from them."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from allotrope.features.locality.page import locality_page
from allotrope.features.locality.verdicts import no_verdict, paddings, sentences, verdicts
from conftest import Command
from under import BUILD

OWN_MALLOC = """
#include <stddef.h>
static _Alignas(16) char heap[1 << 20];
static size_t used;
void *malloc(size_t size)
{
    void *block = heap + used;
    used += (size + 15) / 16 * 16;
    return block;
}
void free(void *block) { (void)block; }
void *calloc(size_t count, size_t size) { return malloc(count * size); }
void *realloc(void *block, size_t size) { (void)block; return malloc(size); }
int main(void)
{
    for (int i = 0; i < 1000; i++)
        *(volatile char *)malloc(40) = 1;
    return 0;
}
"""
STATIC = "#include <stdlib.h>\nint main(void) { return malloc(10) == NULL; }\n"


@pytest.fixture(scope="module")
def command() -> Command:
    return Command(BUILD)


def compiled(folder: Path, name: str, text: str, *options: str) -> str:
    source = folder / f"{name}.c"
    source.write_text(text)
    line = ["cc", "-O1", "-fno-builtin", *options, "-o", str(folder / name), str(source)]
    subprocess.run(line, check=True)
    return str(folder / name)


def measured(
    command: Command, folder: Path, *words: str, options: tuple[str, ...] = (), **settings: Any
) -> tuple[dict[str, Any], str]:
    """The result, and what the terminal shows in one line."""
    result = folder / "result.json"
    line = [
        "locality",
        "-a",
        "glibc",
        "-a",
        "blocks",
        *options,
        "--json",
        str(result),
        "--",
        *words,
    ]
    done = command.run(*line, **settings)
    assert done.returncode == 0, done.stderr
    return json.loads(result.read_text()), " ".join(done.stdout.split())


def sorting(folder: Path, count: int) -> str:
    """A shell's word that allocates a lot."""
    numbers = folder / "numbers"
    numbers.write_text("".join(f"{n * 7919 % 100003}\n" for n in range(count)))
    return f'gawk "{{ a[\\$1] = \\$1 }}" {numbers}; '


def check_no_verdict(document: dict[str, Any], shown: str, why: str) -> None:
    """In JSON, on the terminal and on the page."""
    assert document["verdicts"] == [] and why in document["no_verdict"]
    assert f"No verdict: {document['no_verdict']}" in shown
    said = [str(one) for one in locality_page(document).advice]
    assert f"No verdict: {document['no_verdict']}" in said
    for words in (shown, " ".join(said)):
        assert not any(word in words for word in ("fewer under", "more under", "same within"))


def test_a_shell_that_lets_others_work_gets_no_verdict(command: Command, tmp_path: Path) -> None:
    script = f"{sorting(tmp_path, 3000)} ls / >/dev/null; true"
    document, shown = measured(command, tmp_path, "sh", "-c", script)
    check_no_verdict(document, shown, "sh made only ")
    for run in document["runs"]:
        one = run["simulated"]
        assert (one["command"], one["in_reach"], one["children"]) == ("sh", True, 2)
        assert one["further_processes"] == 2 and one["further_missing"] is None
        counts = {row["command"]: row["allocations"] for row in one["further"]}
        assert set(counts) == {"gawk", "ls"} and counts["gawk"] > 3000 > one["allocations"] > 0
        line = f"{run['allocator']}: simulated is the first process, sh ({one['allocations']:,} "
        assert line in shown and f"gawk {counts['gawk']:,}" in shown


def test_a_small_helper_keeps_nobody_from_a_verdict(command: Command, tmp_path: Path) -> None:
    program = 'BEGIN { for (i = 0; i < 5000; i++) a[i] = i; system("ls / >/dev/null; true") }'
    document, shown = measured(command, tmp_path, "gawk", program)
    assert document["no_verdict"] is None
    for run in document["runs"]:
        assert run["simulated"]["further_processes"] == 2  # the shell and its child
        assert run["simulated"]["no_verdict"] is None
    assert [one["what"] for one in document["verdicts"]] == ["pages touched", *["cache misses"] * 2]
    assert "2 further processes, allocations: " in shown and "One recording: " in shown


def test_a_program_of_one_process_runs_once(command: Command, tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    document, shown = measured(command, tmp_path, "sh", "-c", f"echo run >>{mark}")
    assert mark.read_text() == "run\n" * 2  # one for each allocator
    assert {run["simulated"]["further_processes"] for run in document["runs"]} == {0}
    assert "there was no other" in shown


def test_a_malloc_of_its_own_gets_no_verdict(command: Command, tmp_path: Path) -> None:
    document, shown = measured(command, tmp_path, compiled(tmp_path, "own", OWN_MALLOC))
    check_no_verdict(document, shown, "own (it has a malloc of its own)")
    for run in document["runs"]:
        one = run["simulated"]
        assert (one["allocator"], one["in_reach"]) == ("own", False)
        assert one["allocations"] is None and one["object"] == str(tmp_path / "own")


def test_a_child_that_nobody_counts_leaves_it_open(command: Command, tmp_path: Path) -> None:
    child = compiled(tmp_path, "silent", STATIC, "-static")
    program = f'BEGIN {{ for (i = 0; i < 5000; i++) a[i] = i; system("{child}; true") }}'
    document, shown = measured(command, tmp_path, "gawk", program)
    check_no_verdict(document, shown, "those of silent were not counted")


def test_an_input_that_cannot_be_read_twice_leaves_it_open(
    command: Command, tmp_path: Path
) -> None:
    document, shown = measured(command, tmp_path, "sh", "-c", "ls /; true", input="words\n")
    check_no_verdict(document, shown, "its standard input cannot be read twice")
    assert {run["simulated"]["further_processes"] for run in document["runs"]} == {None}
    assert "1 further process that it made" in shown


def test_a_file_is_read_again_from_its_beginning(command: Command, tmp_path: Path) -> None:
    words = tmp_path / "words"
    words.write_text("".join(f"word{n}\n" for n in range(2000)))
    with words.open() as standard_input:
        line = ["sh", "-c", 'gawk "{ a[NR] = \\$1 }"; true']
        document, _ = measured(command, tmp_path, *line, stdin=standard_input)
    [row] = document["runs"][0]["simulated"]["further"]
    assert row["command"] == "gawk" and row["allocations"] > 2000


def test_one_allocator_alone_is_told_whose_figures_they_are(
    command: Command, tmp_path: Path
) -> None:
    program = compiled(tmp_path, "static", STATIC, "-static")
    done = command.run("locality", "--json", str(tmp_path / "one.json"), "--", program)
    shown = " ".join(done.stdout.split())
    assert "These figures do not stand for the command: " in shown
    assert "static (it is linked statically)." in shown
    document = json.loads((tmp_path / "one.json").read_text())
    assert document["no_verdict"] == "there is one allocator alone"


def run_of(allocator: str, *recordings: list[int]) -> dict[str, Any]:
    """As much of a run as verdicts are made of: pages touched, misses of 32 KiB, of 1 MiB."""
    touched, *misses = recordings[0]
    results = [
        {"block": 64, "ways": 8, "bytes": size, "misses": count}
        for size, count in zip((32 << 10, 1 << 20), misses, strict=True)
    ]
    return {
        "allocator": allocator,
        "status": 0,
        "simulated": {"no_verdict": None},
        "recordings": [{"padding": 16 * n, "counts": c} for n, c in enumerate(recordings)],
        "pages": {"filter": None, "pages": [{"page_size": 4096, "cold": touched}]},
        "caches": {"blocks": [{"block": 64}], "results": results},
    }


def words_of(*runs: dict[str, Any]) -> list[list[str]]:
    return [[other["verdict"] for other in one["of"]] for one in verdicts(list(runs))]


def test_as_many_pages_as_layouts_differ_by_decide_nothing() -> None:
    base = run_of("glibc", [300, 10, 10])
    for pages, verdict in (
        (300, "same"),
        (305, "not decided"),
        (311, "not decided"),
        (312, "more"),
    ):
        assert words_of(base, run_of("bsd", [pages, 10, 10]))[0] == [verdict]


def test_one_recording_decides_large_differences_of_misses_alone() -> None:
    base = run_of("glibc", [1000, 10_000, 10_000])
    assert words_of(base, run_of("bsd", [1010, 19_900, 5_100])) == [
        ["same"],
        ["not decided"],
        ["not decided"],
    ]
    assert words_of(base, run_of("bsd", [1030, 20_000, 5_000])) == [["more"], ["more"], ["fewer"]]
    assert words_of(base, run_of("bsd", [970, 10_000, 10_001])) == [
        ["fewer"],
        ["not decided"],
        ["not decided"],
    ]


def test_layouts_decide_by_the_interval_of_their_ratios() -> None:
    """What moves both allocators alike does not hide a small difference; what moves one does."""
    moves = [1.0, 1.4, 0.9, 1.2, 1.1, 1.3, 0.8, 1.05, 1.25]
    base = run_of("glibc", *([1000, int(10_000 * by), int(10_000 * by)] for by in moves))
    alike = run_of("bsd", *([1000, int(10_500 * by), int(10_050 * by)] for by in moves))
    assert words_of(base, alike) == [["same"], ["more"], ["same"]]
    alone = run_of("gnu", *([1000, int(10_500 * by), 9_000] for by in reversed(moves)))
    assert words_of(base, alone) == [["same"], ["not decided"], ["not decided"]]
    few = [run | {"recordings": run["recordings"][:8]} for run in (base, alike)]
    assert words_of(*few) == [["same"], ["not decided"], ["not decided"]]
    said = {one.title: one.text for one in sentences([base, alike])}
    of_small = said["Misses of 32.0 KiB, 8 ways, blocks of 64 bytes"]
    assert of_small.startswith("10,000 under glibc; more under bsd (10,500, 1.050 times [1.0")
    assert "same within 2% under bsd" in said["Misses of 1.0 MiB, 8 ways, blocks of 64 bytes"]


def test_nothing_is_decided_against_nothing() -> None:
    base = run_of("glibc", [1000, 0, 10])
    assert words_of(base, run_of("bsd", [1000, 5, 10])) == [["same"], *[["not decided"]] * 2]


def test_who_stands_for_the_command_under_one_allocator_alone_has_no_verdict() -> None:
    base, other = run_of("glibc", [1, 2, 3]), run_of("bsd", [1, 2, 3])
    other["simulated"] = {"no_verdict": "sh allocated nothing"}
    assert no_verdict([base, other]) == "sh allocated nothing (under bsd)."


def test_layouts_are_the_same_for_every_allocator_and_differ_among_themselves() -> None:
    chosen = paddings(9)
    assert chosen == paddings(9) and chosen[0] == 0 and len(set(chosen)) == 9
    assert all(padding % 16 == 0 for padding in chosen)


def test_layouts_are_recorded(command: Command, tmp_path: Path) -> None:
    document, shown = measured(
        command, tmp_path, "seq", "1", "2000", options=("--layouts", "9", "--page-size", "4096")
    )
    for run in document["runs"]:
        paddings_used = [one["padding"] for one in run["recordings"]]
        assert paddings_used == paddings(9)
        assert run["recordings"][0]["counts"][0] == run["pages"]["pages"][0]["cold"]
        # The stack does lie elsewhere.
        assert len({tuple(one["counts"]) for one in run["recordings"]}) > 1
    assert "Layouts: 9 recordings of each" in shown
    for one in document["verdicts"]:
        [other] = one["of"]
        low, high = other["interval"]
        assert low <= other["ratio"] <= high
        assert other["verdict"] in ("fewer", "more", "same", "not decided")
