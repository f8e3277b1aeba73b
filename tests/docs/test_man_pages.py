# SPDX-License-Identifier: MIT
"""The manual pages: whole, without a fault of layout, and their examples run."""

import json
import os
import re
import shutil
import subprocess

import pytest
from under import BUILD, LIBRARY

PAGES = ["allotrope.1", "liballotrope.7"]


def page(name: str) -> str:
    return (BUILD / "docs" / "man" / name).read_text()


@pytest.mark.skipif(not shutil.which("mandoc"), reason="needs the Debian package mandoc")
@pytest.mark.parametrize("name", PAGES)
def test_mandoc_finds_no_fault(name: str) -> None:
    checked = subprocess.run(
        ["mandoc", "-Tlint", "-Wwarning", str(BUILD / "docs" / "man" / name)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert checked.stdout == ""


def test_every_word_and_option_of_the_command_is_there() -> None:
    text = page("allotrope.1")
    command = [str(BUILD / "allotrope")]
    shown = subprocess.run([*command, "--help"], capture_output=True, text=True, check=True).stdout
    words = re.findall(r"^  (\w+)  ", shown.split("Commands:")[1], flags=re.MULTILINE)
    assert "run" in words and "compare" in words
    for word in words:
        assert f".Ss {word}\n" in text
        if word == "load":
            continue  # it becomes allotrope-load, whose --help has its options
        help_of = [*command, word, "--help"]
        told = subprocess.run(help_of, capture_output=True, text=True, check=True).stdout
        for option in re.findall(r"^  (?:-\w, )?--([\w-]+)", told, flags=re.MULTILINE):
            assert f'"-{option}"' in text or option == "help", f"{word} --{option}"


def test_every_allocator_preset_and_option_is_there() -> None:
    text = page("liballotrope.7")
    told = subprocess.run([str(BUILD / "allotrope-describe")], capture_output=True, check=True)
    for allocator in json.loads(told.stdout)["allocators"]:
        section = text.split(f".Ss {allocator['name']}\n")[1].split("\n.Ss ")[0]
        for preset in allocator["presets"]:
            suffix = "" if preset["name"] == "default" else ":" + preset["name"]
            assert f'.Sy "{allocator["name"]}{suffix}"' in section
        for option in allocator["options"]:
            assert f'.It Cm "{option["key"]}"' in section


def examples(name: str) -> list[str]:
    return re.findall(r"^\.Dl (.*)", page(name), flags=re.MULTILINE)


@pytest.mark.parametrize("name", PAGES)
def test_examples_run(name: str) -> None:
    assert len(examples(name)) >= 2
    for line in examples(name):
        line = re.sub(r"LD_PRELOAD=\S*/liballotrope.so", f"LD_PRELOAD={LIBRARY}", line)
        path = f"{BUILD}:{os.environ['PATH']}"
        result = subprocess.run(
            line, shell=True, capture_output=True, check=False, env=os.environ | {"PATH": path}
        )
        assert result.returncode == 0, f"{line}: {result.stderr!r}"
