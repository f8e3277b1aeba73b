# SPDX-License-Identifier: MIT
"""`allotrope study barriers`."""

import click

from .cluster_options import ClusterChoice
from .study_options import carry_out, last_options, study_options
from .words import Word

DEFAULT_ROUNDS = 30


@click.command(cls=Word)
@study_options("barriers", "the paper's sizes alone, nine rounds; indications", DEFAULT_ROUNDS)
@last_options
@click.pass_context
def barriers(
    context: click.Context,
    quick: bool,
    out: str | None,
    resume: bool,
    only: tuple[str, ...],
    rounds: int | None,
    cluster: ClusterChoice | None,
    report_only: bool,
    measure_only: bool,
    source: str | None,
) -> None:
    """Re-run Hosking and Moss's study of 1993: page traps against write barriers in software.

    DIR/study.html is the page, DIR/data/, DIR/results.json and DIR/study.md what is behind it, and
    DIR/measurements.json what all of it is drawn from. The full study takes more than an hour on a
    quiet machine, hours on a busy one, and needs make runtime-orders once.

    \b
    allotrope study barriers --quick
    allotrope study barriers --out barriers && xdg-open barriers/study.html
    allotrope study barriers --cluster head:8786
    """
    from ..study.barriers.study import STUDY
    from ..study.frame import Asked

    asked = Asked(quick, rounds, only, resume, report_only)
    carry_out(context, STUDY, asked, out, source, cluster, measure_only)
