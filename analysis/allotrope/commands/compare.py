# SPDX-License-Identifier: MIT
"""`allotrope compare`: a command, or the programs of a suite, under several allocators."""

import signal
import sys
from pathlib import Path
from typing import Any, Callable, Sequence

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from ..features.compare import output as compare_output
from ..features.compare.measure import Comparison, Plan, check_plan, compare, steps
from ..features.compare.page import compare_page
from ..features.compare.recommendation import Document, recommend
from ..features.compare.witness import call_witnesses, witness_lines, witness_rows
from ..features.latency.output import latency_rows, latency_words
from ..features.suite import output as suite_output
from ..features.suite.measure import (
    Settings,
    Suite,
    SuiteRun,
    choose_programs,
    measure_suite,
    read_suite,
)
from ..features.suite.page import suite_page
from ..output.files import need_writable, read_json, write_text
from ..output.page import Page, check_page_modules, render
from ..output.terminal import print_in_parts, print_line, print_table, print_wrapped, say, terminal
from ..statistics.intervals import LEAST_ROUNDS
from ..system import allocators
from ..system.allocators import Allocator
from ..system.errors import UserError
from .words import TAKES_COMMAND, Word, given_options, need_command, only_draws


@click.command("compare", cls=Word, context_settings=TAKES_COMMAND)
@click.option(
    "-a",
    "--allocator",
    "specs",
    multiple=True,
    metavar="ALLOCATOR",
    help="compare this one; repeatable (default: glibc, each of ours in its default "
    "preset, and the installed peers)",
)
@click.option(
    "--baseline", metavar="ALLOCATOR", default="glibc", show_default=True, help="what ratios are to"
)
@click.option(
    "--rounds",
    type=click.IntRange(min=1),
    default=11,
    show_default=True,
    help=f"how often each allocator is timed; an interval needs {LEAST_ROUNDS}",
)
@click.option(
    "--warmup",
    type=click.IntRange(min=0),
    default=1,
    show_default=True,
    help="untimed runs of each allocator beforehand",
)
@click.option("--prepare", metavar="CMD", help="a shell command before every run")
@click.option("--input", metavar="FILE", help="CMD's standard input (default: nothing)")
@click.option(
    "--timeout",
    type=click.FloatRange(min=0, min_open=True),
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
@click.option("--json", "json_file", metavar="FILE", help="write everything as JSON (- is stdout)")
@click.option("--html", "html_file", metavar="FILE", help="write a page with pictures")
@click.option("--csv", "csv_file", metavar="FILE", help="write the summaries as CSV")
@click.option("--markdown", "markdown_file", metavar="FILE", help="write the table as Markdown")
@click.option(
    "--hyperfine-json",
    "hyperfine_file",
    metavar="FILE",
    help="write wall times as hyperfine --export-json does",
)
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
@click.option(
    "--from",
    "source",
    metavar="FILE",
    help="with --html: measure nothing, write the page of what --json wrote, of a suite or not",
)
@click.argument("command", nargs=-1)
@click.pass_context
def compare_allocators(
    context: click.Context,
    specs: tuple[str, ...],
    baseline: str,
    command: tuple[str, ...],
    json_file: str | None,
    html_file: str | None,
    csv_file: str | None,
    markdown_file: str | None,
    hyperfine_file: str | None,
    witness: bool,
    suite_file: str | None,
    only: tuple[str, ...],
    state_file: str | None,
    resume: bool,
    source: str | None,
    **settings: Any,
) -> int:
    """Run CMD, or the programs of a suite, under several allocators and show them side by side."""
    if source is not None:
        only_draws(context, "html_file", "--html FILE")
        return draw_again(source, html_file or "-")
    refuse_what_does_not_fit(context, suite_file is not None, command)
    if suite_file is not None:
        question = read_question(suite_file, only, specs, baseline, settings)
        state = Path(state_file or f"{Path(suite_file).stem}.state")
        return compare_suite(
            SuiteRun(*question, state),
            resume,
            {"--json": json_file, "--html": html_file, "--csv": csv_file},
        )
    need_command(command, "compare [-a ALLOCATOR]...")
    if settings["input"] is not None:
        _need_readable("--input", settings["input"])
    contenders, baseline_index = choose_contenders(specs, baseline)
    plan = Plan(command=command, allocators=contenders, baseline=baseline_index, **settings)
    files = {
        "--json": json_file,
        "--html": html_file,
        "--csv": csv_file,
        "--markdown": markdown_file,
        "--hyperfine-json": hyperfine_file,
    }
    return compare_command(plan, witness, files)


# What each option writes.
WRITERS: dict[str, Callable[[Comparison, Document], str]] = {
    "--json": lambda _, document: compare_output.as_json(document),
    "--html": lambda _, document: as_html(compare_page(document)),
    "--csv": lambda comparison, _: compare_output.as_csv(comparison),
    "--markdown": lambda comparison, _: compare_output.as_markdown(comparison),
    "--hyperfine-json": lambda comparison, _: compare_output.as_hyperfine_json(comparison),
}


def compare_command(plan: Plan, witness: bool, files: dict[str, str | None]) -> int:
    """Measures, and shows and writes the result."""
    check_plan(plan)
    outputs = [(option, file) for option, file in files.items() if file is not None]
    need_writable(outputs, [plan.input])
    if files["--html"] is not None:
        check_page_modules()
    comparison = compare_with_progress(plan)
    if witness and comparison.incomplete is None:
        comparison.witness = call_witnesses(comparison)
    write_results(comparison, [(file, WRITERS[option]) for option, file in outputs])
    return exit_status(comparison)


WITHOUT_SUITE = ("only", "state_file", "resume")
# Options of one command, and what serves instead of them in a suite.
WITH_COMMAND = dict.fromkeys(
    ("prepare", "input", "check", "ignore_failure"), "the suite's file says it for each program"
) | dict.fromkeys(
    ("markdown_file", "hyperfine_file", "witness", "latency"),
    "it is for one command; name one instead",
)


def refuse_what_does_not_fit(context: click.Context, suite: bool, command: Sequence[str]) -> None:
    """Options that would be ignored are refused."""
    if suite and command:
        raise UserError(f"--suite brings its own commands; leave out '{command[0]}'")
    for name, written in given_options(context).items():
        if suite and name in WITH_COMMAND:
            raise UserError(f"{written} does not go with --suite; {WITH_COMMAND[name]}")
        if not suite and name in WITHOUT_SUITE:
            raise UserError(f"{written} needs --suite")


def read_question(
    file: str, only: Sequence[str], specs: tuple[str, ...], baseline: str, settings: dict[str, Any]
) -> tuple[Suite, Settings]:
    suite = choose_programs(read_suite(Path(file)), only)
    contenders, place = choose_contenders(specs, baseline)
    given = {key: settings[key] for key in ("rounds", "warmup", "timeout")}
    return suite, Settings(allocators=contenders, baseline=place, **given)


def compare_suite(run: SuiteRun, resume: bool, files: dict[str, str | None]) -> int:
    """Measures a suite, shows and writes the result, and forgets the state when it is whole."""
    outputs = {option: file for option, file in files.items() if file is not None}
    need_writable([*outputs.items(), ("--state", str(run.state))], [str(run.suite.file)])
    if "--html" in outputs:
        check_page_modules()
    measure_suite(run, resume, lambda line: click.echo(line, err=True))
    document = suite_output.suite_document(run)
    console = terminal(stderr="-" in outputs.values())
    writers = {
        "--json": suite_output.as_json,
        "--html": lambda one: as_html(suite_page(one)),
        "--csv": suite_output.as_csv,
    }
    written = {file: writers[option](document) for option, file in outputs.items()}
    write_files(written)
    for rows, title in (
        (suite_output.means_rows(document), "Geometric means of the ratios to the baseline"),
        (suite_output.program_rows(document, "cpu_seconds"), "CPU by program"),
        (suite_output.program_rows(document, "memory_bytes"), "Peak memory by program"),
    ):
        print_in_parts(console, rows, title)
    say(console, suite_output.recommend_suite(document))
    write_standard_output(written)
    if run.interrupted:
        return 128 + signal.SIGINT
    run.state.unlink(missing_ok=True)
    return 1 if suite_output.went_wrong(document) else 0


PAGES = {compare_output.SCHEMA: compare_page, suite_output.SCHEMA: suite_page}


def draw_again(source: str, html_file: str) -> int:
    """The page of a document that --json wrote."""
    need_writable([("--html", html_file)], [source])
    check_page_modules()
    document = read_json(source)
    schema = document.get("schema") if isinstance(document, dict) else None
    if schema not in PAGES:
        raise UserError(f"{source} is not what compare --json writes ({' or '.join(PAGES)})")
    try:
        page = PAGES[schema](document)
    except (AttributeError, LookupError, StopIteration, TypeError, ValueError) as error:
        raise UserError(f"{source} is damaged: {type(error).__name__} {error}") from None
    write_text(html_file, as_html(page))
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


def _need_readable(option: str, file: str) -> None:
    try:
        with open(file, "rb"):
            pass
    except OSError as error:
        raise UserError(f"{option}: cannot read {file}: {error.strerror}") from None


def compare_with_progress(plan: Plan) -> Comparison:
    """Measures; on a terminal a line shows how far it is."""

    if not sys.stderr.isatty():
        return compare(plan)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
    )
    # Refreshed between runs only: nothing of ours is to be busy during one.
    with Progress(
        *columns, console=terminal(stderr=True), transient=True, auto_refresh=False
    ) as progress:
        task = progress.add_task("", total=steps(plan))
        begun = 0

        def show(step: str) -> None:
            nonlocal begun
            progress.update(task, description=step, completed=begun, refresh=True)
            begun += 1

        return compare(plan, show)


