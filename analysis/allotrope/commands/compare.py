# SPDX-License-Identifier: MIT
"""`allotrope compare`: a command, or the programs of a suite, under several allocators."""

from __future__ import annotations

import signal
import sys
from typing import TYPE_CHECKING, Any, Sequence

import click

from ..features.compare import output as compare_output
from ..features.compare.comparison import MOST_ROUNDS, Comparison, Plan
from ..features.compare.contenders import BASELINE, choose_measured
from ..features.compare.findings import Document
from ..features.compare.gate import (
    Condition,
    check_gate,
    check_looks,
    gate_status,
    judge,
    parse_condition,
)
from ..features.compare.measure import check_plan, compare
from ..features.compare.page import as_html, compare_page
from ..features.compare.recommendation import recommend
from ..features.compare.servers import load_rows
from ..features.compare.witness import call_witnesses, witness_lines, witness_rows
from ..features.latency.output import latency_rows, latency_words
from ..features.server.plan import ServerPlan
from ..features.suite.gate import print_judged
from ..features.suite.scan import read_varied
from ..output.files import Files, Outputs
from ..output.terminal import print_in_parts, print_line, print_table, print_wrapped, say, terminal
from ..statistics.intervals import (
    JUDGED_ROUNDS,
    LEAST_JUDGED_ROUNDS,
    MOST_CHOSEN_ROUNDS,
    ROUNDS_SECONDS,
)
from ..statistics.verdicts import THRESHOLD
from ..system.errors import UserError
from ..system.machine import need_proc
from .cluster_options import ClusterChoice, cluster_options
from .compare_again import show_again
from .compare_suite import Scanned, compare_suite, compare_varied, suite_run
from .server_options import SECONDS, refuse_what_is_for_commands, server_options
from .words import (
    Percent,
    allocators_option,
    given_options,
    need_command,
    need_readable,
    output_options,
    takes_command,
)

if TYPE_CHECKING:
    from rich.console import Console

# For --html, --json, --csv and --markdown of a suite, too.
WRITTEN = {
    "--json": "write everything as JSON (- is stdout)",
    "--html": "write a page with pictures",
    "--csv": "write the summaries as CSV",
    "--markdown": "write the table as Markdown",
    "--hyperfine-json": "write wall times as hyperfine --export-json does",
}


