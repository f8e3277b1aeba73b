# SPDX-License-Identifier: MIT
"""How results are written: checked before the work, files before anything is shown."""

import os
import subprocess
from pathlib import Path

import pytest
from allotrope.output.files import Outputs, as_csv, as_json, replace_file, write_file
from allotrope.system.errors import UserError
from conftest import Command
from under import BUILD, HANG, PYTHON, SOURCE


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


def test_what_cannot_be_shown_does_not_cost_standard_output(
    capsys: pytest.CaptureFixture[str],
) -> None:
    def show() -> None:
        raise UserError("there is no such quantity")

    with pytest.raises(UserError, match="no such quantity"):
        Outputs({"--json": "-"}).write({"--json": lambda: "json\n"}, show)
    assert capsys.readouterr().out == "json\n"


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
    left = file.with_name(f".{file.name}.{os.getpid()}.new")
    left.touch()  # by one that was killed
    replace_file(file, "new")
    left.unlink()
    assert file.read_text() == "new" and list(file.parent.iterdir()) == [file]
    with pytest.raises(UserError, match=f"cannot write {file}/below"):
        replace_file(file / "below", "text")


def test_a_name_may_be_as_long_as_the_system_allows(tmp_path: Path) -> None:
    file = tmp_path / ("漢" * 85)  # 255 bytes
    write_file(str(file), "whole")
    assert file.read_text() == "whole" and list(tmp_path.iterdir()) == [file]


def test_what_has_no_name_is_written_to_as_it_is(tmp_path: Path) -> None:
    """The pipe of a shell's >(CMD), and a file that was removed."""
    read, write = os.pipe()
    with os.fdopen(read) as reader, os.fdopen(write), open(tmp_path / "gone", "w+") as gone:
        (tmp_path / "gone").unlink()
        pipe, removed = f"/dev/fd/{write}", f"/proc/self/fd/{gone.fileno()}"
        Outputs({"--json": pipe, "--csv": removed})
        write_file(pipe, "one\n")
        write_file(removed, "other")
        assert reader.readline() == "one\n" and gone.read() == "other"


