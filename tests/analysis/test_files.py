# SPDX-License-Identifier: MIT
"""How results are written: checked before the work, files before anything is shown."""

from pathlib import Path

import pytest
from allotrope.output.files import Outputs, as_csv, as_json, replace_file, write_file
from allotrope.system.errors import UserError


def test_files_are_written_before_anything_is_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "result"
    outputs = Outputs({"--json": str(file), "--csv": "-", "--markdown": None})

    def show() -> None:
        assert file.read_text() == "json" and capsys.readouterr().out == ""
        print("shown")

    assert outputs.takes_stdout
    outputs.write({"--json": lambda: "json", "--csv": lambda: "csv\n"}, show)
    assert capsys.readouterr().out == "shown\ncsv\n"


def test_nothing_is_made_that_was_not_asked_for(tmp_path: Path) -> None:
    outputs = Outputs({"--json": str(tmp_path / "result"), "--csv": None})
    assert not outputs.takes_stdout and not (tmp_path / "result").exists()
    outputs.write({"--json": lambda: b"bytes", "--csv": lambda: pytest.fail("was made")})
    assert (tmp_path / "result").read_bytes() == b"bytes"


def test_outputs_are_found_wanting_before_the_work(tmp_path: Path) -> None:
    (tmp_path / "read").touch()
    one, read = str(tmp_path / "one"), str(tmp_path / "read")
    for files, others, said in (
        ({"--json": one, "--csv": one}, {}, "--csv: .* is already written by --json"),
        ({"--json": "-", "--csv": "-"}, {}, "--csv: - is already written by --json"),
        ({"--json": read}, {}, "--json: .* is already read"),
        ({"--json": one}, {"--state": one}, "--state: .* is already written by --json"),
        ({"--json": str(tmp_path)}, {}, "it is a folder"),
        ({"--json": f"{one}/two"}, {}, "there is no folder"),
    ):
        with pytest.raises(UserError, match=said):
            Outputs(files, [read, None], others)


def test_what_no_text_may_hold_is_escaped(tmp_path: Path) -> None:
    write_file(str(tmp_path / "file"), "caf\udce9 ä\n")
    assert (tmp_path / "file").read_text() == "caf\\udce9 ä\n"


def test_a_file_is_replaced_whole(tmp_path: Path) -> None:
    file = tmp_path / "folder" / "state"
    replace_file(file, "old")
    replace_file(file, "new")
    assert file.read_text() == "new" and list(file.parent.iterdir()) == [file]
    with pytest.raises(UserError, match=f"cannot write {file}/below"):
        replace_file(file / "below", "text")


def test_none_is_an_empty_cell_and_json_ends_its_line() -> None:
    assert as_csv([["a", None, 1.5], ["b,c", "", 0]]) == 'a,,1.5\n"b,c",,0\n'
    assert as_json({"a": 1}) == '{"a": 1}\n' and as_json([1], indent=1) == "[\n 1\n]\n"