@takes_command("compare")
@allocators_option(
    "compare this one, of `allotrope list`, or ./libmine.so; repeatable (default: glibc, each of "
    "ours in its default preset, and the installed peers)"
)
@click.option(
    "--baseline",
    metavar="ALLOCATOR",
    default=BASELINE,
    show_default=True,
    help="what ratios are to; of builds the first one under it (default there: the first -a)",
)
@click.option(
    "--rounds",
    type=click.IntRange(min=1),
    help=f"how often each allocator is timed; an interval needs {LEAST_JUDGED_ROUNDS} (default: "
    f"{JUDGED_ROUNDS}; of a short command as many as {ROUNDS_SECONDS:g} s hold, up to "
    f"{MOST_CHOSEN_ROUNDS})",
)
@click.option(
    "--until",
    type=Percent(),
    metavar="PERCENT",
    help="go on until each interval of CPU is at most so wide on either side of its median",
)
@click.option(
    "--most-rounds",
    type=click.IntRange(min=1),
    default=MOST_ROUNDS,
    show_default=True,
    help="with --until, the end in any case",
)
@click.option(
    "--duet",
    is_flag=True,
    help="run all of a round at the same time on one processor: where neighbours share the "
    "machine, ratios of CPU vary several times less; wall time is then not measured, and CMD "
    "must bear to run several times at once",
)
@click.option(
    "--threshold",
    type=Percent(),
    metavar="PERCENT",
    default="2%",
    show_default=True,
    help="smaller differences are called the same",
)
@click.option(
    "--warmup",
    type=click.IntRange(min=0),
    default=1,
    show_default=True,
    help="untimed runs of each allocator beforehand",
)
@click.option("--prepare", metavar="CMD", help="a shell command before every run")
@click.option("--shell", metavar="STRING", help="compare what sh makes of this, instead of CMD")
@click.option(
    "--vary",
    multiple=True,
    metavar="NAME=VALUE,...",
    help="compare CMD, its builds or a server for each value, which stands for {NAME} in it; "
    "repeatable: each combination",
)
@click.option("--input", metavar="FILE", help="CMD's standard input (default: nothing)")
@click.option(
    "--timeout",
    type=SECONDS,
    metavar="SECONDS",
    help="stop a run that takes longer; it has then failed",
)
@click.option(
    "--ignore-failure",
    is_flag=True,
    help="accept that CMD fails, as long as it fails alike under every allocator",
)
@click.option(
    "--check",
    metavar="none|stdout|CMD",
    default="stdout",
    show_default=True,
    help="how output is judged: not at all, by being the same as under glibc, or by "
    "the status of a shell command that reads it",
)
@click.option(
    "--build",
    "builds",
    metavar="NAME=PROGRAM",
    multiple=True,
    help="compare builds of a program: {build} in CMD or --server is PROGRAM; two or more, the "
    "first is the baseline (under glibc, or under each -a)",
)
@click.option(
    "--fail-if",
    "conditions",
    metavar="CONDITION",
    multiple=True,
    help="end with status 3 when a figure's whole interval meets it: 'blocks.cpu > 1.05' (ratio "
    "to the baseline), 'any.memory > 5%', 'blocks.rss > 90MiB'; repeatable",
)
@server_options
@output_options(WRITTEN, "FILE")
@click.option(
    "--witness", is_flag=True, help="afterwards ask hyperfine and perf about the same commands"
)
@click.option(
    "--latency",
    is_flag=True,
    help="afterwards run each allocator once more and time every call of malloc and free",
)
@click.option("--suite", "suite_file", metavar="FILE", help="compare the programs in a TOML file")
@click.option("--only", multiple=True, metavar="NAME", help="of the suite, this one; repeatable")
@click.option(
    "--state",
    "state_file",
    metavar="FILE",
    help="where a suite keeps how far it has come (default: SUITE.state here)",
)
@click.option("--resume", is_flag=True, help="continue a suite that was interrupted")
@cluster_options
@click.option(
    "--from",
    "source",
    metavar="FILE",
    help="measure nothing: with --html write the page of what --json wrote, of a suite or not; "
    "with --fail-if judge it; with --against compare it",
)
@click.option(
    "--against",
    metavar="FILE",
    help="with --from: how that differs from this earlier comparison, suite or scan, which --json "
    "wrote; --json, --html, --csv and --markdown write the difference",
)
@click.pass_context
def compare_allocators(
    context: click.Context,
    specs: tuple[str, ...],
    baseline: str,
    command: tuple[str, ...],
    files: Files,
    witness: bool,
    shell: str | None,
    vary: tuple[str, ...],
    server: ServerPlan | None,
    suite_file: str | None,
    only: tuple[str, ...],
    state_file: str | None,
    resume: bool,
    cluster: ClusterChoice | None,
    source: str | None,
    against: str | None,
    builds: tuple[str, ...],
    conditions: tuple[str, ...],
    **settings: Any,
) -> int:
    """Run CMD, a server under a load, or the programs of a suite, under several allocators and show
    them side by side.

    \b
    allotrope compare -- ./program input
    allotrope compare -a glibc -a jemalloc -a blocks --html page.html -- make -j4
    allotrope compare --duet --until 2% -a glibc -a mimalloc -- ./program
    allotrope compare --shell './program <input | sort'
    allotrope compare --vary size=1,10,100 -- ./program --size {size}
    allotrope compare --build old=./old/prog --build new=./prog -- {build} data
    allotrope compare -a blocks --fail-if "blocks.cpu > 1.05" -- ./prog data
    allotrope compare --suite programs.toml --json new.json
    allotrope compare --from new.json --against old.json --fail-if "any.cpu > 5%"
    allotrope compare -a glibc -a jemalloc --server "memcached -p {port}" \\
      --load "allotrope-load --port {port} --protocol memcached 'get k{key}\\r\\n'"
    """
    gate = [parse_condition(text) for text in conditions]
    if source is not None:
        return show_again(context, source, against, gate, files)
    refuse_what_does_not_fit(context, suite_file is not None, command)
    if suite_file is not None:
        run = suite_run(suite_file, state_file, only, specs, baseline, settings, cluster)
        return compare_suite(run, resume, files, gate, cluster)
    if shell is not None:
        command = ("/bin/sh", "-c", shell)
    if server is not None:
        need_proc("compare --server")
        settings["check"], command = "none", tuple(server.command())
    need_command(command, "compare [-a ALLOCATOR]...")
    named = baseline if "baseline" in given_options(context) else None
    contenders, place = choose_measured(specs, named, builds, command)
    if vary:
        scanned = Scanned(command, read_varied(vary), contenders, place, server)
        return compare_varied(scanned, settings, files, gate)
    need_readable("--input", settings["input"])
    plan = Plan(command, contenders, place, server=server, **settings)
    rounds = last_rounds(gate, plan)
    check_gate(gate, plan.allocators, plan.baseline, rounds, server is not None, plan.duet)
    return compare_command(plan, witness, files, gate)


