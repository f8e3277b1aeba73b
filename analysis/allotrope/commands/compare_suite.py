# SPDX-License-Identifier: MIT
"""`allotrope compare --suite` and `--vary`: the programs of a suite, or a command with the values
of a scan, measured one beside another, shown and written."""

from __future__ import annotations

import signal
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Mapping, Sequence

import click

from ..features.cluster.suite import measure_on_cluster
from ..features.compare.contenders import choose_contenders
from ..features.compare.findings import Document
from ..features.compare.gate import Condition, check_gate
from ..features.compare.page import as_html
from ..features.server.plan import ServerPlan, check_server_plan
from ..features.suite import output as suite_output
from ..features.suite.gate import judge_programs, print_judged, status_of_all
from ..features.suite.measure import (
    Settings,
    SuiteRun,
    choose_programs,
    measure_suite,
    read_suite,
)
from ..features.suite.page import suite_page
from ..features.suite.scan import Varied, check_names, scan
from ..features.suite.tables import legend, tables
from ..output.files import Files, Outputs
from ..output.terminal import print_in_parts, print_line, print_table, print_wrapped, say, terminal
from ..statistics.intervals import JUDGED_ROUNDS
from ..system.allocators import Allocator
from ..system.scratch import scratch_folder
from .cluster_options import ClusterChoice
from .words import need_readable

if TYPE_CHECKING:
    from rich.console import Console

# What a name in braces means already, with --server and with --build.
TAKEN_BY_SERVER = {"port": "the server's port", "dir": "the server's folder"}
TAKEN_BY_BUILD = {"build": "the build's program"}


@dataclass(frozen=True)
class Scanned:
    """What a parameter scan measures."""

    command: Sequence[str]
    varied: Varied
    contenders: Sequence[Allocator]
    baseline: int
    server: ServerPlan | None


def compare_varied(
    scanned: Scanned, settings: Mapping[str, Any], files: Files, gate: Sequence[Condition]
) -> int:
    """A parameter scan, which is shown and written as a suite."""
    is_of_builds = scanned.contenders[0].build is not None
    check_names(
        scanned.varied,
        (TAKEN_BY_SERVER if scanned.server else {}) | (TAKEN_BY_BUILD if is_of_builds else {}),
    )
    texts = {key: settings[key] for key in ("input", "prepare", "check")}
    given = {key: settings[key] for key in ("warmup", "timeout")}
    given["rounds"] = settings["rounds"] or JUDGED_ROUNDS
    with scratch_folder() as folder:
        run = scan(
            scanned.command,
            scanned.varied,
            texts,
            Settings(allocators=scanned.contenders, baseline=scanned.baseline, **given),
            folder,
            settings["ignore_failure"],
            scanned.server,
        )
        for program in run.suite.programs:
            need_readable("--input", program.input)
            if program.server is not None:
                check_server_plan(program.server)
        return compare_suite(run, False, files, gate)


def suite_run(
    file: str,
    state_file: str | None,
    only: Sequence[str],
    specs: tuple[str, ...],
    baseline: str,
    settings: dict[str, Any],
    cluster: ClusterChoice | None = None,
) -> SuiteRun:
    """The suite in a file, to be measured as the options say."""
    suite = choose_programs(read_suite(Path(file)), only)
    contenders, place = choose_contenders(specs, baseline)
    given = {key: settings[key] for key in ("warmup", "timeout")}
    given["rounds"] = settings["rounds"] or JUDGED_ROUNDS
    given["replicate"] = cluster.replicate if cluster else 1
    state = Path(state_file or f"{Path(file).stem}.state")
    return SuiteRun(suite, Settings(allocators=contenders, baseline=place, **given), state)


def compare_suite(
    run: SuiteRun,
    resume: bool,
    files: Files,
    gate: Sequence[Condition] = (),
    cluster: ClusterChoice | None = None,
) -> int:
    """Measures a suite, shows and writes the result, and forgets the state when it is whole."""
    asked, has_server = run.settings, any(one.server for one in run.suite.programs)
    check_gate(gate, asked.allocators, asked.baseline, asked.rounds, has_server)
    outputs = Outputs(files, [str(run.suite.file)], {"--state": str(run.state)})
    whole = True
    if cluster is not None:
        document, whole = measure_on_cluster(
            run, cluster.address, resume, tell, cluster.noise, cluster.ship
        )
    else:
        measure_suite(run, resume, tell)
        document = suite_output.suite_document(run)
    outputs.write(
        {
            "--json": lambda: suite_output.as_json(document),
            "--html": lambda: as_html(suite_page(document)),
            "--csv": lambda: suite_output.as_csv(document),
            "--markdown": lambda: suite_output.as_markdown(document),
        },
        lambda: show_suite(terminal(stderr=outputs.takes_stdout), document, gate),
    )
    if run.interrupted:
        return 128 + signal.SIGINT
    if whole:
        run.state.unlink(missing_ok=True)
    return status_of_all(judge_programs(gate, document)) or int(suite_output.went_wrong(document))


def tell(line: str) -> None:
    click.echo(line, err=True)


def show_suite(console: Console, document: Document, gate: Sequence[Condition]) -> None:
    for title, rows, left, by_row in tables(document):
        if by_row:
            print_line(console, title, "bold")
            print_table(console, rows, left=left, styles=[""] * len(rows[1:]))
            print_line(console, "")
        else:
            print_in_parts(console, rows, title)
    for line in legend(document):
        print_wrapped(console, line)
    say(console, suite_output.recommend_suite(document))
    print_judged(console, judge_programs(gate, document))
