# SPDX-License-Identifier: MIT
"""Files shipped to workers that lack them: what is put where, what is never replaced, and that the
figures of a worker that had nothing are those of one machine."""

import json
import os
import shutil
import socket
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Callable, Iterator

import pytest
from allotrope.features.cluster import connection, delivery, shipment
from allotrope.features.cluster.shipment import Shipment, files_below, named_paths, own_files
from allotrope.features.cluster.suite import _expand
from allotrope.study.zorn.programs import read_programs
from allotrope.system.errors import UserError
from conftest import Command
from test_cluster import (  # noqa: F401
    Cluster,
    cluster,
    deterministic,
    needs_dask,
    on,
    read,
    simulate_words,
    words,
)
from under import BUILD, SOURCE

SUITE = """
title = "shipped"
[[program]]
name = "sorted"
command = ["sort", "$SUITE/words"]
[[program]]
name = "script"
command = '''exec awk -f "${SUITE}/more/count.awk" "$SUITE/words"'''
"""


def state(content: bytes, kind: str = "file") -> str:
    return f"{kind} {delivery.digest(content)}"


class There:
    """A worker's files: a folder, and a record of its own. Without a cluster."""

    address = "tcp://there:1"

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.folder.mkdir()
        self.asked: list[str] = []

    def path(self, name: str) -> str:
        return str(self.folder / name)

    def ship(self, files: dict[str, bytes], folders: tuple[str, ...] = ()) -> dict[str, Any]:
        """By name; returns what the worker lacked."""
        listing = {self.path(name): state(content) for name, content in files.items()}
        contents = {self.path(name): content for name, content in files.items()}
        asked = delivery.lacking(listing, [self.path(name) for name in folders], [])
        wanted = {
            path: (listing[path], before, contents[path])
            for path, before in asked["wanted"].items()
        }
        asked["said"] = delivery.receive(wanted, asked["outdated"], asked["missing"])["unlike"]
        return asked

    def run(self, question: Callable[..., Any], *arguments: Any, **_: Any) -> dict[str, Any]:
        """As a Dask client does."""
        self.asked.append(question.__name__)
        return {self.address: question(*arguments)}

    def scheduler_info(self) -> dict[str, Any]:
        return {"workers": {self.address: {}}}


@pytest.fixture
def there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> There:
    monkeypatch.setattr(delivery, "RECORD", str(tmp_path / "shipped-{}"))
    monkeypatch.setattr(connection, "other_versions", lambda _: [])
    closed = SimpleNamespace(comm=SimpleNamespace(CommClosedError=ConnectionAbortedError))
    monkeypatch.setattr(connection, "dask", lambda: closed)
    return There(tmp_path / "there")


def record(tmp_path: Path) -> Path:
    return tmp_path / f"shipped-{os.getuid()}"