def as_html(page: Page) -> str:
    catalogue = allocators.own_catalogue()
    return render(page, catalogue["version"] if catalogue else None)


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


def write_files(texts: dict[str, str]) -> None:
    """By file; before anything is shown, so that a full terminal or pipe costs no result."""
    for file, text in texts.items():
        if file == "-":
            continue
        try:
            Path(file).write_text(text, encoding="utf-8", errors="backslashreplace")
        except OSError as error:
            raise UserError(f"cannot write {file}: {error.strerror}") from None


def write_standard_output(texts: dict[str, str]) -> None:
    if "-" in texts:
        click.echo(texts["-"], nl=False)


def write_results(
    comparison: Comparison, outputs: list[tuple[str, Callable[[Comparison, Document], str]]]
) -> None:
    """The files, then the table and what follows from it: on standard error when standard output
    is taken."""
    document = compare_output.as_document(comparison)
    written = {file: write(comparison, document) for file, write in outputs}
    write_files(written)
    console = terminal(stderr="-" in written)
    compare_output.print_comparison(console, comparison)
    print_line(console, "")
    say(console, recommend(document))
    if comparison.plan.latency:
        print_line(console, "")
        show_latencies(console, document["results"])
    if comparison.witness is not None:
        print_line(console, "")
        show_witness(console, comparison.witness)
    write_standard_output(written)


def exit_status(comparison: Comparison) -> int:
    """0: all ran alike; 1: an allocator failed, changed the output, or rounds are missing; 130:
    interrupted."""
    if comparison.interrupted:
        return 128 + signal.SIGINT
    statuses = {comparison.status(contender) for contender in comparison.contenders}
    wrong = statuses & {"failed", "different-output"} or comparison.incomplete is not None
    return 1 if wrong else 0
