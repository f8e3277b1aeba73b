# SPDX-License-Identifier: MIT
"""Files shipped to workers that lack them: what is put where, what is never replaced, and that the
figures of a worker that had nothing are those of one machine."""

import hashlib
import json
import os
import shutil
import socket
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Callable, Iterator

import pytest
from allotrope.features.cluster import delivery, shipment
from allotrope.features.cluster.shipment import Shipment, named_files, own_files
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


def digest(content: bytes) -> str:
    return hashlib.blake2b(content).hexdigest()


class Worker:
    """A folder into which files are shipped, and which has a record of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.folder.mkdir()

    def path(self, name: str) -> str:
        return str(self.folder / name)

    def ship(self, files: dict[str, bytes], folders: tuple[str, ...] = ()) -> dict[str, Any]:
        """By name; returns what the worker lacked."""
        listing = {self.path(name): digest(content) for name, content in files.items()}
        asked = delivery.lacking(listing, [self.path(name) for name in folders])
        wanted = {
            self.path(name): (0o640, content)
            for name, content in files.items()
            if self.path(name) in asked["wanted"]
        }
        asked["said"] = delivery.receive(wanted, asked["outdated"])["unlike"]
        return asked


@pytest.fixture
def worker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Worker:
    monkeypatch.setattr(delivery, "RECORD", str(tmp_path / "shipped-{}"))
    return Worker(tmp_path / "there")


def record(tmp_path: Path) -> Path:
    return tmp_path / f"shipped-{os.getuid()}"


class TestDelivery:
    def test_what_is_missing_is_put_there_once(self, worker: Worker) -> None:
        files = {"one": b"1", "deep/er/two": b"2"}
        assert sorted(worker.ship(files)["wanted"]) == sorted(map(worker.path, files))
        assert (worker.folder / "deep/er/two").read_bytes() == b"2"
        assert (worker.folder / "one").stat().st_mode & 0o777 == 0o640
        again = worker.ship(files)
        assert (again["wanted"], again["unlike"], again["said"]) == ([], [], [])
        assert sorted(one.name for one in worker.folder.iterdir()) == ["deep", "one"]

    def test_what_was_shipped_is_replaced(self, worker: Worker) -> None:
        for content in (b"1", b"another", b"1"):
            assert worker.ship({"one": content})["wanted"] == [worker.path("one")]
            assert (worker.folder / "one").read_bytes() == content

    def test_what_was_not_shipped_stays(self, worker: Worker) -> None:
        own = worker.folder / "own"
        own.write_bytes(b"the worker's")
        asked = worker.ship({"own": b"ours"})
        assert asked["unlike"] == [f"{own} is another one, and was not shipped there"]
        assert asked["wanted"] == [] and own.read_bytes() == b"the worker's"

    def test_what_was_changed_since_stays(self, worker: Worker) -> None:
        worker.ship({"one": b"1"})
        (worker.folder / "one").write_bytes(b"mended by hand")
        assert worker.ship({"one": b"2"})["unlike"] != []
        assert (worker.folder / "one").read_bytes() == b"mended by hand"

    def test_a_folder_in_the_way_stays(self, worker: Worker) -> None:
        (worker.folder / "one").mkdir()
        assert worker.ship({"one": b"1"})["unlike"] != []
        assert (worker.folder / "one").is_dir()

    def test_modules_that_are_no_more_are_removed(self, worker: Worker) -> None:
        """The package's fingerprint is that of all modules below it."""
        worker.ship({"package/old.py": b"1", "package/kept.py": b"2", "other/old.py": b"3"})
        (worker.folder / "package" / "own.py").write_bytes(b"the worker's")
        asked = worker.ship({"package/kept.py": b"2"}, folders=("package",))
        assert asked["outdated"] == [worker.path("package/old.py")] and asked["said"] == []
        left = sorted(str(one.relative_to(worker.folder)) for one in worker.folder.rglob("*.py"))
        assert left == ["other/old.py", "package/kept.py", "package/own.py"]

    def test_links_to_the_system_stay_links(self, worker: Worker) -> None:
        path = worker.path("tool")
        assert delivery.receive({path: (0, b"/usr/bin/true")}, [])["unlike"] == []
        assert os.readlink(path) == "/usr/bin/true"
        asked = delivery.lacking({path: "link to /usr/bin/false"}, [])
        assert (asked["wanted"], asked["unlike"]) == ([path], [])

    def test_a_link_within_the_tree_is_the_file(self, worker: Worker) -> None:
        (worker.folder / "lib.so.0").write_bytes(b"1")
        (worker.folder / "lib.so").symlink_to("lib.so.0")
        assert worker.ship({"lib.so": b"1"})["wanted"] == []

    def test_a_line_cut_short_counts_for_nothing(self, worker: Worker, tmp_path: Path) -> None:
        worker.ship({"one": b"1", "two": b"2"})
        first, second, _ = record(tmp_path).read_text().split("\n")
        record(tmp_path).write_text(f"{first}\n{second[:20]}")
        asked = worker.ship({"one": b"3", "two": b"4"})
        assert asked["wanted"] == [worker.path("one")]
        assert asked["unlike"] == [
            f"{worker.path('two')} is another one, and was not shipped there"
        ]

    def test_a_record_that_is_a_link_is_refused(self, worker: Worker, tmp_path: Path) -> None:
        """Who may write to it could have any known file replaced."""
        (tmp_path / "elsewhere").touch()
        record(tmp_path).symlink_to(tmp_path / "elsewhere")
        (said,) = worker.ship({"one": b"1"})["said"]
        assert said.startswith(f"{record(tmp_path)} cannot be put there: ")
        assert not (worker.folder / "one").exists()

    def test_another_users_record_is_refused(self, worker: Worker, tmp_path: Path) -> None:
        if os.geteuid() != 0:
            pytest.skip("needs root")
        record(tmp_path).touch()
        os.chown(record(tmp_path), 1234, 1234)
        (said,) = worker.ship({"one": b"1"})["said"]
        assert "is another user's" in said

    def test_what_cannot_be_put_there_is_named(self, worker: Worker) -> None:
        (worker.folder / "file").touch()
        (said,) = worker.ship({"file/one": b"1"})["said"]
        assert said == f"{worker.path('file/one')} cannot be put there: File exists"