def last_rounds(gate: Sequence[Condition], plan: Plan) -> int:
    """How many there are in the end, as far as it is known before a run; of a short command more.
    Raises UserError where they decide nothing."""
    first = plan.rounds or JUDGED_ROUNDS
    return first if plan.until is None else check_looks(gate, first, plan.most_rounds)


def compare_command(plan: Plan, witness: bool, files: Files, gate: Sequence[Condition] = ()) -> int:
    """Measures, writes the result and shows it: on standard error when standard output is taken."""
    check_plan(plan)
    outputs = Outputs(files, [plan.input])
    comparison = compare_with_progress(plan)
    if witness and comparison.incomplete is None:
        ask_witnesses(comparison)
    document = compare_output.as_document(comparison)
    outputs.write(
        {
            "--json": lambda: compare_output.as_json(document),
            "--html": lambda: as_html(compare_page(document)),
            "--csv": lambda: compare_output.as_csv(comparison),
            "--markdown": lambda: compare_output.as_markdown(comparison, recommend(document)),
            "--hyperfine-json": lambda: compare_output.as_hyperfine_json(comparison),
        },
        lambda: show_results(terminal(stderr=outputs.takes_stdout), comparison, document, gate),
    )
    if comparison.interrupted:
        return 128 + signal.SIGINT
    return gate_status(judge(gate, document)) or exit_status(comparison)


def ask_witnesses(comparison: Comparison) -> None:
    """An interruption keeps what was measured before."""
    try:
        comparison.witness = call_witnesses(comparison)
    except KeyboardInterrupt:
        comparison.interrupted = True
        comparison.incomplete = "interrupted while hyperfine and perf were asked"


WITHOUT_SUITE = ("only", "state_file", "resume", "cluster")
# Options of one command, and why they do not go with several: programs, or values of --vary.
TAKES_TURNS = "all take turns and have as many rounds; give --rounds"
FOR_ONE_COMMAND = {
    "until": TAKES_TURNS,
    "most_rounds": TAKES_TURNS,
    "duet": "it shares a processor among the runs of one command; compare that alone",
    "threshold": f"several are judged by {THRESHOLD:.0%}; compare one command alone",
    "latency": "it is of one command; compare that alone",
    "witness": "hyperfine and perf are asked about one command; compare that alone",
    "hyperfine_json_file": "hyperfine's form is of one command; write --json, or compare one alone",
}
ON_THE_WALL = ("hyperfine_json_file", "witness")
WITH_COMMAND = (
    FOR_ONE_COMMAND
    | dict.fromkeys(
        ("prepare", "input", "check", "ignore_failure", "shell", "vary"),
        "the suite's file says it for each program",
    )
    | {
        "builds": "a suite's programs are what its file says; give the command, with --vary if it "
        "is to have several arguments"
    }
)


