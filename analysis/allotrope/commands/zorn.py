# SPDX-License-Identifier: MIT
"""`allotrope zorn`."""

from pathlib import Path

import click

from ..output.page import need_modules
from ..system.errors import UserError
from .words import Word

DEFAULT_ROUNDS, QUICK_ROUNDS = 7, 6


@click.command(cls=Word)
@click.option("--quick", is_flag=True,
              help="two programs, three allocators; indications, not verdicts")  # fmt: skip
@click.option("--out", metavar="DIR", help="where everything goes (default: zorn, or zorn-quick)")
@click.option("--resume", is_flag=True,
              help="continue the study in DIR, with the options it was begun with")  # fmt: skip
@click.option("--only", multiple=True, metavar="NAME", help="of the programs, this one; repeatable")
@click.option("--rounds", type=click.IntRange(min=1), metavar="N",
              help=f"of CPU time; default {DEFAULT_ROUNDS}, an interval needs 6")  # fmt: skip
@click.option(
    "--programs",
    "table",
    metavar="FILE",
    help="other programs than the study's: a table like bench_programs/study.toml",
)
@click.option("--report-only", is_flag=True, help="with --resume: measure nothing, write the page")
def zorn(quick: bool, out: str | None, resume: bool, only: tuple[str, ...], rounds: int | None,
         table: str | None, report_only: bool) -> None:  # fmt: skip
    """Re-run B. Zorn's study of 1992 on today's programs, and judge its claims.

    DIR/study.html is the page, DIR/data/ and DIR/results.json what is behind it. The full study
    takes about an hour and needs ./bootstrap study once; it says beforehand how long. Each step's
    result is kept as it comes, so that an interruption loses one step."""
    from ..study.zorn.plan import Extent
    from ..study.zorn.programs import read_programs
    from ..study.zorn.store import Store
    from ..study.zorn.study import Study, check_tools, question

    if report_only and not resume:
        raise UserError("--report-only needs --resume: there is nothing else to report on")
    folder = Path(out or ("zorn-quick" if quick else "zorn"))
    store = Store(folder)
    # What is not said on resuming is as it was.
    was = store.begun() if resume else {}
    rounds = rounds or was.get("rounds") or (QUICK_ROUNDS if quick else DEFAULT_ROUNDS)
    table = str(Path(table).resolve()) if table else was.get("programs")
    extent = Extent(quick, rounds, only or tuple(was.get("only", ())))
    programs = extent.programs(read_programs(table))
    need_modules("the study", "jinja2", "matplotlib", "scipy")
    check_tools()
    changes = store.begin(question(extent, table), resume)
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
    from ..study.zorn.report import make_report, summary, write_report

    report = make_report(results)
    page = write_report(report, folder)
    for claim in report.claims:
        click.echo(f"{claim.number:>4}  {claim.verdict:<14} {claim.text}")
    click.echo(f"{summary(report)}; {page}")
