# SPDX-License-Identifier: MIT
"""What a reader of a study gets: its page, one file that fetches nothing and runs no script, and
the CSV and JSON behind it."""

import json
import math
from abc import ABC, abstractmethod
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Mapping, Sequence

from ..output import files
from ..output.files import replace_file
from ..output.units import format_bytes
from ..statistics.intervals import LEAST_ROUNDS, Estimate
from ..statistics.verdicts import Verdict, tells_chance
from .claims import Claim, Part, short_number
from .sheets import Sheet

PAGE = "study.html"


@dataclass(frozen=True)
class Report(ABC):
    study: dict[str, Any]
    claims: Sequence[Claim]
    printed: Mapping[str, Claim]  # the claims on the paper's own figures, by number
    tables: Sequence[Sheet]
    figures: Sequence[Sheet]
    beyond: Sequence[Sheet]
    chart: Sheet
    limits: Sequence[str]

    @property
    def word(self) -> str:
        """A quick study, or one of too few rounds for an interval, indicates."""
        indicates = self.study["quick"] or not tells_chance(self.study["rounds"])
        return "indication" if indicates else "verdict"

    @abstractmethod
    def render(self) -> str:
        """The page."""

    def further_files(self) -> Mapping[str, str]:
        """By name, what only this study writes into its folder."""
        return {}


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
        "indication": claim.indication,
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
                "few_rounds": part.few_rounds,
                "undecided": part.undecided,
                "without": list(part.without),
            }
            for part in claim.parts
        ],
    }


def write_report(report: Report, folder: Path, schema: str) -> Path:
    """Everything a reader gets, in the study's folder. Returns the page."""
    document = {
        "schema": schema,
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
    for name, text in report.further_files().items():
        replace_file(folder / name, text)
    page = folder / PAGE
    replace_file(page, report.render())
    return page


# Of one claim, and of several.
VERDICTS = {
    Verdict.HOLDS: ("holds", "hold"),
    Verdict.CONSISTENT: ("is consistent", "are consistent"),
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


def contradictions(printed: Mapping[str, Claim]) -> list[tuple[Claim, str]]:
    """Claims that the paper's own tables refute, and the figures that do."""
    return [
        (claim, "; ".join(f"{part.about} {part.figure_alone()}" for part in claim.against()))
        for claim in printed.values()
        if claim.verdict is Verdict.FAILS
    ]


def render(report: Report, template: Path, **more: Any) -> str:
    """`template`: of the study, which extends study.html.j2; `more`: what only it asks for."""
    import jinja2
    from markupsafe import Markup

    loader = jinja2.FileSystemLoader([template.parent, Path(__file__).parent])
    environment = jinja2.Environment(loader=loader, autoescape=True, trim_blocks=True)
    return environment.get_template(template.name).render(
        report=report,
        contradictions=contradictions(report.printed),
        summary=summary(report),
        markup=Markup,
        size=format_bytes,
        least_rounds=LEAST_ROUNDS,
        parted=parted,
        number=short_number,
        heading=heading,
        wide=WIDE,
        **more,
    )
