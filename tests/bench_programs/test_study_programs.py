# SPDX-License-Identifier: MIT
"""study.toml: complete, and forms of a program that agree with each other.

What needs the network is tried only where it has been prepared: ALLOTROPE_STUDY_DIR names the
directory that bench_programs/setup.py was given.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from under import BUILD, HANG, SOURCE

sys.path.insert(0, str(SOURCE / "bench_programs"))

import setup as study  # noqa: E402

SETUP = SOURCE / "bench_programs" / "setup.py"
PREPARED = os.environ.get("ALLOTROPE_STUDY_DIR")
FETCHED = ("espresso", "espresso_lists", "gawk", "perl", "sqlite3_lookaside")
PLACES = study.Places(BUILD, Path("/study"))
PROGRAMS = study.programs(PLACES)


def setup(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(SETUP), "--build", str(BUILD), *arguments],
        capture_output=True,
        text=True,
        timeout=HANG,
    )


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Where the set-up has been run, for all that needs no network."""
    directory = PREPARED or str(tmp_path_factory.mktemp("study"))
    names = [p.name for p in PROGRAMS if PREPARED or p.name not in FETCHED]
    ready = [p for p in study.choose(PROGRAMS, names) if not study.missing_packages([p])]
    result = setup("--study", directory, "prepare", *(program.name for program in ready))
    assert result.returncode == 0, result.stderr
    return directory


HIDDEN = r"""
#include <stdlib.h>
#include <string.h>
int main(void)
{
    char **table = realloc(malloc(8), 16); /* as large as libgc's smallest block */
    table[1] = malloc(100);
    strcpy(table[1], "kept");
    for (int i = 0; i < 200000; i++) memset(malloc(100), 0, 100);
    return strcmp(table[1], "kept") != 0;
}
"""


def test_libgc_keeps_what_the_last_word_of_a_block_points_to(tmp_path: Path) -> None:
    library = BUILD / "bench_programs" / "libgc_redirect.so"
    if not library.exists():
        pytest.skip("libgc-dev is not installed")
    (tmp_path / "hidden.c").write_text(HIDDEN)
    subprocess.run(["cc", "-O0", "-o", "hidden", "hidden.c"], check=True, cwd=tmp_path)
    environment = os.environ | {"LD_PRELOAD": str(library)}
    assert subprocess.run([tmp_path / "hidden"], env=environment, check=False).returncode == 0


CHURN = r"""
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
int main(void)
{
    char *last = malloc(100000);
    for (int i = 0; i < 20000; i++) memset(last = malloc(10000), 0, 10000);
    return read(open("/dev/zero", O_RDONLY), last, 10000) != 10000;
}
"""


@pytest.mark.parametrize("incremental", [False, True])
def test_libgc_tells_what_it_did(incremental: bool, tmp_path: Path) -> None:
    """And a program that reads into its heap can be collected in small steps, too."""
    library = BUILD / "bench_programs" / "libgc_redirect.so"
    if not library.exists():
        pytest.skip("libgc-dev is not installed")
    (tmp_path / "churn.c").write_text(CHURN)
    subprocess.run(["cc", "-O0", "-o", "churn", "churn.c"], check=True, cwd=tmp_path)
    (tmp_path / "told").mkdir()
    environment = os.environ | {"LD_PRELOAD": str(library), "LIBGC_STATS": str(tmp_path / "told")}
    environment |= {"GC_ENABLE_INCREMENTAL": "1"} if incremental else {}
    assert subprocess.run([tmp_path / "churn"], env=environment, check=False).returncode == 0
    (file,) = (tmp_path / "told").iterdir()
    told = json.loads(file.read_text())
    assert told["collections"] > 1 and told["pauses"] > 0
    assert 10_000 < told["heap_bytes"] < 20_000 * 10_000
    assert 0 < told["longest_pause_ns"] <= told["pause_ns"] and told["cpu_ns"] > 0


def test_a_scale_of_several_words_is_several_words() -> None:
    assert study.scaled("{scale}", "--base=800 33") == ["--base=800", "33"]
    assert study.scaled("x_{scale}.pla", "7") == ["x_7.pla"]
    assert study.scaled("{scale}", "") == [""]


@pytest.mark.parametrize("held", [1, 7, 10_000])
@pytest.mark.parametrize("language", ["gawk", "perl"])
def test_lines_that_are_held_back_come_out_the_same(
    language: str, held: int, tmp_path: Path
) -> None:
    if shutil.which(language) is None:
        pytest.skip(f"{language} is not installed")
    words = tmp_path / "words"
    words.write_text("".join(f"{number:o}{'x' * (number % 11)}\n" for number in range(3000)))
    programs = SOURCE / "bench_programs"

    def filled(*load: str) -> bytes:
        if language == "gawk":
            script = str(programs / "gawk_fill" / "fill.awk")
            command = ["gawk", *load[:2], "-f", script, str(words)]
        else:
            command = ["perl", str(programs / "perl_fill" / "fill.pl"), load[2], str(words)]
        environment = os.environ | {"LC_ALL": "C"}
        return subprocess.run(command, capture_output=True, check=True, env=environment).stdout

    plain = filled("-v", "passes=2", "2")
    assert len(plain) > 10_000
    assert filled("-v", f"work=2x{held}", f"2x{held}") == plain


