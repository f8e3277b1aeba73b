# SPDX-License-Identifier: MIT
"""The words of the command: run, list, compare, doctor."""

import errno
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any, Callable, NoReturn, Sequence

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from . import allocators, compare_output, doctor, record, suite_output, trace_commands
from .allocators import Allocator
from .compare import Comparison, Plan, check_plan, compare, steps
from .compare_page import compare_page
from .errors import UserError
from .executables import STATUS_CANNOT_EXECUTE, find_program, preload_obstacle
from .live import stats
from .locality import locality
from .page import Page, check_page_modules, render
from .recommendation import Document, Sentence, recommend
from .simulate import simulate
from .sites_command import sites
from .suite import Settings, Suite, SuiteRun, choose_programs, measure_suite, read_suite
from .suite_page import suite_page
from .witness import call_witnesses, witness_lines, witness_rows

PROGRAM = "allotrope"
TABLE_WIDTH = 100

# A command's own options are not ours: parsing ends where the command begins.
TAKES_COMMAND = {"allow_interspersed_args": False, "ignore_unknown_options": False}


def main() -> NoReturn:
    """Runs the command line; what the user can mend is one line on standard error."""
    try:
        status = cli.main(prog_name=PROGRAM, standalone_mode=False)
    except click.ClickException as error:
        click.echo(f"{PROGRAM}: {error.format_message()}", err=True)
        sys.exit(error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        sys.exit(128 + signal.SIGINT)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(128 + signal.SIGPIPE)
    sys.exit(status or 0)


def print_version(context: click.Context, _: click.Parameter, wanted: bool) -> None:
    """The native side's version is the project's."""
    if wanted:
        catalogue = allocators.own_catalogue()
        click.echo(f"{PROGRAM} {catalogue['version'] if catalogue else '(not built)'}")
        context.exit()


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--version", is_flag=True, is_eager=True, expose_value=False,
              callback=print_version, help="show the version and exit")  # fmt: skip
def cli() -> None:
    """Runs, compares and explains allocators under programs that exist already."""


cli.add_command(simulate)
cli.add_command(record.record)
cli.add_command(trace_commands.trace)
cli.add_command(locality)
cli.add_command(sites)
cli.add_command(stats)


