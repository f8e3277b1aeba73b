# SPDX-License-Identifier: MIT
"""The study's page, one file that fetches nothing and runs no script; CSV and JSON behind it."""

import json
import math
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Mapping, Sequence

from ...output import files
from ...output.files import replace_file
from ...output.units import format_bytes
from ...statistics.intervals import LEAST_ROUNDS, Estimate
from ...statistics.verdicts import Verdict, tells_chance
from .answer import Answer, answers, contradictions, limits, reconciliation
from .chart import claims_chart
from .claims import Claim, Part
from .explanations import Explanation, file_beside, read_explanations
from .figures import all_figures
from .measurements import read_measurements
from .paper import ABOUT_ALGORITHMS, ALGORITHMS, PROGRAMS
from .printed import PRINTED
from .results import Results
from .rules import all_claims
from .sheets import Sheet
from .store import SCHEMA
from .tables import all_tables, further_tables

PAGE = "study.html"


@dataclass(frozen=True)
class Report:
    study: dict[str, Any]
    claims: Sequence[Claim]
    tables: Sequence[Sheet]
    figures: Sequence[Sheet]
    beyond: Sequence[Sheet]
    printed: Mapping[str, Claim]  # the claims on the paper's own figures, by number
    answers: Sequence[Answer]
    chart: Sheet
    limits: Sequence[str]
    reconciliation: str

    @property
    def word(self) -> str:
        """A quick study, or one of too few rounds for an interval, indicates."""
        indicates = self.study["quick"] or not tells_chance(self.study["rounds"])
        return "indication" if indicates else "verdict"


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
        chart=claims_chart(claims, printed),
        limits=limits(results),
        reconciliation=reconciliation(results),
    )


def as_csv(sheet: Sheet) -> str:
    columns = list(dict.fromkeys(key for record in sheet.records for key in record))
    return files.as_csv(
        [columns, *([_cell(one.get(key)) for key in columns] for one in sheet.records)]
    )


def _cell(value: Any) -> Any:
    return json.dumps(value) if isinstance(value, (dict, list)) else value


def _value(part: Part) -> float | None:
    one = part.measured
    return one.median if isinstance(one, Estimate) else one


def _finite(value: float | None) -> float | None:
    """JSON has neither infinity nor NaN."""
    return value if value is not None and math.isfinite(value) else None


def claim_record(claim: Claim) -> dict[str, Any]:
    return {
        "claim": claim.number,
        "text": claim.text,
        "where": claim.where,
        "quantifier": claim.quantifier,
        "rule": claim.rule,
        "verdict": claim.verdict,
        "parts": [
            {
                "about": part.about,
                "value": _finite(_value(part)),
                "low": _finite((part.interval() or (None, None))[0]),
                "high": _finite((part.interval() or (None, None))[1]),
                "wanted_low": _finite(part.wanted.low),
                "wanted_high": _finite(part.wanted.high),
                "beyond": part.wanted.beyond,
                "standing": part.standing(),
            }
            for part in claim.parts
        ],
    }


def write_report(report: Report, folder: Path) -> Path:
    """Everything a reader gets, in the study's folder. Returns the page."""
    document = {
        "schema": SCHEMA,
        "study": report.study,
        "claims": [
            claim_record(claim) | {"printed": claim_record(report.printed[claim.number])}
            for claim in report.claims
        ],
        "sheets": {
            sheet.name: {"title": sheet.title, "records": list(sheet.records)}
            for sheet in [*report.tables, *report.figures, *report.beyond]
        },
    }
    for sheet in [*report.tables, *report.figures, *report.beyond]:
        replace_file(folder / "data" / f"{sheet.name}.csv", as_csv(sheet))
        if sheet.svg is not None:
            replace_file(folder / "data" / f"{sheet.name}.svg", sheet.svg)
    replace_file(folder / "results.json", json.dumps(document, indent=1, allow_nan=False) + "\n")
    page = folder / PAGE
    replace_file(page, render(report))
    return page


# Of one claim, and of several.
VERDICTS = {
    Verdict.HOLDS: ("holds", "hold"),
    Verdict.IN_PART: ("holds in part", "hold in part"),
    Verdict.FAILS: ("does not hold", "do not hold"),
    Verdict.NOT_DECIDED: ("is not decided", "are not decided"),
    Verdict.NOT_MEASURED: ("is not measured", "are not measured"),
}


def summary(report: Report) -> str:
    counts = Counter(claim.verdict for claim in report.claims)
    return f"{report.word}s, of {len(report.claims)} claims: " + ", ".join(
        f"{counts[one]} {words[counts[one] > 1]}" for one, words in VERDICTS.items() if counts[one]
    )


WIDE = 8  # from so many columns on the second half of a cell stands below the first


def parted(sheet: Sheet, cell: str) -> tuple[str, str]:
    """A cell's figure, and what is in brackets behind it; together unless the table is wide."""
    place = max(cell.find(" ["), cell.find(" ("))
    if len(sheet.header) < WIDE or sheet.words or place < 0:
        return cell, ""
    return cell[:place], cell[place + 1 :]


def heading(cell: str) -> Any:
    """An allocator's name may be broken before its preset."""
    from markupsafe import Markup, escape

    return Markup(escape(cell).replace(":", Markup(":<wbr>")))


def render(report: Report) -> str:
    import jinja2
    from markupsafe import Markup

    loader = jinja2.FileSystemLoader(Path(__file__).parent)
    environment = jinja2.Environment(loader=loader, autoescape=True, trim_blocks=True)
    template = environment.get_template("study.html.j2")
    return template.render(
        report=report,
        algorithms=ALGORITHMS,
        about_algorithms=ABOUT_ALGORITHMS,
        answers=report.answers,
        contradictions=contradictions(report.printed),
        summary=summary(report),
        markup=Markup,
        size=format_bytes,
        least_rounds=LEAST_ROUNDS,
        parted=parted,
        heading=heading,
        wide=WIDE,
    )