def test_lines_of_a_heap_of_today_are_narrower(tmp_path: Path) -> None:
    """So that the same memory takes a third of the time."""
    words = tmp_path / "words"
    words.write_text("".join(f"{number:o}\n" for number in range(3000)))
    script = str(SOURCE / "bench_programs" / "gawk_fill" / "fill.awk")

    def lines(work: str) -> list[str]:
        command = ["gawk", "-v", f"work={work}", "-f", script, str(words)]
        environment = os.environ | {"LC_ALL": "C"}
        done = subprocess.run(command, capture_output=True, check=True, text=True, env=environment)
        return done.stdout.splitlines()

    wide, narrow = lines("1x5"), lines("1x5x24")
    assert max(map(len, wide)) == 72 and max(map(len, narrow)) == 24
    assert " ".join(wide).split() == " ".join(narrow).split()


def test_an_adder_may_have_numbers_of_two_sizes() -> None:
    path = str(SOURCE / "bench_programs" / "setup" / "adder_pla.py")

    def table(*bits: str) -> list[str]:
        done = subprocess.run(
            [sys.executable, path, *bits], capture_output=True, check=True, text=True
        )
        return done.stdout.splitlines()

    assert table("2") == table("2", "2")
    head, rows = table("2", "1")[:2], table("2", "1")[2:-1]
    assert head == [".i 3", ".o 3"]
    assert {row: int(row[:2], 2) + int(row[2], 2) for row in rows} == {
        row: int(row.split()[1], 2) for row in rows
    }
    assert len(rows) == 8


def test_table_has_the_studys_six_and_todays_six() -> None:
    rows = {row: [p.name for p in PROGRAMS if p.row == row] for row in study.ROWS}
    assert rows["1992"] == ["cfrac", "espresso", "gawk", "ghostscript", "perl", "yacr"]
    assert rows["today"] == ["python3", "sqlite3", "git", "gcc", "lua", "redis"]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.name)
def test_files_of_the_tree_exist(program: study.Program) -> None:
    words = [word for command in program.setup for word in command]
    for form in program.forms.values():
        words += [*form.command, form.stdin or ""]
    for word in words:
        assert "{" not in word
        if word.startswith((str(SOURCE), str(BUILD))):
            assert Path(word).exists()
    for command in program.setup:
        assert os.access(command[0], os.X_OK)


@pytest.mark.parametrize(
    "program",
    [pytest.param(p, marks=[] if p.row == "1992" else pytest.mark.slow) for p in PROGRAMS],
    ids=lambda program: program.name,
)
def test_every_form_gives_the_same_output(program: study.Program, prepared: str) -> None:
    missing = study.missing_packages([program])
    if missing:
        pytest.skip(f"packages missing: {' '.join(missing)}")
    if program.name in FETCHED and not PREPARED:
        pytest.skip("fetched over the network: set ALLOTROPE_STUDY_DIR to where it was prepared")
    digests = set()
    for form in program.forms:
        result = subprocess.run(
            [sys.executable, str(SETUP), "--build", str(BUILD), "--study", prepared]
            + ["run", program.name, form],
            capture_output=True,
            timeout=HANG,
        )
        assert result.returncode == 0, result.stderr
        digests.add(hashlib.sha256(result.stdout).hexdigest())
    assert len(digests) == 1


def test_a_form_that_is_missing_is_stood_for() -> None:
    cfrac, yacr = study.choose(PROGRAMS, ["cfrac", "yacr"])
    assert cfrac.form("collected").command[0].endswith("cfrac_uncounted")
    assert yacr.form("collected") is yacr.forms["optimised"]


@pytest.mark.parametrize(
    "text, complaint",
    [
        ('name = "x"\nrow = "1992"\npackages = []\nsetup = []', "missing keys ['optimised']"),
        ('name = "x"\nspeed = 1', "unknown keys ['speed']"),
        (
            'name = "x"\nrow = "1993"\npackages = []\nsetup = []\noptimised = {command = ["x"]}',
            "bad row '1993'",
        ),
        (
            'name = "x"\nrow = "1992"\npackages = []\nsetup = []\noptimised = {comand = ["x"]}',
            "unknown keys: ['comand']",
        ),
    ],
)
def test_a_bad_table_is_refused(text: str, complaint: str, tmp_path: Path) -> None:
    (tmp_path / "study.toml").write_text(f"[[program]]\n{text}\n")
    with pytest.raises(study.StudyError) as error:
        study.programs(PLACES, tmp_path / "study.toml")
    assert complaint in str(error.value)


@pytest.mark.parametrize("form", study.FORMS)
@pytest.mark.parametrize("row", study.ROWS)
def test_a_suite_is_one_that_compare_reads(row: str, form: str, tmp_path: Path) -> None:
    from allotrope.features.suite.measure import read_suite

    result = setup("--study", "/study", "suite", row, form)
    assert result.returncode == 0, result.stderr
    (tmp_path / "suite.toml").write_text(result.stdout)
    suite = read_suite(tmp_path / "suite.toml")
    expected = [program for program in PROGRAMS if program.row == row]
    assert [program.name for program in suite.programs] == [p.name for p in expected]
    for written, meant in zip(suite.programs, expected):
        assert list(written.command) == meant.form(form).command
        assert dict(written.environment) == meant.form(form).environment
        assert written.input == meant.form(form).stdin


def test_an_unknown_program_is_named_with_those_that_exist() -> None:
    result = setup("run", "doom", "optimised")
    assert result.returncode == 1
    assert result.stderr.startswith("setup.py: no program 'doom'; valid are cfrac, espresso")
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize("script", ["manual_ps.py", "c_source.py", "adder_pla.py"])
def test_generators_refuse_a_bad_size(script: str) -> None:
    path = str(SOURCE / "bench_programs" / "setup" / script)
    for size in ("0", "-1", "many"):
        result = subprocess.run([sys.executable, path, size], capture_output=True, text=True)
        assert result.returncode == 1
        assert f"'{size}'" in result.stderr and result.stderr.count("\n") == 1