class BareStats(click.Command):
    """A command whose --stats may stand alone, which means standard error. A value is given as
    --stats=FILE only, so that the word behind a bare --stats is never taken for one."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        words = list(args)
        place = 0
        while place < len(words) and words[place].startswith("-") and words[place] != "--":
            if words[place] == "--stats":
                words[place] = "--stats=-"
            place += 2 if words[place] in ("-a", "--allocator") else 1
        return super().parse_args(ctx, words)


def need_command(command: tuple[str, ...], usage: str) -> None:
    if not command:
        raise UserError(f"no command given; usage: {PROGRAM} {usage} -- CMD...")


@cli.command("run", cls=BareStats, context_settings=TAKES_COMMAND)
@click.option(
    "-a",
    "--allocator",
    "spec",
    required=True,
    metavar="ALLOCATOR",
    help="e.g. bsd, bsd:classic, jemalloc; see `allotrope list`",
)
@click.option(
    "--stats",
    metavar="[=FILE]",
    help="write statistics at exit, to standard error or FILE; %p in it is the pid, "
    ".json at its end asks for JSON",
)
@click.argument("command", nargs=-1)  # fmt: skip
def run_command(spec: str, stats: str | None, command: tuple[str, ...]) -> None:
    """Run CMD under an allocator; nothing else changes for it."""
    need_command(command, "run -a ALLOCATOR")
    chosen = allocators.choose(spec)
    if stats is not None and not chosen.ours:
        raise UserError(f"--stats: {spec} keeps no statistics; only allotrope's own allocators do")
    program = find_program(command[0])
    obstacle = preload_obstacle(program) if chosen.library is not None else None
    if obstacle is not None:
        raise UserError(f"{command[0]}: this program {obstacle}", STATUS_CANNOT_EXECUTE)
    environment = dict(os.environ) | chosen.environment()
    if stats is not None:
        environment["ALLOTROPE_STATS"] = stats
    try:
        os.execve(program, command, environment)
    except OSError as error:
        if error.errno == errno.ENOEXEC:  # a script without #!: as execvp and every shell do
            os.execve("/bin/sh", ["/bin/sh", str(program), *command[1:]], environment)
        reason = error.strerror.lower()
        raise UserError(f"{command[0]}: cannot execute: {reason}", STATUS_CANNOT_EXECUTE) from None


@cli.command("list")
@click.option("--json", "as_json", is_flag=True, help="write JSON (allotrope.list/1)")
def list_command(as_json: bool) -> None:
    """Show the allocators, their presets and options."""
    catalogue = allocators.own_catalogue()
    if as_json:
        click.echo(json.dumps(_listing(catalogue), indent=2))
        return
    console = terminal()
    missing = allocators.own_missing()
    if missing:
        console.print(missing, markup=False, highlight=False, soft_wrap=True)
    for own in catalogue["allocators"] if catalogue else ():
        _print_own(console, own)
    _print_row(console, "glibc", f"{allocators.libc_version()}, the C library's own")
    for peer in allocators.PEERS:
        version = f"{peer.version()}, " if peer.path() else ""
        state = "" if peer.path() else f" (not installed: Debian package {peer.package})"
        _print_row(console, peer.name, f"{version}{peer.title}{state}")


def _print_row(console: Console, name: str, text: str) -> None:
    console.print(f"{name:<12} {text}", markup=False, highlight=False, soft_wrap=True)


def _print_own(console: Console, own: dict[str, Any]) -> None:
    _print_row(console, own["name"], own["title"])
    for preset in own["presets"]:
        spec = own["name"] + ("" if preset["name"] == "default" else f":{preset['name']}")
        _print_row(console, "", f"  {spec:<16} {preset['title']}")
    for option in own["options"]:
        _print_row(console, "", f"  {option['key'] + '=' + _values(option):<24} {option['title']}")


def _values(option: dict[str, Any]) -> str:
    """The values that an option takes, as far as its kind tells."""
    if option.get("minimum") is not None and option.get("maximum") is not None:
        return f"{option['minimum']}..{option['maximum']}"
    if option.get("values"):
        return "|".join(map(str, option["values"]))
    return "|".join(option.get("keywords", [])) or str(option["kind"]).upper()


def _listing(catalogue: dict[str, Any] | None) -> dict[str, Any]:
    glibc = {"name": "glibc", "title": "the C library's own", "package": "libc6",
             "installed": True, "version": allocators.libc_version(), "path": None}  # fmt: skip
    peers = [
        {
            "name": peer.name,
            "title": peer.title,
            "package": peer.package,
            "installed": peer.path() is not None,
            "version": peer.version() if peer.path() else None,
            "path": str(peer.path()) if peer.path() else None,
        }
        for peer in allocators.PEERS
    ]
    return {
        "schema": "allotrope.list/1",
        "version": catalogue and catalogue["version"],
        "allocators": catalogue["allocators"] if catalogue else [],
        "peers": [glibc, *peers],
    }


@cli.command("compare", context_settings=TAKES_COMMAND)
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
    help="how often each allocator is timed; an interval needs 6",
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
@click.option("--suite", "suite_file", metavar="FILE", help="compare the programs in a TOML file")
@click.option("--only", multiple=True, metavar="NAME", help="of the suite, this one; repeatable")
@click.option(
    "--state",
    "state_file",
    metavar="FILE",
    help="where a suite keeps how far it has " "come (default: SUITE.state here)",
)
@click.option("--resume", is_flag=True, help="continue a suite that was interrupted")
@click.argument("command", nargs=-1)  # fmt: skip
@click.pass_context
def compare_command(
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
    **settings: Any,
) -> int:
    """Run CMD, or the programs of a suite, under several allocators and show them side by side."""
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
    check_plan(plan)
    writers: tuple[tuple[str, str | None, Callable[[Comparison, Document], str]], ...] = (
        ("--json", json_file, lambda _, document: compare_output.as_json(document)),
        ("--html", html_file, lambda _, document: as_html(compare_page(document))),
        ("--csv", csv_file, lambda comparison, _: compare_output.as_csv(comparison)),
        ("--markdown", markdown_file, lambda comparison, _: compare_output.as_markdown(comparison)),
        (
            "--hyperfine-json",
            hyperfine_file,
            lambda comparison, _: compare_output.as_hyperfine_json(comparison),
        ),
    )
    outputs = [(option, file, write) for option, file, write in writers if file is not None]
    _need_writable([(option, file) for option, file, _ in outputs])
    if html_file is not None:
        check_page_modules()
    comparison = compare_with_progress(plan)
    if witness and comparison.incomplete is None:
        comparison.witness = call_witnesses(comparison)
    write_results(comparison, [(file, write) for _, file, write in outputs])
    return exit_status(comparison)


WITHOUT_SUITE = ("only", "state_file", "resume")
# Options of one command, and what serves instead of them in a suite.
WITH_COMMAND = dict.fromkeys(
    ("prepare", "input", "check", "ignore_failure"), "the suite's file says it for each program"
) | dict.fromkeys(
    ("markdown_file", "hyperfine_file", "witness"), "it is for one command; name one instead"
)


def refuse_what_does_not_fit(context: click.Context, suite: bool, command: Sequence[str]) -> None:
    """Options that would be ignored are refused."""
    if suite and command:
        raise UserError(f"--suite brings its own commands; leave out '{command[0]}'")
    for parameter in context.command.params:
        given = context.get_parameter_source(parameter.name or "")
        if given is not click.core.ParameterSource.COMMANDLINE:
            continue
        if suite and parameter.name in WITH_COMMAND:
            instead = WITH_COMMAND[parameter.name]
            raise UserError(f"{parameter.opts[0]} does not go with --suite; {instead}")
        if not suite and parameter.name in WITHOUT_SUITE:
            raise UserError(f"{parameter.opts[0]} needs --suite")


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
    _need_writable([*outputs.items(), ("--state", str(run.state))])
    if "--html" in outputs:
        check_page_modules()
    end_like_interrupt()
    measure_suite(run, resume, lambda line: click.echo(line, err=True))
    document = suite_output.suite_document(run)
    console = terminal(stderr="-" in outputs.values())
    for rows, title in (
        (suite_output.means_rows(document), "Geometric means of the ratios to the baseline"),
        (suite_output.program_rows(document, "cpu_seconds"), "CPU by program"),
        (suite_output.program_rows(document, "memory_bytes"), "Peak memory by program"),
    ):
        console.print(suite_output.as_table(rows, title))
        console.print()
    say(console, suite_output.recommend_suite(document))
    writers = {
        "--json": suite_output.as_json,
        "--html": lambda one: as_html(suite_page(one)),
        "--csv": suite_output.as_csv,
    }
    for option, file in outputs.items():
        write_file(file, writers[option](document))
    if run.interrupted:
        return 128 + signal.SIGINT
    run.state.unlink(missing_ok=True)
    return 1 if suite_output.went_wrong(document) else 0


def choose_contenders(specs: tuple[str, ...], baseline: str) -> tuple[list[Allocator], int]:
    """The allocators to compare and the baseline's place among them. The baseline takes part
    even when no -a names it, and then comes first."""
    chosen = [allocators.choose(spec) for spec in specs] or allocators.default_choice()
    for place, one in enumerate(chosen):
        for other in chosen[:place]:
            if one.same_choice(other):
                raise UserError(f"-a {one.spec}: the same allocator as -a {other.spec}")
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


def _need_writable(outputs: list[tuple[str, str]]) -> None:
    """Finds out before hours of measuring, and makes no file yet."""
    seen: dict[str, str] = {}
    for option, file in outputs:
        place = file if file == "-" else os.path.realpath(file)
        if place in seen:
            raise UserError(f"{option}: {file} is already written by {seen[place]}")
        seen[place] = option
        folder = os.path.dirname(place) or "."
        if file == "-":
            continue
        if not os.path.isdir(folder):
            raise UserError(f"{option}: cannot write {file}: there is no folder {folder}")
        if os.path.isdir(place):
            raise UserError(f"{option}: cannot write {file}: it is a folder")
        if not os.access(place if os.path.exists(place) else folder, os.W_OK):
            raise UserError(f"{option}: cannot write {file}: permission denied")


def terminal(stderr: bool = False) -> Console:
    """A console that is 100 wide where there is no terminal to ask."""
    stream = sys.stderr if stderr else sys.stdout
    return Console(stderr=stderr, width=None if stream.isatty() else TABLE_WIDTH)


def end_like_interrupt() -> None:
    """From now on a TERM ends the measurement as Ctrl-C does."""

    def interrupt(*_: object) -> NoReturn:
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, interrupt)


def compare_with_progress(plan: Plan) -> Comparison:
    """Measures; on a terminal a line shows how far it is. A TERM ends it as Ctrl-C does."""

    end_like_interrupt()
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


def say(console: Console, sentences: Sequence[Sentence]) -> None:
    for sentence in sentences:
        console.print(str(sentence), markup=False, highlight=False)


def show_witness(console: Console, found: dict[str, Any]) -> None:
    rows = witness_rows(found)
    if rows[1:]:
        console.print(suite_output.as_table(rows, "Independent witnesses"))
    for line in witness_lines(found):
        console.print(line, markup=False, highlight=False)


def write_file(file: str, text: str) -> None:
    if file == "-":
        click.echo(text, nl=False)
        return
    try:
        Path(file).write_text(text, encoding="utf-8", errors="backslashreplace")
    except OSError as error:
        raise UserError(f"cannot write {file}: {error.strerror}") from None


def write_results(
    comparison: Comparison, outputs: list[tuple[str, Callable[[Comparison, Document], str]]]
) -> None:
    """The table and what follows from it, on standard error when standard output is taken, and
    the files."""
    document = compare_output.as_document(comparison)
    console = terminal(stderr=any(file == "-" for file, _ in outputs))
    console.print(compare_output.as_table(comparison))
    for line in compare_output.legend(comparison):
        console.print(line, markup=False, highlight=False)
    console.print()
    say(console, recommend(document))
    if comparison.witness is not None:
        console.print()
        show_witness(console, comparison.witness)
    for file, write in outputs:
        write_file(file, write(comparison, document))


def exit_status(comparison: Comparison) -> int:
    """0: all ran alike; 1: an allocator failed, changed the output, or rounds are missing; 130:
    interrupted."""
    if comparison.interrupted:
        return 128 + signal.SIGINT
    statuses = {comparison.status(contender) for contender in comparison.contenders}
    wrong = statuses & {"failed", "different-output"} or comparison.incomplete is not None
    return 1 if wrong else 0


@cli.command("doctor")
@click.option("--json", "as_json", is_flag=True, help="write JSON (allotrope.doctor/1)")
def doctor_command(as_json: bool) -> None:
    """Show what this machine offers, and what is used instead of what is missing."""
    rows = doctor.examine()
    if as_json:
        click.echo(doctor.as_json(rows), nl=False)
    else:
        terminal().print(doctor.as_table(rows))
