# SPDX-License-Identifier: MIT
"""What every study is: an old paper's question, measured again.

A study is a package of data (paper.py: the cells that the paper prints), programs and a plan, and
rules; its study.py has a Study. What is the same for all is in this folder:

    frame.py          a study's life: begun or resumed, measured, drawn
    on_cluster.py     the same on the machines of a cluster; measured_by.py: which measured what
    store.py          each step's result in a file of its own: what makes a study resumable
    work.py           the steps one after the other
    documents.py      what was measured in one file, from which alone the page is drawn
    ranges.py         what a claim gives
    claims.py         claims, their parts, what becomes of them; explanations.py: why
    sheets.py         tables and figures, as records and as cells
    pictures.py, chart.py, report.py, study.html.j2      what a reader gets

`allotrope study` (commands/study.py) has the studies that there are.
"""

import datetime
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Callable, Mapping, Protocol, Sequence

from ..output.files import replace_file
from ..output.page import need_modules
from ..system.errors import UserError
from ..system.machine import machine_facts
from .measured_by import MACHINES
from .on_cluster import OnCluster, measure_on_cluster
from .report import PAGE, Report, write_report
from .store import Store
from .work import Announce, Work

FILE = "measurements.json"
MODULES = ("jinja2", "matplotlib", "scipy")  # of the page
# What makes a machine another one; its load does not.
MACHINE_KEYS = tuple(
    "cpu cpus memory_bytes kernel distribution libc transparent_huge_pages".split()
)


@dataclass(frozen=True)
class Asked:
    """What the command line says. What is not said (None, empty) is as the study was begun."""

    quick: bool = False
    rounds: int | None = None
    only: Sequence[str] = ()
    resume: bool = False
    report_only: bool = False
    more: Mapping[str, Any] = field(default_factory=dict)  # what only this study may be asked
    cluster: OnCluster | None = None  # who measures; None: this machine
    on_cluster: bool = False  # whether others measure it, or did


class Study(Protocol):
    @property
    def name(self) -> str:
        """The folder's, when none is named, and the schemas'."""
        ...

    def rounds(self, quick: bool) -> int:
        """How many, when nobody says so."""
        ...

    def begin(self, asked: Asked, announce: Announce) -> tuple[Mapping[str, Any], "Opener"]:
        """The question (`rounds` and `only` are settled), with what study.json keeps of it besides
        what question() says; and who opens the work. Raises UserError for what is missing."""
        ...

    def words(self, asked: Asked) -> list[str]:
        """The options by which only this study is asked."""
        ...

    def report_from(self, measurements: Path) -> Report:
        ...


class Opener(Protocol):
    def __call__(self, store: Store) -> Work[Any]:
        ...


def schema_of(study: Study) -> str:
    return f"allotrope.{study.name}/1"


def default_folder(study: Study, quick: bool) -> Path:
    return Path(f"{study.name}-quick" if quick else study.name)


def question(asked: Asked, more: Mapping[str, Any]) -> dict[str, Any]:
    """What a study is about: kept in its study.json."""
    of_this_machine = {}
    if not asked.on_cluster:
        facts = machine_facts()
        of_this_machine = {key: facts[key] for key in MACHINE_KEYS}
    now = datetime.datetime.now(datetime.timezone.utc)
    return {
        "begun": now.isoformat(timespec="seconds"),
        "quick": asked.quick,
        "rounds": asked.rounds,
        "only": list(asked.only),
        **more,
        "machine": of_this_machine,
        **({MACHINES: {}} if asked.on_cluster else {}),
    }


def measure(study: Study, folder: Path, asked: Asked, announce: Announce) -> Path:
    """The study in the folder; returns the file of what was measured."""
    store = Store(folder, schema_of(study))
    with store.held(asked.resume):
        settled = _settled(study, asked, store.begun() if asked.resume else {})
        need_modules("the study", *MODULES)
        more, opened = study.begin(settled, announce)
        changes = store.begin(question(settled, more), asked.resume)
        try:
            for change in changes:
                announce(change)
            work = _measured(study, lambda: opened(store), settled, announce)
            replace_file(folder / FILE, work.measurements())
        except KeyboardInterrupt:
            announce(f"allotrope: interrupted; --resume --out {folder} continues")
            raise
        except Exception:
            store.take_back()
            raise
    return folder / FILE


def _settled(study: Study, asked: Asked, was: Mapping[str, Any]) -> Asked:
    """What is not said on resuming is as it was."""
    on_cluster = MACHINES in was if was else asked.cluster is not None
    if not asked.report_only and on_cluster != (asked.cluster is not None):
        begun = "with" if on_cluster else "without"
        raise UserError(f"--resume: the study was begun {begun} --cluster; continue it {begun} it")
    return Asked(
        asked.quick,
        asked.rounds or was.get("rounds") or study.rounds(asked.quick),
        asked.only or tuple(was.get("only", ())),
        asked.resume,
        asked.report_only,
        {key: value or was.get(key) or value for key, value in asked.more.items()},
        asked.cluster,
        on_cluster,
    )


def _measured(
    study: Study, opened: Callable[[], Work[Any]], asked: Asked, announce: Announce
) -> Work[Any]:
    work = opened()
    if asked.report_only:
        work.gather()
    elif asked.cluster is not None:
        measure_on_cluster(work, _words(study, asked), asked.cluster, announce)
        work = opened()  # it knows now who has measured what
        work.gather(as_it_is=False)
    else:
        work.run()
    if reason := work.nothing():
        raise UserError(reason, 1)
    return work


def _words(study: Study, asked: Asked) -> list[str]:
    """By which another machine is asked the same, but for the programs and the page."""
    quick = ["--quick"] if asked.quick else []
    own = ["--measure-only", "--rounds", str(asked.rounds)]
    return ["study", study.name, *quick, *own, *study.words(asked)]


def draw(study: Study, measurements: Path, folder: Path) -> tuple[Report, Path]:
    """All that a reader gets, from what was measured alone; and the page."""
    report = study.report_from(measurements)
    return report, write_report(report, folder, schema_of(study))


def draw_again(study: Study, measurements: Path, folder: Path) -> tuple[Report, Path]:
    """Into a folder that may hold an older page, but not the page of another study."""
    need_modules("the study", *MODULES)
    its_own = measurements.resolve().parent == folder.resolve()
    if (folder / "study.json").exists() and not its_own:
        raise UserError(f"--out: {folder} holds another study; name another")
    if folder.exists() and (
        not folder.is_dir() or not (folder / PAGE).exists() and any(folder.iterdir())
    ):
        raise UserError(f"--out: {folder} holds something else; name another")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(
            f"--out: {folder} cannot be made ({error.strerror}); name another"
        ) from None
    return draw(study, measurements, folder)
