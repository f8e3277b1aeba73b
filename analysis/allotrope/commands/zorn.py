# SPDX-License-Identifier: MIT
"""`allotrope zorn`."""

from pathlib import Path

import click

from ..output.files import replace_file
from ..output.page import need_modules
from ..statistics.intervals import LEAST_ROUNDS
from ..system.errors import UserError
from .words import Word, only_draws

DEFAULT_ROUNDS, QUICK_ROUNDS = 7, 6
MODULES = ("jinja2", "matplotlib", "scipy")  # of the page


@click.command(cls=Word)
@click.option(
    "--quick", is_flag=True, help="two programs, three allocators; indications, not verdicts"
)
@click.option("--out", metavar="DIR", help="where everything goes (default: zorn, or zorn-quick)")
@click.option(
    "--resume", is_flag=True, help="continue the study in DIR, with the options it was begun with"
)
@click.option("--only", multiple=True, metavar="NAME", help="of the programs, this one; repeatable")
@click.option(
    "--rounds",
    type=click.IntRange(min=1),
    metavar="N",
    help=f"of CPU time; default {DEFAULT_ROUNDS}, an interval needs {LEAST_ROUNDS}",
)
@click.option(
    "--programs",
    "table",
    metavar="FILE",
    help="other programs than the study's: a table like bench_programs/study.toml",
)
@click.option(
    "--program",
    "given",
    multiple=True,
    metavar="NAME=DIR",
    help="the program in DIR (see docs/study.md) in place of ours, which runs beside it; "
    "repeatable",
)
@click.option("--report-only", is_flag=True, help="with --resume: measure nothing, write the page")
@click.option(
    "--from",
    "source",
    metavar="FILE",
    help="with --out: measure nothing, write the page of another study from its measurements.json",
)
@click.pass_context
def zorn(
    context: click.Context,
    quick: bool,
    out: str | None,
    resume: bool,
    only: tuple[str, ...],
    rounds: int | None,
    table: str | None,
    given: tuple[str, ...],
    report_only: bool,
    source: str | None,
) -> None:
    """Re-run B. Zorn's study of 1992 on today's programs, and judge its claims.

    DIR/study.html is the page, DIR/data/ and DIR/results.json what is behind it, and
    DIR/measurements.json what all of it is drawn from. The full study takes about an hour and
    needs ./bootstrap study once; it says beforehand how long. Each step's result is kept as it
    comes, so that an interruption loses one step.

    \b
    allotrope zorn --quick
    allotrope zorn --out study && xdg-open study/study.html
    """
    if source is not None:
        only_draws(context, "out", "--out DIR")
        draw_again(Path(source), Path(out or ""))
        return
    if report_only and not resume:
        raise UserError("--report-only needs --resume: there is nothing else to report on")
    folder = Path(out or ("zorn-quick" if quick else "zorn"))
    draw(measure(folder, quick, resume, only, rounds, table, given, report_only), folder)


def measure(
    folder: Path,
    quick: bool,
    resume: bool,
    only: tuple[str, ...],
    rounds: int | None,
    table: str | None,
    given: tuple[str, ...],
    report_only: bool,
) -> Path:
    """The study in the folder; returns the file of what was measured."""
    from ..study.zorn.measurements import FILE, as_text
    from ..study.zorn.plan import Extent
    from ..study.zorn.programs import read_programs
    from ..study.zorn.store import Store
    from ..study.zorn.study import Study, check_tools, question

    store = Store(folder)
    # What is not said on resuming is as it was.
    was = store.begun() if resume else {}
    rounds = rounds or was.get("rounds") or (QUICK_ROUNDS if quick else DEFAULT_ROUNDS)
    table = str(Path(table).resolve()) if table else was.get("programs")
    extent = Extent(quick, rounds, only or tuple(was.get("only", ())))
    given = given or tuple(was.get("given", ()))
    programs = extent.programs(read_programs(table, given))
    need_modules("the study", *MODULES)
    check_tools()
    changes = store.begin(question(extent, table, given), resume)
    with store.lock():
        for change in changes:
            click.echo(change, err=True)
        study = Study(store, extent, programs, lambda line: click.echo(line, err=True))
        try:
            results = study.gather() if report_only else study.run()
        except KeyboardInterrupt:
            click.echo(f"allotrope: interrupted; --resume --out {folder} continues", err=True)
            raise
    if results.missing and len(results.missing) == len(programs):
        raise UserError("no program could be measured; run ./bootstrap study", 1)
    replace_file(folder / FILE, as_text(results))
    return folder / FILE


def draw_again(measurements: Path, folder: Path) -> None:
    """Into a folder that may hold an older page, but not the page of another study."""
    from ..study.zorn.report import PAGE

    need_modules("the study", *MODULES)
    its_own = measurements.resolve().parent == folder.resolve()
    if (folder / "study.json").exists() and not its_own:
        raise UserError(f"--out: {folder} holds another study; name another")
    if folder.exists() and (
        not folder.is_dir() or not (folder / PAGE).exists() and any(folder.iterdir())
    ):
        raise UserError(f"--out: {folder} holds something else; name another")
    draw(measurements, folder)


def draw(measurements: Path, folder: Path) -> None:
    """All that a reader gets, from what was measured alone."""
    from ..study.zorn.report import report_from, summary, write_report

    report = report_from(measurements)
    page = write_report(report, folder)
    for claim in report.claims:
        click.echo(f"{claim.number:>4}  {claim.verdict:<14} {claim.text}")
    click.echo(f"{summary(report)}; {page}")
