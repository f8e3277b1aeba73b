# SPDX-License-Identifier: MIT
"""`allotrope compare`: a command, or the programs of a suite, under several allocators."""

from __future__ import annotations

import signal
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Mapping, Sequence

import click

from ..features.cluster.suite import measure_on_cluster
from ..features.compare import output as compare_output
from ..features.compare.comparison import BUILD, MOST_ROUNDS, Comparison, Plan
from ..features.compare.difference import (
    Difference,
    change_of,
    compare_pair,
    difference_csv,
    difference_document,
    difference_lines,
    difference_markdown,
    difference_rows,
    difference_sentences,
    text_columns,
)
from ..features.compare.difference_page import difference_page
from ..features.compare.findings import Document
from ..features.compare.gate import STATUS as GATE_STATUS
from ..features.compare.gate import (
    ANY,
    Condition,
    Judgement,
    check_conditions,
    check_looks,
    check_quantities,
    gate_lines,
    judge,
    parse_condition,
)
from ..features.compare.measure import check_plan, compare
from ..features.compare.page import compare_page
from ..features.compare.recommendation import recommend
from ..features.compare.servers import load_rows
from ..features.compare.witness import call_witnesses, witness_lines, witness_rows
from ..features.latency.output import latency_rows, latency_words
from ..features.server.plan import ServerPlan, check_server_plan
from ..features.suite import output as suite_output
from ..features.suite.difference import change_tables, compare_suites
from ..features.suite.gate import judge_programs, suite_gate_lines
from ..features.suite.measure import (
    Settings,
    SuiteRun,
    choose_programs,
    measure_suite,
    read_suite,
)
from ..features.suite.page import suite_page
from ..features.suite.scan import Varied, check_names, read_varied, scan
from ..features.suite.tables import is_scan, legend, marks_legend, tables
from ..output.files import Files, Outputs, as_json, made_from, read_json
from ..output.page import Page, render
from ..output.terminal import print_in_parts, print_line, print_table, print_wrapped, say, terminal
from ..statistics.intervals import (
    JUDGED_ROUNDS,
    LEAST_JUDGED_ROUNDS,
    MOST_CHOSEN_ROUNDS,
    ROUNDS_SECONDS,
)
from ..statistics.verdicts import THRESHOLD
from ..system import allocators
from ..system.allocators import Allocator
from ..system.errors import UserError
from ..system.machine import need_proc
from ..system.scratch import scratch_folder
from .cluster_options import ClusterChoice, cluster_options
from .server_options import SECONDS, refuse_what_is_for_commands, server_options
from .words import (
    Percent,
    allocators_option,
    given_options,
    need_command,
    only_draws,
    output_options,
    takes_command,
)

if TYPE_CHECKING:
    from rich.console import Console


BASELINE = "glibc"
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
    _need_readable("--input", settings["input"])
    plan = Plan(command, contenders, place, server=server, **settings)
    rounds = last_rounds(gate, plan)
    _check_gate(gate, plan.allocators, plan.baseline, rounds, plan.server is not None)
    return compare_command(plan, witness, files, gate)


def last_rounds(gate: Sequence[Condition], plan: Plan) -> int:
    """How many there are in the end, as far as it is known before a run; of a short command more.
    Raises UserError where they decide nothing."""
    first = plan.rounds or JUDGED_ROUNDS
    return first if plan.until is None else check_looks(gate, first, plan.most_rounds)


def _check_gate(
    gate: Sequence[Condition],
    contenders: Sequence[Allocator],
    baseline: int,
    rounds: int,
    server: bool = False,
) -> None:
    chosen = [one.spec for one in contenders]
    check_conditions(gate, chosen, rounds)
    check_quantities(gate, chosen, chosen[baseline], server)


def show_again(
    context: click.Context,
    source: str,
    against: str | None,
    gate: Sequence[Condition],
    files: Files,
) -> int:
    """What the file of an earlier comparison says: its page, its difference, its gate."""
    if gate or against is not None:
        return judge_again(context, source, against, gate, files)
    only_draws(context, "html_file", "--html FILE")
    return draw_again(source, files["--html"])


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


def gate_status(judgements: Sequence[Judgement]) -> int:
    return GATE_STATUS if any(judgement.met for judgement in judgements) else 0


# What --against writes. A page alone is drawn without it, too.
DIFFERENCE_FILES = ("json_file", "html_file", "csv_file", "markdown_file")


