# SPDX-License-Identifier: MIT
"""Compares glibc with itself, again and again: how often does the interval contain 1?

    python3 bench_programs/self_comparison.py [--comparisons 100] [--rounds 11] [-- CMD...]

Nothing differs, so an interval that leaves 1 out is a false alarm. With 11 rounds one in 85 is
promised to miss (coverage 98.8%); more would mean that rounds are not independent or that a place
in the order is favoured. The command is one pass of the gawk job unless another is given.
"""

import statistics
import sys
from pathlib import Path

import click

SOURCE = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(SOURCE / "analysis"))

from allotrope.features.compare.comparison import Plan  # noqa: E402
from allotrope.features.compare.measure import compare  # noqa: E402
from allotrope.statistics.intervals import Summary, interval_rank  # noqa: E402
from allotrope.system.allocators import glibc  # noqa: E402

QUANTITIES = ("cpu_seconds", "wall_seconds", "peak_rss_bytes", "minor_faults")
GAWK_JOB = (
    "gawk",
    "-f",
    str(SOURCE / "bench_programs" / "gawk_fill" / "fill.awk"),
    "/usr/share/dict/words",
)


def describe(quantity: str, summaries: list[Summary]) -> str:
    """How many intervals contain 1, how wide they are, and how far off the medians are."""
    known = [
        (summary.ratio, summary.ratio_low, summary.ratio_high)
        for summary in summaries
        if summary.ratio is not None and summary.ratio_low is not None and summary.ratio_high
    ]
    contain = sum(low <= 1 <= high for _, low, high in known)
    width = statistics.median(high / low - 1 for _, low, high in known)
    above = sum(ratio > 1 for ratio, _, _ in known)
    off = statistics.median(abs(ratio - 1) for ratio, _, _ in known)
    return (
        f"{quantity:15} {contain:4} of {len(known)} contain 1; median width {100 * width:.2f}%, "
        f"median |ratio - 1| {100 * off:.2f}%, {above} medians above 1"
    )


@click.command(context_settings={"allow_interspersed_args": False})
@click.option("--comparisons", type=click.IntRange(min=1), default=100, show_default=True)
@click.option("--rounds", type=click.IntRange(min=6), default=11, show_default=True)
@click.argument("command", nargs=-1)
def main(comparisons: int, rounds: int, command: tuple[str, ...]) -> None:
    """Compare glibc with itself and count the intervals that contain 1."""
    plan = Plan(
        command=command or GAWK_JOB,
        allocators=[glibc(), glibc()],
        rounds=rounds,
        check="none",
    )
    found: dict[str, list[Summary]] = {quantity: [] for quantity in QUANTITIES}
    for _ in range(comparisons):
        comparison = compare(plan)
        if comparison.incomplete is not None:
            break
        for quantity, summaries in found.items():
            summary = comparison.summary(comparison.contenders[1], quantity)
            if summary is not None:
                summaries.append(summary)
    click.echo(f"{rounds} rounds, coverage promised {100 * interval_rank(rounds).coverage:.1f}%")
    for quantity, summaries in found.items():
        click.echo(describe(quantity, summaries) if summaries else f"{quantity:15} not measured")


if __name__ == "__main__":
    main()