@pytest.mark.parametrize("name", ["/dev/stdout", "/dev/fd/1"])
def test_standard_output_has_other_names(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    outputs = Outputs({"--json": name})
    assert outputs.takes_stdout
    outputs.write({"--json": lambda: "{}\n"}, lambda: print("shown"))
    assert capsys.readouterr().out == "shown\n{}\n"
    with pytest.raises(UserError, match="already written by --json"):
        Outputs({"--json": name, "--csv": "-"})


def test_none_is_an_empty_cell_and_json_ends_its_line() -> None:
    assert as_csv([["a", None, 1.5], ["b,c", "", 0]]) == 'a,,1.5\n"b,c",,0\n'
    assert as_json({"a": 1}) == '{"a": 1}\n' and as_json([1], indent=1) == "[\n 1\n]\n"


FULL = "/dev/full"


class TestWhatCannotBeWritten:
    def limited(self, folder: Path, script: str) -> "subprocess.CompletedProcess[str]":
        """Runs Python where no file may grow beyond 1000 bytes, as on a disk that is full."""
        limit = "import resource, signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        limit += "resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))\n"
        head = "from allotrope.output.files import *\n"
        line = [PYTHON, "-c", limit + head + script]
        path = {"PYTHONPATH": str(SOURCE / "analysis")}
        return subprocess.run(
            line, cwd=folder, env=os.environ | path, capture_output=True, text=True, timeout=HANG
        )

    def test_a_full_disk_leaves_the_old_file_and_nothing_else(self, tmp_path: Path) -> None:
        (tmp_path / "page").write_text("old")
        done = self.limited(tmp_path, "write_file('page', 'x' * 5000)")
        assert "cannot write page: File too large" in done.stderr
        assert [file.name for file in tmp_path.iterdir()] == ["page"]
        assert (tmp_path / "page").read_text() == "old"

    def test_what_is_shown_is_shown_in_any_case_and_the_others_are_written(
        self, tmp_path: Path
    ) -> None:
        done = self.limited(
            tmp_path,
            "outputs = Outputs({'--csv': 'table', '--json': 'all', '--markdown': '-'})\n"
            "makers = {'--csv': lambda: 'y' * 5000, '--json': lambda: 'z', '--markdown': str}\n"
            "outputs.write(makers, lambda: print('shown'))",
        )
        assert done.stdout == "shown\n" and "cannot write table" in done.stderr
        assert [file.name for file in tmp_path.iterdir()] == ["all"]

    def test_each_file_that_cannot_be_written_is_named(self, tmp_path: Path) -> None:
        files = {option: str(tmp_path / "no" / option) for option in ("--json", "--csv")}
        outputs = Outputs({})
        outputs.files = files
        with pytest.raises(UserError, match="no/--json: No such.*; cannot write .*no/--csv: No"):
            outputs.write({option: str for option in files})

    def test_what_cannot_be_made_does_not_keep_the_rest(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        def broken() -> str:
            raise LookupError("no such figure")

        outputs = Outputs({"--html": None, "--csv": str(tmp_path / "a"), "--json": "-"})
        with pytest.raises(LookupError):
            outputs.write({"--csv": broken, "--json": lambda: "{}"}, lambda: print("shown"))
        assert capsys.readouterr().out == "shown\n{}"

    def test_a_device_is_written_to_as_it_is(self) -> None:
        with pytest.raises(UserError, match=f"cannot write {FULL}: No space left on device"):
            write_file(FULL, "text")
        assert Path(FULL).is_char_device()
        write_file("/dev/null", "text")

    def test_a_link_stays_and_rights_are_kept(self, tmp_path: Path) -> None:
        real, link = tmp_path / "real", tmp_path / "link"
        real.touch(0o600)
        link.symlink_to(real)
        write_file(str(link), "new")
        assert link.is_symlink() and real.read_text() == "new"
        assert real.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("older", ["", "older"])
@pytest.mark.parametrize(
    "words",
    [
        "run -a blocks --stats=full/a.json -- true",
        "run -a blocks --stats=full/a -- true",
        "run -a glibc --latency=full/a -- true",
        "events -o full/a.ale -- true",
        "record -o full/a.alt -- true",
    ],
)
def test_a_full_disk_gets_no_empty_file_and_keeps_the_older(
    real: Command, tmp_path: Path, words: str, older: str
) -> None:
    """What the library and the recorders write themselves."""
    (tmp_path / "full").mkdir()
    name = words[words.index("full/") :].split()[0]
    fill = "mount -t tmpfs -o size=8k none full || exit 1; "
    fill += f"printf '{older}' >{name}; " if older else ""
    fill += "head -c 16384 /dev/zero >full/filler; true"
    alone = ["unshare", "-m", "sh", "-c"]
    if subprocess.run([*alone, fill], cwd=tmp_path, capture_output=True).returncode != 0:
        pytest.skip("no file system may be mounted here")
    if words.startswith("record") and not (BUILD / "trace" / "allotrope-trace-record").exists():
        pytest.skip("the recorder is not built")
    script = f'{fill}; "$@"; rm full/filler; ls -A full; cat {name} 2>/dev/null'
    line = [*alone, script, "sh", *real.line(*words.split())]
    done = subprocess.run(line, cwd=tmp_path, capture_output=True, text=True, timeout=HANG)
    assert "full/a" in done.stderr and "allotrope: " in done.stderr
    assert done.stdout.split() == ([Path(name).name, older] if older else [])


def test_compare_shows_its_table_though_the_page_cannot_be_written(
    real: Command, tmp_path: Path
) -> None:
    words = ["--rounds", "2", "-a", "glibc", "--html", FULL, "--json", str(tmp_path / "json")]
    done = real.run("compare", *words, "--", "true")
    assert done.returncode == 2 and "glibc" in done.stdout
    assert f"cannot write {FULL}: No space left on device" in done.stderr
    assert (tmp_path / "json").exists()


@pytest.mark.parametrize(
    "words",
    [
        "compare --rounds 2 -a glibc --html {full} -- true",
        "lifetimes --html {full} run.ale",
        "replay -a glibc --rounds 1 --html {full} run.ale",
        "locality -a glibc --html {full} -- true",
        "simulate pages --csv {full} run.alt",
        "vm table --rounds 1 --json {full}",
    ],
)
def test_every_word_shows_what_it_could_not_write(
    real: Command, tmp_path: Path, words: str
) -> None:
    if "run.ale" in words:
        assert real.run("events", "-o", "run.ale", "--", "ls", cwd=tmp_path).returncode == 0
    if "run.alt" in words:
        assert real.run("record", "-o", "run.alt", "--", "true", cwd=tmp_path).returncode == 0
    done = real.run(*words.format(full=FULL).split(), cwd=tmp_path)
    assert done.returncode == 2 and f"cannot write {FULL}" in done.stderr
    assert len(done.stdout.splitlines()) > 2