def judge_again(
    context: click.Context,
    source: str,
    against: str | None,
    gate: Sequence[Condition],
    files: Files,
) -> int:
    """A document that --json wrote, and perhaps an earlier one, on the terminal."""
    fitting = {"source", "against", "conditions"}
    if against is not None:
        fitting.update(DIFFERENCE_FILES)
    for name, written in given_options(context).items():
        if name in DIFFERENCE_FILES and name not in fitting:
            raise UserError(f"{written} writes a difference, so beside --from it needs --against")
        if name not in fitting:
            raise UserError(f"--from judges what was measured before; leave out {written}")
    if against is not None:
        return show_difference(source, against, gate, files)
    document = read_json(source)
    kind = kind_of(source, document)
    with made_from(source):
        _check_gate_again(gate, document, document["rounds"])
        if kind != ONE_COMMAND:
            judged = judge_programs(gate, document)
        else:
            judged = {"": judge(gate, document)}
    _show_judged(terminal(), judged)
    return status_of_all(judged)


def show_difference(source: str, against: str, gate: Sequence[Condition], files: Files) -> int:
    outputs = Outputs(files, [source, against])
    after, before = read_json(source), read_json(against)
    kind = kind_of(source, after)
    other_kind = kind_of(against, before)
    if kind != other_kind:
        raise UserError(
            f"{source} is {kind} and {against} {other_kind}, which have nothing in common; give "
            "two of a kind, or measure one again as the other was"
        )
    with made_from(source, against):
        _check_gate_again(gate, after, min(before["rounds"], after["rounds"]))
        if kind == ONE_COMMAND:
            difference = compare_pair((against, before), (source, after))
            judged = {"": judge(gate, after, change_of(before, after))}
        else:
            difference = compare_suites((against, before), (source, after))
            judged = judge_programs(gate, after, before)
    outputs.write(
        {
            "--json": lambda: as_json(difference_document(difference, judged)),
            "--html": lambda: as_html(difference_page(difference)),
            "--csv": lambda: difference_csv(difference),
            "--markdown": lambda: difference_markdown(difference),
        },
        lambda: show_changes(terminal(stderr=outputs.takes_stdout), difference, judged),
    )
    return status_of_all(judged)


def show_changes(
    console: Console, difference: Difference, judged: Mapping[str, Sequence[Judgement]]
) -> None:
    """Of a suite with a dozen allocators, a row for each change would be hundreds."""
    if difference.part == "program":
        for title, rows in change_tables(difference):
            print_in_parts(console, rows, title)
        print_wrapped(console, marks_legend())
    else:
        rows = difference_rows(difference)
        left = text_columns(difference)
        if rows[1:]:
            print_table(console, rows, left=left, styles=[""] * len(rows[1:]))
    for line in difference_lines(difference):
        print_wrapped(console, line)
    say(console, difference_sentences(difference))
    _show_judged(console, judged)


def _check_gate_again(gate: Sequence[Condition], document: Document, rounds: int) -> None:
    """document: of one command or of several."""
    each = document.get("allocators") or document["results"]
    check_conditions(gate, [one["spec"] for one in each], rounds)


def _show_judged(console: Console, judged: Mapping[str, Sequence[Judgement]]) -> None:
    """By program; all under "" where there is one command."""
    lines = gate_lines(judged[""]) if "" in judged else suite_gate_lines(judged)
    for line in lines:
        print_wrapped(console, line)


ONE_COMMAND = "a comparison of one command or server"


def kind_of(file: str, document: Any) -> str:
    """What a document is of, in words. Raises UserError for what no compare has written."""
    schema = document.get("schema") if isinstance(document, dict) else None
    if schema == compare_output.SCHEMA:
        return ONE_COMMAND
    if schema == suite_output.SCHEMA:
        return "a scan (--vary)" if is_scan(document) else "a suite (--suite)"
    raise UserError(f"{file} is not what compare --json writes ({' or '.join(PAGES)})")


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
            _need_readable("--input", program.input)
            if program.server is not None:
                check_server_plan(program.server)
        return compare_suite(run, False, files, gate)


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
    _check_gate(gate, asked.allocators, asked.baseline, asked.rounds, has_server)
    outputs = Outputs(files, [str(run.suite.file)], {"--state": str(run.state)})
    whole = True
    if cluster is not None:
        document, whole = measure_on_cluster(
            run, cluster.address, resume, tell, cluster.noise, cluster.ship
        )
    else:
        measure_suite(run, resume, tell)
        document = suite_output.suite_document(run)
    judged = judge_programs(gate, document)
    outputs.write(
        {
            "--json": lambda: suite_output.as_json(document),
            "--html": lambda: as_html(suite_page(document)),
            "--csv": lambda: suite_output.as_csv(document),
            "--markdown": lambda: suite_output.as_markdown(document),
        },
        lambda: show_suite(terminal(stderr=outputs.takes_stdout), document, judged),
    )
    if run.interrupted:
        return 128 + signal.SIGINT
    if whole:
        run.state.unlink(missing_ok=True)
    return status_of_all(judged) or int(suite_output.went_wrong(document))


