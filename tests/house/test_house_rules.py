# SPDX-License-Identifier: MIT
"""The house's rules hold in this tree, and are seen to be broken in others."""

import shutil
import subprocess
from pathlib import Path

import pytest

import house_rules
from under import SOURCE

HEAD = "/* SPDX-License-Identifier: MIT */\n"

pytestmark = pytest.mark.skipif(not shutil.which("git"), reason="git is not installed")


def faults_with(tree: Path, name: str, text: str) -> list[str]:
    """The faults of a repository that has this one file, not committed yet."""
    subprocess.run(["git", "init", "--quiet", str(tree)], check=True)
    path = tree / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return list(house_rules.faults_of(tree))


def test_this_tree_keeps_the_rules() -> None:
    if not (SOURCE / ".git").exists():
        pytest.skip("not a git repository")
    assert list(house_rules.faults_of(SOURCE)) == []
    assert list(house_rules.unlisted_tests(SOURCE)) == []
    assert list(house_rules.long_subjects(SOURCE)) == []


@pytest.mark.parametrize(
    ("name", "header"),
    [
        ("vm/pages.c", "vm/syscall.h"),
        ("alloc/policies/bsd.c", "vm/pages.h"),
        ("gc/mark/mark.c", "alloc/blocks/blocks.h"),
        ("shim/configuration/allocators.c", "gc/cycle/gc.h"),
        ("shim/observers/events.c", "trace/protocol/event_pool.h"),
        ("shim/reports/describe.c", "config.h"),
        ("analysis/simulate/main.c", "trace/format/format.h"),
        ("tests/alloc/policies/test_bsd.c", "alloc/policies/bsd.h"),
        ("bench_programs/cfrac/number.c", "number.h"),
    ],
)
def test_downwards_is_allowed(tmp_path: Path, name: str, header: str) -> None:
    assert faults_with(tmp_path, name, f'{HEAD}#include "{header}"\n') == []


@pytest.mark.parametrize(
    ("name", "header"),
    [
        ("vm/pages.c", "alloc/heap.h"),
        ("vm/pages.h", "shim/route/route.h"),
        ("alloc/policies/bsd.c", "gc/cycle/gc.h"),
        ("alloc/heap.h", "shim/route/route.h"),
        ("alloc/policies/bsd.c", "alloc/layers/layered.h"),
        ("alloc/layers/layered.c", "alloc/blocks/slab.h"),
        ("gc/world/roots.c", "gc/mark/mark.h"),
        ("shim/configuration/environment.c", "shim/route/route.h"),
        ("trace/protocol/doorbell.h", "trace/format/format.h"),
        ("gc/mark/mark.c", "shim/route/route.h"),
        ("shim/route/route.c", "trace/format/format.h"),
        ("trace/format/reader.c", "vm/pages.h"),
        ("trace/format/reader.c", "analysis/launcher/process_tree.h"),
        ("analysis/launcher/launcher.c", "vm/message.h"),
        ("analysis/simulate/simulators/lru.c", "alloc/heap.h"),
    ],
)
def test_upwards_and_across_are_not(tmp_path: Path, name: str, header: str) -> None:
    faults = faults_with(tmp_path, name, f'{HEAD}\n  #  include "{header}"\n')
    assert faults == [f'{name}:3: {Path(name).parent}/ may not include "{header}"']


@pytest.mark.parametrize("header", ["heap.h", "../vm/pages.h", "tests/unit/unit.h"])
def test_a_path_is_from_the_top(tmp_path: Path, header: str) -> None:
    faults = faults_with(tmp_path, "alloc/policies/bsd.c", f'{HEAD}#include "{header}"\n')
    assert faults == [f'alloc/policies/bsd.c:2: "{header}" is not a path from the top of the tree']


def test_a_folder_of_the_house_is_a_room(tmp_path: Path) -> None:
    faults = faults_with(tmp_path, "vm/attic/a.c", HEAD)
    assert faults == [
        "vm/attic/a.c:1: vm/attic/ is no room of the house (MAY_INCLUDE in house_rules.py)"
    ]


def test_a_file_says_its_own_name(tmp_path: Path) -> None:
    text = "/* SPDX-License-Identifier: MIT\n *\n * b.c: what it does.\n */\n"
    assert faults_with(tmp_path, "vm/b.c", text) == []
    assert faults_with(tmp_path, "vm/a.c", text) == ["vm/a.c:3: its head says b.c"]


