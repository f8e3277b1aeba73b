# SPDX-License-Identifier: MIT
"""What our native programs answer, and the reports that the library leaves behind."""

import json
import os
import subprocess
from pathlib import Path

import pytest
from allotrope.system.errors import UserError
from allotrope.system.native import ask, by_power, last_line, read_reports, without_name
from allotrope.system.places import PLACES
from allotrope.system.symbols import Symbols, read_maps
from elftools.elf.elffile import ELFFile
from under import BUILD


def test_counts_by_powers_of_two() -> None:
    assert by_power({"2^00": 1, "2^07": 2, "2^63": 3}) == {0: 1, 7: 2, 63: 3}
    assert by_power({"from_2^00_us": 1, "from_2^12_us": 2}) == {0: 1, 12: 2}


@pytest.mark.parametrize("key", ["", "7", "2^7", "2^007", "from_2^07", "2^07_us", "from_2^07_ns"])
def test_another_key_is_no_count(key: str) -> None:
    with pytest.raises(ValueError, match="names no power of two"):
        by_power({"2^01": 1, key: 2})


def test_a_message_is_said_in_the_commands_own_name() -> None:
    assert without_name("allotrope: x: is damaged") == "x: is damaged"
    assert without_name("allotrope-simulate: x: is damaged") == "x: is damaged"
    for other in ("x: allotrope: is damaged", "allotropes: no", "", "allotrope:none"):
        assert without_name(other) == other


def test_the_last_line_is_the_one_that_says_why() -> None:
    assert last_line("first\nlast\n\n") == "last" and last_line(b"one \xff") == "one \ufffd"
    assert last_line(" \n") == "" and last_line(b"") == ""


def test_reports_are_read_in_the_order_of_their_names(tmp_path: Path) -> None:
    for number in (3, 1, 2):
        (tmp_path / f"{number}.json").write_text(json.dumps({"pid": number}))
    (tmp_path / "other").write_text("no report")
    # Of processes that outlive the command, or were killed while they wrote.
    for number, text in enumerate(("", '{"pid": 4, "comm')):
        (tmp_path / f"half-{number}.json").write_text(text)
    assert [one["pid"] for one in read_reports(tmp_path)] == [1, 2, 3]
    assert read_reports(tmp_path / "nowhere") == []


@pytest.mark.parametrize("name", ["ls", "größe", "\udcff"])
def test_a_name_in_a_report_is_the_programs(tmp_path: Path, name: str) -> None:
    """The library writes each byte as the character of the same number."""
    written = os.fsencode(name).decode("latin-1")
    (tmp_path / "1.json").write_text(json.dumps({"command": written}))
    assert read_reports(tmp_path) == [{"command": name}]
    (mapping,) = read_maps([f"1000-2000 r-xp 00000000 00:00 1    /a/{written}\n"])
    assert mapping.path == f"/a/{name}"


def test_a_program_is_asked(tmp_path: Path) -> None:
    answer = ask(PLACES.tracer, "info", tmp_path / "nothing")
    assert answer.status != 0 and answer.output == b""
    assert answer.message.startswith(str(tmp_path / "nothing"))
    with pytest.raises(UserError, match="run make"):
        ask(tmp_path / "not-built")


def test_a_file_that_was_replaced_gives_no_names() -> None:
    """Another build's functions lie elsewhere."""
    program = str(BUILD / "bench_programs" / "planted_leak")
    listed = subprocess.run(["nm", program], capture_output=True, text=True, check=True).stdout
    (start,) = (int(line.split()[0], 16) for line in listed.splitlines() if line.endswith(" main"))
    with open(program, "rb") as file:
        text = next(s for s in ELFFile(file).iter_segments("PT_LOAD") if s["p_flags"] & 1)
    address = 0x10000000 + start - text["p_vaddr"] + 2
    for end, functions, said in (("", "main", []), (" (deleted)", None, ["planted_leak"])):
        line = f"10000000-20000000 r-xp {text['p_offset']:08x} 00:00 1    {program}{end}"
        symbols = Symbols([line])
        (place,) = symbols.find([address])[address]
        assert place.function == functions and place.object == program
        assert [one for one in symbols.lacking() if "planted_leak" in one] == [
            f"of {name}, replaced or removed since, functions have no names." for name in said
        ]