class TestShipment:
    def test_the_command_and_the_native_parts_are_shipped(self) -> None:
        names = {str(file) for file in own_files()}
        for name in ("allotrope-launch", "allotrope-describe", "allotrope-simulate"):
            assert str(BUILD / name) in names
        assert str(BUILD / ".libs" / "liballotrope.so") in names
        assert str(SOURCE / "analysis/allotrope/output/page.html.j2") in names
        assert str(SOURCE / "analysis/allotrope/features/cluster/worker.py") in names
        assert not any("__pycache__" in name or name.endswith(".o") for name in names)

    def test_files_that_words_name(self, tmp_path: Path) -> None:
        (tmp_path / "a file").touch()
        (tmp_path / "one").touch()
        (tmp_path / "two").touch()
        texts = [
            str(tmp_path / "a file"),
            f'sort "{tmp_path}/one";cat <{tmp_path}/two|wc',
            f"--output={tmp_path}/one",
            f"/usr/bin/sort /etc/passwd {tmp_path}/gone {tmp_path}",
            f"$HOME{tmp_path}/one ../..{tmp_path}/one",
        ]
        named = [str(path.relative_to(tmp_path)) for path in named_files(texts)]
        assert named == ["a file", "one", "two", "one"]

    def test_messages_are_of_bounded_size(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """All files arrive, and what is outdated is removed with the first message."""
        monkeypatch.setattr(shipment, "MESSAGE_BYTES", 10)
        for number, size in enumerate((4, 6, 1, 30, 2)):
            (tmp_path / str(number)).write_bytes(b"x" * size)
        messages: list[tuple[list[str], list[str]]] = []

        def run(question: Callable[..., Any], first: Any, second: Any, **_: Any) -> dict[str, Any]:
            answer: dict[str, Any] = {"host": "h", "unlike": []}
            if question is delivery.lacking:
                answer |= {"wanted": sorted(first), "outdated": ["old"]}
            else:
                messages.append(([Path(path).name for path in first], list(second)))
            return {"tcp://w:1": answer}

        client = SimpleNamespace(run=run, scheduler_info=lambda: {"workers": {"tcp://w:1": {}}})
        monkeypatch.setattr("allotrope.features.cluster.connection.other_versions", lambda _: [])
        monkeypatch.setattr(
            "allotrope.features.cluster.connection.dask",
            lambda: SimpleNamespace(comm=SimpleNamespace(CommClosedError=RuntimeError)),
        )
        told: list[str] = []
        Shipment(tmp_path.iterdir()).deliver(client, ["tcp://w:1"], told.append)
        assert messages == [(["0", "1"], ["old"]), (["2"], []), (["3"], []), (["4"], [])]
        assert told == ["shipped to worker tcp://w:1 on h: 5 files, 43 B"]

    def test_a_file_that_is_not_there_is_named(self, tmp_path: Path) -> None:
        with pytest.raises(UserError, match=f"--ship: {tmp_path}/gone is not there"):
            Shipment([tmp_path / "gone"])

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
    """A worker that has none of these folders, and a /var/tmp of its own."""

    def __init__(self, cluster: Cluster, hidden: list[Path]) -> None:  # noqa: F811
        script = 'n=$1; shift; while [ $n -gt 0 ]; do if [ -d "$1" ]; then '
        script += 'mount -t tmpfs tmpfs "$1" || exit 1; fi; shift; n=$((n-1)); done; exec "$@"'
        folders = [str(one) for one in (Path("/var/tmp"), *hidden)]
        before = ["unshare", "--mount", "sh", "-c", script, "sh", str(len(folders)), *folders]
        cluster.start_worker(*before)
        self.process = cluster.workers[-1]

    def path(self, here: Path) -> Path:
        """Where the worker's own file is seen from outside."""
        return Path(f"/proc/{self.process.pid}/root{here}")


@pytest.fixture
def bare(cluster: Cluster, tmp_path: Path) -> Iterator[Bare]:  # noqa: F811
    """It has neither the tree nor what the tests ship."""
    trial = ["unshare", "--mount", "mount", "-t", "tmpfs", "tmpfs", "/mnt"]
    if subprocess.run(trial, capture_output=True, check=False).returncode != 0:
        pytest.skip("needs the right to a mount namespace")
    (tmp_path / "shipped").mkdir()
    yield Bare(cluster, [SOURCE, BUILD, tmp_path / "shipped"])


@needs_dask
class TestBareWorkers:
    def test_a_suite(
        self,
        real: Command,
        cluster: Cluster,  # noqa: F811
        bare: Bare,
        tmp_path: Path,
    ) -> None:
        """The figures are those of one machine. A second time nothing is sent, and what was changed
        here is sent anew; what was changed there is refused."""
        there = tmp_path / "shipped"
        suite, counter = there / "suite.toml", there / "more" / "count.awk"
        suite.write_text(SUITE)
        (there / "words").write_text("".join(f"word{n}\n" for n in range(3000)))
        counter.parent.mkdir()
        counter.write_text("{ a[NR] = $0 } END { print NR }\n")
        alone = tmp_path / "alone"
        alone.mkdir()
        assert real.run(*words(suite, alone)).returncode == 0
        ship = [*on(cluster.address), "--ship"]
        without = real.run(*words(suite, tmp_path, *ship[:-1]))
        assert without.returncode == 2 and " is missing" in without.stderr
        done = real.run(*words(suite, tmp_path, *ship))
        assert done.returncode == 0, done.stderr
        assert f" on {socket.gethostname()}: " in done.stderr
        assert done.stderr.count("shipped to worker") == 1
        assert deterministic(read(tmp_path)) == deterministic(read(alone))
        assert bare.path(counter).read_text() == counter.read_text()
        again = real.run(*words(suite, tmp_path, *ship))
        assert again.returncode == 0 and "shipped to worker" not in again.stderr
        counter.write_text("{ a[NR] = $0 $0 } END { print NR }\n")
        changed = real.run(*words(suite, tmp_path, *ship))
        assert changed.returncode == 0, changed.stderr
        assert "shipped to worker" in changed.stderr and ": 1 file, " in changed.stderr
        assert bare.path(counter).read_text() == counter.read_text()
        bare.path(counter).write_text("{}\n")
        refused = real.run(*words(suite, tmp_path, *ship))
        assert refused.returncode == 2
        assert f"{counter} is another one, and was not shipped there" in refused.stderr

    def test_what_no_word_names_is_shipped_when_asked(
        self,
        real: Command,
        cluster: Cluster,  # noqa: F811
        bare: Bare,
        tmp_path: Path,
    ) -> None:
        there = tmp_path / "shipped"
        suite, data = there / "suite.toml", there / "data"
        suite.write_text('[[program]]\nname = "all"\ncommand = "cat $SUITE/data/*"\n')
        data.mkdir()
        for name in ("one", "two"):
            (data / name).write_text(name)
        done = real.run(*words(suite, tmp_path, *on(cluster.address), "--ship-with", str(data)))
        assert done.returncode == 0, done.stderr
        assert {one["status"] for one in read(tmp_path)["programs"]} == {"measured"}
        assert bare.path(data / "two").read_text() == "two"

    def test_an_allocators_library(
        self,
        real: Command,
        cluster: Cluster,  # noqa: F811
        bare: Bare,
        tmp_path: Path,
    ) -> None:
        """One that is named by its path."""
        there = tmp_path / "shipped"
        suite, library = there / "suite.toml", there / "mine.so"
        suite.write_text('[[program]]\nname = "true"\ncommand = ["true"]\n')
        shutil.copy(BUILD / ".libs" / "liballotrope-bsd.so", library)
        given = ["compare", "--suite", str(suite), "--rounds", "1", "-a", "glibc"]
        given += ["-a", str(library), "--json", str(tmp_path / "json")]
        done = real.run(*given, "--state", str(tmp_path / "state"), *on(cluster.address), "--ship")
        assert done.returncode == 0, done.stderr
        assert bare.path(library).read_bytes() == library.read_bytes()

    def test_the_simulator(
        self,
        real: Command,
        threaded_trace: Path,
        cluster: Cluster,  # noqa: F811
        bare: Bare,
    ) -> None:
        given = simulate_words("pages", threaded_trace)
        there = ["--cluster", cluster.address]
        without = real.run(*given, *there)
        assert without.returncode == 2 and "allotrope-simulate is missing" in without.stderr
        shipped = real.run(*given, *there, "--ship")
        assert (shipped.returncode, shipped.stderr) == (0, "")
        assert shipped.stdout == real.run(*given).stdout
        assert not bare.path(BUILD / "allotrope-launch").exists()

    def test_a_study(
        self,
        real: Command,
        cluster: Cluster,  # noqa: F811
        bare: Bare,
        tmp_path: Path,
    ) -> None:
        """Programs and sources are in the trees, which are the client's alone."""
        given = ["study", "barriers", "--quick", "--rounds", "1", "--only", "interactive"]
        out = tmp_path / "out"
        done = real.run(*given, "--out", str(out), *on(cluster.address), "--ship", timeout=600)
        assert "shipped to worker" in done.stderr, done.stderr
        assert "interactive was measured on " in done.stderr, done.stderr
        rounds = list((out / "steps" / "round").glob("interactive*"))
        assert len(rounds) == 1
        assert "failure" not in json.loads(rounds[0].read_text())["result"]
        assert bare.path(BUILD / "allotrope-vm").exists()