def refuse_what_does_not_fit(context: click.Context, suite: bool, command: Sequence[str]) -> None:
    """Options that would be ignored are refused."""
    if context.params["against"] is not None:
        raise UserError("--against needs --from FILE, the later comparison")
    if context.params["server"] is not None:
        refuse_what_is_for_commands(given_options(context))
    shell = context.params["shell"]
    if shell is not None and command:
        raise UserError(f"--shell brings its own command; leave out '{command[0]}'")
    if shell is not None and not shell.strip():
        raise UserError("--shell is empty; give the command that sh is to run")
    if suite and command:
        raise UserError(f"--suite brings its own commands; leave out '{command[0]}'")
    for name, written in given_options(context).items():
        if suite and name in WITH_COMMAND:
            raise UserError(f"{written} does not go with --suite; {WITH_COMMAND[name]}")
        if context.params["vary"] and name in FOR_ONE_COMMAND:
            raise UserError(f"{written} does not go with --vary; {FOR_ONE_COMMAND[name]}")
        if name == "most_rounds" and "until" not in given_options(context):
            raise UserError(f"{written} needs --until")
        if name in ON_THE_WALL and "duet" in given_options(context):
            raise UserError(
                f"{written} does not go with --duet, which measures no wall times; leave one out"
            )
        if not suite and name in WITHOUT_SUITE:
            raise UserError(f"{written} needs --suite")
    if {"rounds", "until"} <= given_options(context).keys():
        first, most = context.params["rounds"], context.params["most_rounds"]
        if first > most:
            raise UserError(
                f"--rounds {first} is more than --most-rounds {most}, the end of --until"
            )


def compare_with_progress(plan: Plan) -> Comparison:
    """Measures; on a terminal a line shows how far it is."""
    if not sys.stderr.isatty():
        return compare(plan)
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
    )
    # Refreshed between runs only: nothing of ours is to be busy during one.
    with Progress(
        *columns, console=terminal(stderr=True), transient=True, auto_refresh=False
    ) as progress:
        task = progress.add_task("", total=None)
        begun = 0

        def show(step: str, runs: int) -> None:
            nonlocal begun
            total = max(runs, begun + 1)
            progress.update(task, description=step, completed=begun, total=total, refresh=True)
            begun += 1

        return compare(plan, show)


def show_witness(console: Console, found: dict[str, Any]) -> None:
    rows = witness_rows(found)
    if rows[1:]:
        print_in_parts(console, rows, "Independent witnesses")
    for line in witness_lines(found):
        print_wrapped(console, line)


def show_latencies(console: Console, results: Sequence[dict[str, Any]]) -> None:
    rows = latency_rows(results)
    if rows[1:]:
        print_line(console, "How long calls took", "bold")
        print_table(console, rows, left=(0, 1), styles=[""] * len(rows[1:]))
    for line in latency_words(results):
        print_wrapped(console, line)


def show_results(
    console: Console, comparison: Comparison, document: Document, gate: Sequence[Condition] = ()
) -> None:
    """The table and what follows from it."""
    compare_output.print_comparison(console, comparison)
    print_line(console, "")
    rows = load_rows(comparison)
    if rows[1:]:
        print_line(console, "What the load said", "bold")
        print_table(console, rows, left=(0, 1, 4), styles=[""] * len(rows[1:]))
        print_line(console, "")
    say(console, recommend(document))
    if comparison.plan.latency:
        print_line(console, "")
        show_latencies(console, document["results"])
    if comparison.witness is not None:
        print_line(console, "")
        show_witness(console, comparison.witness)
    judgements = judge(gate, document)
    if judgements:
        print_line(console, "")
    print_judged(console, {"": judgements})


def exit_status(comparison: Comparison) -> int:
    """0: all ran alike; 1: an allocator failed, changed the output, did not serve the program, or
    rounds are missing."""
    statuses = {comparison.status(contender) for contender in comparison.contenders}
    wrong = statuses & compare_output.WRONG or comparison.incomplete is not None
    return 1 if wrong else 0
