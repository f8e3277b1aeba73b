# SPDX-License-Identifier: MIT
"""The options that all studies have, and what becomes of them."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Callable

import click

from ..statistics.intervals import LEAST_ROUNDS
from ..system.errors import UserError
from .cluster_options import ClusterChoice, cluster_options_but_replicate
from .words import Function, only_draws

if TYPE_CHECKING:  # nobody who asks for help waits for a study
    from ..study.frame import Asked, Study


def study_options(name: str, quick: str, rounds: int) -> Callable[[Function], Function]:
    """name: of the study; quick: what --quick does; rounds: how many, when nobody says so."""
    options = (
        click.option("--quick", is_flag=True, help=quick),
        click.option(
            "--out", metavar="DIR", help=f"where everything goes (default: {name}, or {name}-quick)"
        ),
        click.option(
            "--resume",
            is_flag=True,
            help="continue the study in DIR, with the options it was begun with",
        ),
        click.option(
            "--only", multiple=True, metavar="NAME", help="of the programs, this one; repeatable"
        ),
        click.option(
            "--rounds",
            type=click.IntRange(min=1),
            metavar="N",
            help=f"of what is timed; default {rounds}, an interval needs {LEAST_ROUNDS}",
        ),
        cluster_options_but_replicate,
    )
    return lambda function: _decorated(function, options)


def last_options(function: Function) -> Function:
    options = (
        click.option(
            "--report-only", is_flag=True, help="with --resume: measure nothing, write the page"
        ),
        click.option(
            "--measure-only",
            is_flag=True,
            help="write no page; --resume --report-only writes it afterwards",
        ),
        click.option(
            "--from",
            "source",
            metavar="FILE",
            help="with --out: measure nothing, write the page of another study from its "
            "measurements.json",
        ),
    )
    return _decorated(function, options)


def _decorated(function: Function, options: tuple[Callable[[Function], Function], ...]) -> Function:
    for option in reversed(options):
        function = option(function)
    return function


def carry_out(
    context: click.Context,
    study: "Study",
    asked: "Asked",
    out: str | None,
    source: str | None,
    cluster: ClusterChoice | None,
    measure_only: bool,
) -> None:
    """Measures, or draws what was measured; says what became of each claim. What a cluster has not
    measured is a failure."""
    from ..study import frame
    from ..study.measured_by import lacking
    from ..study.on_cluster import OnCluster
    from ..study.report import summary

    if source is not None:
        only_draws(context, "out", "--out DIR")
        report, page = frame.draw_again(study, Path(source), Path(out or ""))
    else:
        if asked.report_only and not asked.resume:
            raise UserError("--report-only needs --resume: there is nothing else to report on")
        if measure_only and (asked.report_only or cluster is not None):
            other = "--report-only" if asked.report_only else "--cluster"
            raise UserError(f"--measure-only writes no page; leave it out with {other}")
        if cluster is not None:
            if asked.report_only:
                raise UserError("--report-only measures nothing; leave out --cluster")
            where = OnCluster(cluster.address, cluster.noise, cluster.ship)
            asked = replace(asked, cluster=where)
        folder = Path(out) if out else frame.default_folder(study, asked.quick)
        measured = frame.measure(study, folder, asked, lambda line: click.echo(line, err=True))
        if measure_only:
            click.echo(f"{measured}; --resume --report-only --out {folder} writes the page")
            return
        report, page = frame.draw(study, measured, folder)
    for claim in report.claims:
        click.echo(f"{claim.number:>4}  {claim.verdict:<14} {claim.text}")
    click.echo(f"{summary(report)}; {page}")
    if source is None and (missing := lacking(report.study)):
        click.echo(f"not measured: {', '.join(missing)}", err=True)
        context.exit(1)
