# SPDX-License-Identifier: MIT
"""The report of the study of 1992, from what was measured."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Mapping, Sequence

from .. import report as frame
from ..chart import claims_chart
from ..explanations import Explanation, file_beside, read_explanations
from .answer import Answer, answers, limits, reconciliation
from .figures import all_figures
from .measurements import read_measurements
from .paper import ABOUT_ALGORITHMS, ALGORITHMS, PROGRAMS
from .printed import PRINTED
from .results import Results
from .rules import all_claims
from .short_names import SHORT
from .tables import all_tables, further_tables

TEMPLATE = Path(__file__).parent / "zorn.html.j2"


@dataclass(frozen=True)
class Report(frame.Report):
    answers: Sequence[Answer]
    reconciliation: str

    def render(self) -> str:
        return frame.render(
            self,
            TEMPLATE,
            algorithms=ALGORITHMS,
            about_algorithms=ABOUT_ALGORITHMS,
            answers=self.answers,
        )


def report_from(file: Path) -> Report:
    """From measurements.json, and what explains them beside it."""
    results = read_measurements(file)
    claims = [claim.number for claim in all_claims(results)]
    # Part of a study may have been asked for; what explains the others is no fault.
    programs = list(dict.fromkeys([*PROGRAMS, *(one.name for one in results.programs)]))
    return make_report(results, read_explanations(file_beside(file), claims, programs))


def make_report(results: Results, explanations: Mapping[str, Explanation] | None = None) -> Report:
    known = explanations or {}
    claims = [replace(claim, explanation=known.get(claim.number)) for claim in all_claims(results)]
    printed = {claim.number: claim for claim in all_claims(PRINTED)}
    return Report(
        study=dict(results.study),
        claims=claims,
        tables=list(all_tables(results)),
        figures=list(all_figures(results)),
        beyond=[sheet for sheet in further_tables(results) if sheet.rows and len(sheet.header) > 1],
        printed=printed,
        answers=answers(results, claims, printed),
        chart=claims_chart(claims, printed, SHORT),
        limits=limits(results),
        reconciliation=reconciliation(results),
    )