def faults_of_import(tree: Path, name: str, statement: str) -> list[str]:
    """The faults of a module of the command that has this statement, in a function of its own."""
    text = f"# SPDX-License-Identifier: MIT\ndef late():\n    {statement}\n"
    return faults_with(tree, f"analysis/allotrope/{name}", text)


@pytest.mark.parametrize(
    ("name", "statement"),
    [
        ("system/launch.py", "from .errors import UserError"),
        ("system/launch.py", "import os, json"),
        ("output/page.py", "from ..system.errors import UserError"),
        ("output/page.py", "from ..statistics import intervals"),
        ("features/compare/page.py", "from ...output.page import (\n    Page,\n    Table)"),
        ("features/compare/page.py", "from . import measure"),
        ("features/compare/page.py", "from .. import sites"),
        ("features/suite/page.py", "from ..compare.page import machine_section"),
        ("features/suite/page.py", "import allotrope.features.compare.page"),
        ("study/zorn/plan.py", "from ...features.suite.measure import duration"),
        ("study/zorn/plan.py", "from . import paper"),
        ("study/zorn/plan.py", "from ..store import Step"),
        ("study/frame.py", "from .store import Store"),
        ("commands/zorn.py", "from ..study.zorn.plan import Extent"),
        ("commands/list.py", "from allotrope.system import allocators"),
    ],
)
def test_imports_from_lower_layers_are_allowed(tmp_path: Path, name: str, statement: str) -> None:
    assert faults_of_import(tmp_path, name, statement) == []


# A module, what it must not say, where it is, and what it would import.
WRONG_IMPORTS = """
system/launch.py | from ..output import text | system | output.text
system/launch.py | from .. import output | system | output
system/launch.py | import os, allotrope.output.text | system | output.text
statistics/intervals.py | from allotrope.output.units import f | statistics | output.units.f
output/page.py | from ..features.compare.page import S | output | features.compare.page.S
features/sites/page.py | from ..compare import page | features/sites | features.compare.page
features/sites/page.py | from .. import compare | features/sites | features.compare
features/sites/page.py | from ... import features | features/sites | features
features/new/page.py | from allotrope.features import sites | features/new | features.sites
features/compare/page.py | from ...study.zorn import plan | features/compare | study.zorn.plan
features/compare/page.py | from ...commands.words import W | features/compare | commands.words.W
study/zorn/plan.py | from ...commands import words | study/zorn | commands.words
study/zorn/plan.py | from ..barriers import paper | study/zorn | study.barriers.paper
study/frame.py | from .zorn.plan import Extent | study | study.zorn.plan.Extent
commands/list.py | from ..other import word | commands | other.word
other/list.py | from ..system import errors | other | system.errors
"""


@pytest.mark.parametrize("case", WRONG_IMPORTS.strip().splitlines())
def test_imports_from_higher_layers_and_other_features_are_not(tmp_path: Path, case: str) -> None:
    name, statement, room, module = (part.strip() for part in case.split("|"))
    expected = f"analysis/allotrope/{name}:3: allotrope/{room}/ may not import allotrope.{module}"
    assert faults_of_import(tmp_path, name, statement) == [expected]


@pytest.mark.parametrize(("lines", "fault"), [(60, False), (61, True)])
def test_a_function_has_sixty_lines_at_most(tmp_path: Path, lines: int, fault: bool) -> None:
    """Its decorators do not count: an option is a line, or several."""
    body = "\n".join(f"    {number}" for number in range(lines - 1))
    text = f"# SPDX-License-Identifier: MIT\n@print\n@print\ndef long():\n{body}\n"
    told = "analysis/allotrope/commands/a.py:4: long() has 61 lines, more than 60"
    assert faults_with(tmp_path, "analysis/allotrope/commands/a.py", text) == [told] * fault


def test_a_function_of_a_test_too(tmp_path: Path) -> None:
    text = "# SPDX-License-Identifier: MIT\ndef long():\n" + "    1\n" * 60
    told = "tests/a.py:2: long() has 61 lines, more than 60"
    assert faults_with(tmp_path, "tests/a.py", text) == [told]