class TestDelivery:
    def test_what_is_missing_is_put_there_once(self, there: There) -> None:
        files = {"one": b"1", "deep/er/two": b"2", "empty": b"", "na me\n": b"3"}
        assert list(there.ship(files)["wanted"]) == [there.path(name) for name in files]
        assert (there.folder / "deep/er/two").read_bytes() == b"2"
        assert (there.folder / "one").stat().st_mode & 0o7777 == 0o644
        again = there.ship(files)
        assert (again["wanted"], again["unlike"], again["said"]) == ({}, [], [])
        names = sorted(one.name for one in there.folder.iterdir())
        assert names == ["deep", "empty", "na me\n", "one"]

    def test_what_was_shipped_is_replaced(self, there: There) -> None:
        for content in (b"1", b"another", b"1"):
            assert list(there.ship({"one": content})["wanted"]) == [there.path("one")]
            assert (there.folder / "one").read_bytes() == content

    def test_what_was_not_shipped_stays(self, there: There) -> None:
        own = there.folder / "own"
        own.write_bytes(b"the worker's")
        asked = there.ship({"own": b"ours"})
        told = f"{own} is another one; remove it there, or have the same here"
        assert asked["unlike"] == [told]
        assert asked["wanted"] == {} and own.read_bytes() == b"the worker's"

    def test_what_was_changed_since_stays(self, there: There) -> None:
        there.ship({"one": b"1"})
        (there.folder / "one").write_bytes(b"mended by hand")
        (said,) = there.ship({"one": b"2"})["unlike"]
        assert " was changed since it was shipped; " in said
        assert (there.folder / "one").read_bytes() == b"mended by hand"

    def test_what_is_changed_meanwhile_stays(self, there: There) -> None:
        """Between the two questions."""
        put = {there.path("one"): (state(b"1"), None, b"1")}
        (there.folder / "one").write_bytes(b"another client's")
        (said,) = delivery.receive(put, {}, [])["unlike"]
        assert said == f"{there.path('one')} cannot be put there: it was changed meanwhile"
        assert delivery.receive({}, {there.path("one"): state(b"1")}, [])["unlike"] == []
        assert (there.folder / "one").read_bytes() == b"another client's"

    def test_what_is_no_file_stays(self, there: There) -> None:
        (there.folder / "one").mkdir()
        os.mkfifo(there.folder / "two")
        for name in ("one", "two"):
            (said,) = there.ship({name: b"1"})["unlike"]
            assert said == f"{there.path(name)} cannot be read: no regular file"

    def test_of_many_files_the_first_are_named(self, there: There) -> None:
        files = {str(number): b"1" for number in range(7)}
        for name in files:
            (there.folder / name).write_bytes(b"2")
        unlike = there.ship(files)["unlike"]
        assert len(unlike) == 4 and unlike[-1] == "and 4 more"

    def test_programs_can_be_executed(self, there: There) -> None:
        """Also one that was shipped before somebody made it executable here."""
        path = there.path("tool")
        there.ship({"tool": b"1"})
        program = {path: state(b"1", "program")}
        asked = delivery.lacking(program, [], [])
        assert asked["wanted"] == {path: state(b"1")}
        assert delivery.receive({path: (program[path], state(b"1"), b"1")}, {}, [])["unlike"] == []
        assert os.stat(path).st_mode & 0o7777 == 0o755
        # One more right than here does no harm.
        assert delivery.lacking({path: state(b"1")}, [], [])["wanted"] == {}

    def test_modules_that_are_no_more_are_removed(self, there: There) -> None:
        """The package's fingerprint is that of all modules below it."""
        there.ship({"package/old.py": b"1", "package/kept.py": b"2", "other/old.py": b"3"})
        (there.folder / "package" / "own.py").write_bytes(b"the worker's")
        asked = there.ship({"package/kept.py": b"2"}, folders=("package",))
        assert list(asked["outdated"]) == [there.path("package/old.py")] and asked["said"] == []
        left = sorted(str(one.relative_to(there.folder)) for one in there.folder.rglob("*.py"))
        assert left == ["other/old.py", "package/kept.py", "package/own.py"]

    def test_links_to_the_system_stay_links(self, there: There) -> None:
        path = there.path("tool")
        to_true, to_false = "link /usr/bin/true", "link /usr/bin/false"
        assert delivery.receive({path: (to_true, None, b"")}, {}, [])["unlike"] == []
        assert os.readlink(path) == "/usr/bin/true"
        asked = delivery.lacking({path: to_false}, [], [])
        assert (asked["wanted"], asked["unlike"]) == ({path: to_true}, [])

    def test_other_links_are_the_files_that_they_lead_to(self, there: There) -> None:
        (there.folder / "lib.so.0").write_bytes(b"1")
        (there.folder / "lib.so").symlink_to("lib.so.0")
        (there.folder / "whole").symlink_to(there.folder / "lib.so.0")
        assert there.ship({"lib.so": b"1", "whole": b"1"})["wanted"] == {}

    @pytest.mark.parametrize(
        "line", ["5", "{}", '{"path": 1, "state": "link"}', "[]", "\xff", '{"path": "']
    )
    def test_a_line_that_is_none_counts_for_nothing(
        self, there: There, tmp_path: Path, line: str
    ) -> None:
        """And spoils no other: what is shipped next is known."""
        there.ship({"one": b"1"})
        with record(tmp_path).open("a") as lines:
            lines.write(line)  # cut short: it has no end
        for content in (b"2", b"3"):
            assert list(there.ship({"one": content})["wanted"]) == [there.path("one")]

    def test_a_record_that_is_a_link_is_refused(self, there: There, tmp_path: Path) -> None:
        """Who may write to it could have any known file replaced."""
        (tmp_path / "elsewhere").touch()
        record(tmp_path).symlink_to(tmp_path / "elsewhere")
        (said,) = there.ship({"one": b"1"})["said"]
        assert said.startswith(f"{record(tmp_path)} cannot be put there: ")
        assert not (there.folder / "one").exists()

    def test_a_record_that_is_a_pipe_holds_nobody_up(self, there: There, tmp_path: Path) -> None:
        os.mkfifo(record(tmp_path))
        (said,) = there.ship({"one": b"1"})["said"]
        assert " cannot be put there: " in said

    def test_another_users_record_is_refused(self, there: There, tmp_path: Path) -> None:
        if os.geteuid() != 0:
            pytest.skip("needs root")
        record(tmp_path).touch()
        os.chown(record(tmp_path), 1234, 1234)
        (said,) = there.ship({"one": b"1"})["said"]
        assert "is another user's" in said

    def test_folders_that_others_may_write_to_are_refused(self, there: There) -> None:
        """What is put there is executed."""
        (there.folder / "open").mkdir()
        (there.folder / "open").chmod(0o777)
        (there.folder / "link").symlink_to("open")
        for name in ("open", "open/deeper", "link"):
            (said,) = there.ship({f"{name}/one": b"1"})["said"]
            assert "other users may write to " in said
        (there.folder / "open").chmod(0o1777)
        assert there.ship({"open/deeper/one": b"1"})["said"] == []

    def test_folders_of_others_are_refused(self, there: There) -> None:
        if os.geteuid() != 0:
            pytest.skip("needs root")
        (there.folder / "theirs").mkdir()
        os.chown(there.folder / "theirs", 1234, 1234)
        (said,) = there.ship({"theirs/deeper/one": b"1"})["said"]
        assert said.endswith(f"other users may write to {there.folder}/theirs")

    def test_what_cannot_be_put_there_is_named(self, there: There) -> None:
        (there.folder / "file").touch()
        (said,) = there.ship({"file/one": b"1"})["said"]
        assert said == f"{there.path('file/one')} cannot be put there: File exists"


