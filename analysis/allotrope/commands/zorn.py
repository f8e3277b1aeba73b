# SPDX-License-Identifier: MIT
"""`allotrope study zorn`, and `allotrope zorn` for short."""

from pathlib import Path

import click

from .cluster_options import ClusterChoice
from .study_options import carry_out, last_options, study_options
from .words import Word

DEFAULT_ROUNDS = 30


@click.command(cls=Word)
@study_options("zorn", "two programs, three allocators; indications, not verdicts", DEFAULT_ROUNDS)
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
@last_options
@click.pass_context
def zorn(
    context: click.Context,
    quick: bool,
    out: str | None,
    resume: bool,
    only: tuple[str, ...],
    rounds: int | None,
    cluster: ClusterChoice | None,
    table: str | None,
    given: tuple[str, ...],
    report_only: bool,
    measure_only: bool,
    source: str | None,
) -> None:
    """Re-run B. Zorn's study of 1992 on today's programs, and judge its claims.

    DIR/study.html is the page, DIR/data/ and DIR/results.json what is behind it, and
    DIR/measurements.json what all of it is drawn from. The full study takes an hour or more and
    needs ./bootstrap study once; it says beforehand how long. Each step's result is kept as it
    comes, so that an interruption loses one step.

    \b
    allotrope zorn --quick
    allotrope study zorn --out study && xdg-open study/study.html
    allotrope study zorn --cluster head:8786      # a program on each worker
    """
    from ..study.frame import Asked
    from ..study.zorn.study import STUDY

    held = tuple(map(_with_whole_path, given))
    more = {"programs": str(Path(table).resolve()) if table else None, "given": held}
    asked = Asked(quick, rounds, only, resume, report_only, more)
    carry_out(context, STUDY, asked, out, source, cluster, measure_only)


def _with_whole_path(given: str) -> str:
    """By which another machine finds it, too. What is no NAME=DIR is told later."""
    name, _, folder = given.partition("=")
    return f"{name}={Path(folder).resolve()}" if folder else given