@pytest.mark.parametrize(("length", "fault"), [(72, False), (73, True)])
def test_a_subject_has_72_characters_at_most(tmp_path: Path, length: int, fault: bool) -> None:
    git = ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@localhost"]
    subprocess.run(["git", "init", "--quiet", str(tmp_path)], check=True)
    for subject in ("x" * 80, "a", "b" * length):  # the first is as old as the rule
        commit = ["commit", "--quiet", "--allow-empty", "-m", subject]
        subprocess.run([*git, *commit], check=True)
    faults = list(house_rules.long_subjects(tmp_path, "HEAD~2"))
    assert [told.split(": ", 1)[1] for told in faults] == [
        f"the subject has 73 characters, more than 72: {'b' * 73}"
    ] * fault


def test_a_module_outside_the_layers_imports_from_none(tmp_path: Path) -> None:
    faults = faults_of_import(tmp_path, "stray.py", "from .system import errors")
    assert faults == [
        "analysis/allotrope/stray.py:3: allotrope/ may not import allotrope.system.errors"
    ]


def test_features_use_each_other_in_one_direction() -> None:
    above: set[str] = set()
    for package, others in house_rules.MAY_USE_FEATURES.items():
        assert others <= above
        above.add(package)
    folder = SOURCE / "analysis" / "allotrope" / "features"
    assert above == {init.parent.name for init in folder.glob("*/__init__.py")}


@pytest.mark.parametrize("name", ["vm/a.c", "vm/a.h", "tests/a.py", "m4/a.m4", "vm/vm.am"])
def test_a_file_without_its_licence(tmp_path: Path, name: str) -> None:
    expected = [f"{name}:1: no line 'SPDX-License-Identifier: MIT' at its head"]
    assert faults_with(tmp_path, name, "\n\n\n" + HEAD) == expected
    assert faults_with(tmp_path, name, "# SPDX-License-Identifier: Apache-2.0\n") == expected


def test_a_script_is_known_by_its_first_line(tmp_path: Path) -> None:
    assert len(faults_with(tmp_path, ".ci/run", "#!/bin/sh\nexit 0\n")) == 1
    assert faults_with(tmp_path, ".ci/run", "#!/bin/sh\n# SPDX-License-Identifier: MIT\n") == []


def test_the_recorder_has_a_licence_of_its_own(tmp_path: Path) -> None:
    name = "trace/recorder/main.c"
    assert len(faults_with(tmp_path, name, HEAD)) == 1
    assert faults_with(tmp_path, name, "/* SPDX-License-Identifier: GPL-2.0-or-later */\n") == []


def test_conflict_markers_in_any_file(tmp_path: Path) -> None:
    text = "a\n" + "<" * 7 + " HEAD\nb\n" + "=" * 7 + "\nc\n" + ">" * 7 + " other\n"
    faults = faults_with(tmp_path, "docs/notes.md", text)
    assert faults == [f"docs/notes.md:{line}: conflict marker" for line in (2, 4, 6)]
    assert faults_with(tmp_path, "docs/notes.md", "Title\n" + "=" * 7 + "\n") == []


def test_what_was_built_is_not_kept(tmp_path: Path) -> None:
    faults = faults_with(tmp_path, "tests/vm/waiting", "\x7fELF\x02")
    assert faults == ["tests/vm/waiting: was built; name it in .gitignore"]


def test_generated_files_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / ".gitignore").write_text("*.gen.c\n")
    assert faults_with(tmp_path, "vm/table.gen.c", "int x;\n") == []


def test_a_test_is_in_a_list(tmp_path: Path) -> None:
    faults_with(tmp_path, "tests/vm/test_a.c", HEAD)
    faults_with(tmp_path, "tests/vm/test_b.py", HEAD)
    faults_with(tmp_path, "tests/vm/vm.am", "unit_tests += tests/vm/test_ab tests/vm/test_b.py\n")
    expected = ["tests/vm/test_a.c: no automake fragment names this test"]
    assert list(house_rules.unlisted_tests(tmp_path)) == expected
    faults_with(tmp_path, "tests/vm/vm.am", "unit_tests += tests/vm/test_a tests/vm/test_b.py\n")
    assert list(house_rules.unlisted_tests(tmp_path)) == []