class TestShipment:
    def test_the_command_and_the_native_parts_are_shipped(self) -> None:
        names = {str(file) for file in own_files()}
        for name in ("allotrope-launch", "allotrope-describe", "allotrope-simulate"):
            assert str(BUILD / name) in names
        assert str(BUILD / ".libs" / "liballotrope.so") in names
        assert str(SOURCE / "analysis/allotrope/output/page.html.j2") in names
        assert str(SOURCE / "analysis/allotrope/features/cluster/worker.py") in names
        assert not any("__pycache__" in name or name.endswith(".o") for name in names)

    def test_paths_that_words_name(self, tmp_path: Path) -> None:
        for name in ("a file", "one", "two"):
            (tmp_path / name).touch()
        (tmp_path / "folder").mkdir()
        texts = [
            str(tmp_path / "a file"),
            f'sort "{tmp_path}/one";cat <{tmp_path}/two|wc',
            f"--output={tmp_path}/one -f{tmp_path}/two",
            f"/usr/bin/sort /etc/passwd {tmp_path}/gone /tmp /var/lib/dpkg/status",
            f"cat '{tmp_path}/a file'",
            f"{tmp_path}/folder/../folder",
            "one",
        ]
        names = [os.path.relpath(path, tmp_path) for path in named_paths(texts)]
        assert names == ["a file", "one", "two", "one", "two", "a file", "folder"]

    def test_variables_of_a_suite(self) -> None:
        text = 'cp "$SUITE"/a ${SUITE}/b $SUITE/c "$SUITE/d" $SUITES/e; cd $SUITE'
        expected = 'cp /s/a /s/b /s/c "/s/d" $SUITES/e; cd /s'
        assert _expand(text, {"SUITE": "/s", "BUILD": "/b"}) == expected

    def test_all_is_delivered_in_messages_of_bounded_size(
        self, there: There, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """To a worker whose folder of the same name is another one; and once only."""
        monkeypatch.setattr(shipment, "MESSAGE_BYTES", 10)
        here = there.folder
        sizes = {"0": 4, "1": 6, "2": 1, "3": 30, "4": 2}
        for name, size in sizes.items():
            (here / name).write_bytes(b"x" * size)
        made = Shipment(here.iterdir(), needed=[tmp_path / "needed"])
        kept = tmp_path / "kept"
        told: list[str] = []
        shutil.move(here, kept)
        here_before = lambda path: (kept / Path(path).name).read_bytes()  # noqa: E731
        monkeypatch.setattr(shipment, "_contents", here_before)
        made.deliver(there, [there.address], told.append)
        assert there.asked == ["lacking", "receive", "receive", "receive", "receive"]
        assert told[0].endswith(": 5 files, 43 B") and (tmp_path / "needed").is_dir()
        assert {one.name: one.stat().st_size for one in here.iterdir()} == sizes
        made.deliver(there, [there.address], told.append)
        assert there.asked[5:] == ["lacking"] and len(told) == 1

    def test_a_file_that_changes_meanwhile_is_named(self, there: There) -> None:
        (there.folder / "one").write_bytes(b"1")
        made = Shipment([there.folder / "one"])
        (there.folder / "one").write_bytes(b"2")
        with pytest.raises(UserError, match="one has changed since the command began"):
            list(made._messages({there.path("one"): None}))

    def test_a_worker_that_has_ended_is_sent_no_more(
        self, there: There, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (there.folder / "one").write_bytes(b"1")
        made = Shipment([there.folder / "one"])
        answers = iter(
            [
                {
                    "a": {
                        "host": "h",
                        "wanted": {there.path("one"): None},
                        "outdated": {},
                        "missing": [],
                        "unlike": [],
                    }
                },
                {},
            ]
        )
        monkeypatch.setattr(shipment, "ask_new", lambda *_: next(answers))
        told: list[str] = []
        made.deliver(there, ["a"], told.append)
        assert told == []

    @pytest.mark.parametrize(
        ("name", "why"),
        [
            ("gone", "cannot read {}: No such file or directory"),
            ("fifo", "cannot read {}: no regular file"),
            ("large", "{} has more than 256 MiB; bring it to the workers yourself"),
        ],
    )
    def test_what_cannot_be_shipped_is_named(self, tmp_path: Path, name: str, why: str) -> None:
        os.mkfifo(tmp_path / "fifo")
        with (tmp_path / "large").open("wb") as file:
            file.truncate((256 << 20) + 1)
        with pytest.raises(UserError) as told:
            Shipment([tmp_path / name])
        assert str(told.value) == "--ship: " + why.format(tmp_path / name)

    def test_links_to_folders_are_named(self, tmp_path: Path) -> None:
        (tmp_path / "folder").mkdir()
        (tmp_path / "link").symlink_to("folder")
        (tmp_path / "nowhere").symlink_to("gone")  # as an editor's lock
        with pytest.raises(UserError, match="link is a link to a folder; name that one"):
            list(files_below(tmp_path))
        (tmp_path / "link").unlink()
        assert list(files_below(tmp_path)) == []

    def test_a_study_needs_what_its_steps_depend_on(self, tmp_path: Path) -> None:
        """Each file whose contents are in a fingerprint is named, or is the system's."""
        for program in read_programs(None):
            named = {os.path.realpath(path) for path in named_paths(program.words())}
            for form in program.forms.values():
                tool = os.path.realpath(form.command[0])
                if os.path.isabs(form.command[0]) and os.path.exists(tool):
                    assert tool in named or delivery.is_of_system(tool), program.name

    @pytest.mark.parametrize(
        ("option", "more"), [("--ship", ()), ("--ship-with", (str(SOURCE / "README.md"),))]
    )
    def test_only_workers_are_shipped_to(
        self, real: Command, tmp_path: Path, option: str, more: tuple[str, ...]
    ) -> None:
        suite = tmp_path / "suite.toml"
        suite.write_text(SUITE)
        done = real.run("compare", "--suite", str(suite), option, *more)
        assert done.returncode == 2 and f"{option} needs --cluster" in done.stderr

    def test_a_simulation_here_ships_nothing(self, real: Command) -> None:
        done = real.run("simulate", "pages", "--ship", "run.alt")
        assert done.returncode == 2 and "--ship needs --cluster" in done.stderr


class Bare:
    """A worker that has neither the tree nor what is in `shipped`, and a /var/tmp of its own.
    `on`: what tells a command to measure there."""

    def __init__(self, cluster: Cluster, folder: Path) -> None:  # noqa: F811
        self.on = on(cluster.address)
        self.folder, self.shipped = folder, folder / "shipped"
        self.shipped.mkdir()
        script = 'n=$1; shift; while [ $n -gt 0 ]; do if [ -d "$1" ]; then '
        script += 'mount -t tmpfs tmpfs "$1" || exit 1; fi; shift; n=$((n-1)); done; exec "$@"'
        folders = [str(one) for one in (Path("/var/tmp"), SOURCE, BUILD, self.shipped)]
        before = ["unshare", "--mount", "sh", "-c", script, "sh", str(len(folders)), *folders]
        cluster.start_worker(*before)
        self.process = cluster.workers[-1]

    def path(self, here: Path) -> Path:
        """Where the worker's own file is seen from outside."""
        return Path(f"/proc/{self.process.pid}/root{here}")


@pytest.fixture
def bare(cluster: Cluster, tmp_path: Path) -> Iterator[Bare]:  # noqa: F811
    trial = ["unshare", "--mount", "mount", "-t", "tmpfs", "tmpfs", "/mnt"]
    if subprocess.run(trial, capture_output=True, check=False).returncode != 0:
        pytest.skip("needs the right to a mount namespace")
    yield Bare(cluster, tmp_path)


@needs_dask
class TestBareWorkers:
    def test_a_suite(self, real: Command, bare: Bare) -> None:
        """The figures are those of one machine. A second time nothing is sent, and what was changed
        here is sent anew; what was changed there is refused."""
        there = bare.shipped
        suite, counter = there / "suite.toml", there / "more" / "count.awk"
        suite.write_text(SUITE)
        (there / "words").write_text("".join(f"word{n}\n" for n in range(3000)))
        counter.parent.mkdir()
        counter.write_text("{ a[NR] = $0 } END { print NR }\n")
        alone = bare.folder / "alone"
        alone.mkdir()
        assert real.run(*words(suite, alone)).returncode == 0
        ship = [*bare.on, "--ship"]
        without = real.run(*words(suite, bare.folder, *ship[:-1]))
        assert without.returncode == 2 and " is missing" in without.stderr
        done = real.run(*words(suite, bare.folder, *ship))
        assert done.returncode == 0, done.stderr
        assert f" on {socket.gethostname()}: " in done.stderr
        assert done.stderr.count("shipped to worker") == 1
        assert deterministic(read(bare.folder)) == deterministic(read(alone))
        assert bare.path(counter).read_text() == counter.read_text()
        again = real.run(*words(suite, bare.folder, *ship))
        assert again.returncode == 0 and "shipped to worker" not in again.stderr
        counter.write_text("{ a[NR] = $0 $0 } END { print NR }\n")
        changed = real.run(*words(suite, bare.folder, *ship))
        assert changed.returncode == 0, changed.stderr
        assert "shipped to worker" in changed.stderr and ": 1 file, " in changed.stderr
        assert bare.path(counter).read_text() == counter.read_text()
        bare.path(counter).write_text("{}\n")
        refused = real.run(*words(suite, bare.folder, *ship))
        assert refused.returncode == 2
        assert f"{counter} was changed since it was shipped" in refused.stderr

    def test_what_no_word_names_is_shipped_when_asked(self, real: Command, bare: Bare) -> None:
        there = bare.shipped
        suite, data = there / "suite.toml", there / "data"
        suite.write_text('[[program]]\nname = "all"\ncommand = "cat $SUITE/data/*"\n')
        data.mkdir()
        for name in ("one", "two"):
            (data / name).write_text(name)
        given = words(suite, bare.folder, *bare.on, "--ship-with", str(data))
        here = there / "where the user stands"
        here.mkdir()
        done = real.run(*given, cwd=here)
        assert done.returncode == 0, done.stderr
        assert bare.path(here).is_dir()
        assert {one["status"] for one in read(bare.folder)["programs"]} == {"measured"}
        assert bare.path(data / "two").read_text() == "two"

    def test_an_allocators_library(self, real: Command, bare: Bare) -> None:
        """One that is named by its path."""
        there = bare.shipped
        suite, library = there / "suite.toml", there / "mine.so"
        suite.write_text('[[program]]\nname = "true"\ncommand = ["true"]\n')
        shutil.copy(BUILD / ".libs" / "liballotrope-bsd.so", library)
        given = ["compare", "--suite", str(suite), "--rounds", "1", "-a", "glibc"]
        given += ["-a", str(library), "--json", str(bare.folder / "json")]
        done = real.run(*given, "--state", str(bare.folder / "state"), *bare.on, "--ship")
        assert done.returncode == 0, done.stderr
        assert bare.path(library).read_bytes() == library.read_bytes()

    def test_the_simulator(self, real: Command, threaded_trace: Path, bare: Bare) -> None:
        given = simulate_words("pages", threaded_trace)
        there = bare.on[:2]
        without = real.run(*given, *there)
        assert without.returncode == 2 and "allotrope-simulate is missing" in without.stderr
        shipped = real.run(*given, *there, "--ship")
        assert (shipped.returncode, shipped.stderr) == (0, "")
        assert shipped.stdout == real.run(*given).stdout
        assert not bare.path(BUILD / "allotrope-launch").exists()

    def test_a_study(self, real: Command, bare: Bare) -> None:
        """Programs and sources are in the trees, which are the client's alone."""
        given = ["study", "barriers", "--quick", "--rounds", "1", "--only", "interactive"]
        out = bare.folder / "out"
        done = real.run(*given, "--out", str(out), *bare.on, "--ship")
        assert done.returncode == 0, done.stderr
        assert "shipped to worker" in done.stderr
        assert "interactive was measured on " in done.stderr
        rounds = list((out / "steps" / "round").glob("interactive*"))
        assert len(rounds) == 1
        assert "failure" not in json.loads(rounds[0].read_text())["result"]
        assert bare.path(BUILD / "allotrope-vm").exists()