def tell(line: str) -> None:
    click.echo(line, err=True)


def status_of_all(judged: Mapping[str, Sequence[Judgement]]) -> int:
    return gate_status([one for judgements in judged.values() for one in judgements])


def show_suite(
    console: Console, document: Document, judged: Mapping[str, Sequence[Judgement]]
) -> None:
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
    _show_judged(console, judged)


PAGES = {compare_output.SCHEMA: compare_page, suite_output.SCHEMA: suite_page}


def draw_again(source: str, html_file: str | None) -> int:
    """The page of a document that --json wrote."""
    outputs = Outputs({"--html": html_file}, [source])
    document = read_json(source)
    kind_of(source, document)
    with made_from(source):
        page = PAGES[document["schema"]](document)
    outputs.write({"--html": lambda: as_html(page)})
    return 0


def choose_contenders(specs: tuple[str, ...], baseline: str) -> tuple[list[Allocator], int]:
    """The allocators to compare and the baseline's place among them. The baseline takes part
    even when no -a names it, and then comes first."""
    chosen = allocators.choose_each(specs) or allocators.default_choice()
    base = allocators.choose(baseline)
    for place, one in enumerate(chosen):
        if one.same_choice(base):
            return chosen, place
    return [base, *chosen], 0


def choose_measured(
    specs: tuple[str, ...], baseline: str | None, builds: Sequence[str], command: Sequence[str]
) -> tuple[list[Allocator], int]:
    """The allocators, or builds under them, to compare, and the baseline's place among them.
    baseline: None where none was named."""
    if builds:
        return choose_builds(builds, specs, baseline, command)
    return choose_contenders(specs, baseline or BASELINE)


def choose_builds(
    builds: Sequence[str], specs: tuple[str, ...], baseline: str | None, command: Sequence[str]
) -> tuple[list[Allocator], int]:
    """Each build under each allocator. The baseline is the first build under the allocator that is
    named as such, else under the first."""
    if not any(BUILD in word for word in command):
        raise UserError(f"--build: write {BUILD} in the command where the program's name stands")
    programs: dict[str, str] = {}
    for text in builds:
        name, equals, program = text.partition("=")
        if not (name and equals and program) or "/" in name:
            raise UserError(f"--build: '{text}' is not of the form NAME=PROGRAM")
        if name in programs:
            raise UserError(f"--build: '{name}' is given twice")
        if name == ANY:
            raise UserError(f"--build: '{name}' is every one of them; choose another name")
        programs[name] = program
    if len(programs) == 1:
        raise UserError("--build: one build alone compares with nothing; give two, old=… new=…")
    base = baseline or (specs[0] if specs else BASELINE)
    chosen, place = choose_contenders(specs or (base,), base)
    alone = len(chosen) == 1
    contenders = [
        allocator.with_build(name, program, alone)
        for name, program in programs.items()
        for allocator in chosen
    ]
    return contenders, place


def _need_readable(option: str, file: str | None) -> None:
    """Nothing was asked for where there is no file."""
    if file is None:
        return
    try:
        with open(file, "rb"):
            pass
    except OSError as error:
        raise UserError(f"{option}: cannot read {file}: {error.strerror}") from None


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


def as_html(page: Page) -> str:
    return render(page, allocators.own_version())


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
    _show_judged(console, {"": judgements})


def exit_status(comparison: Comparison) -> int:
    """0: all ran alike; 1: an allocator failed, changed the output, did not serve the program, or
    rounds are missing."""
    statuses = {comparison.status(contender) for contender in comparison.contenders}
    wrong = statuses & compare_output.WRONG or comparison.incomplete is not None
    return 1 if wrong else 0
