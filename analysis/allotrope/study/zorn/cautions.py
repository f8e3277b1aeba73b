# SPDX-License-Identifier: MIT
"""What a reader must know of single programs, wherever figures of them stand."""

from typing import Mapping

from ...output.units import format_bytes
from . import paper
from .plan import BASELINE
from .results import Results

ONE_LAYOUT = "Counts of one layout of memory: they have no interval."
AS_BEFORE = "One layout of memory; see Figure 4."


def of_timed(results: Results) -> str:
    """For captions of figures from the timed loads; empty where there is nothing to say."""
    peaks = {name: results.heap_peak(name, *BASELINE) for name in paper.PROGRAMS}
    below = _below_the_papers({name: peak for name, peak in peaks.items() if peak is not None})
    return _sentences(_ghostscript(results), below and f"Below the paper's heap: {below}.")


def of_traced(results: Results) -> str:
    """Likewise from the traced loads. Of their heaps it is known what is alive at most."""
    alive = {
        name: int(found["live_bytes"])
        for (name, _), found in results.factors.items()
        if name in paper.PROGRAMS and "live_bytes" in found
    }
    below = _below_the_papers(alive)
    told = below and f"Traced loads are smaller; alive at most, below the paper's heap: {below}."
    return _sentences(ONE_LAYOUT, _ghostscript(results), told)


def of_allocation(results: Results) -> str:
    """For a table that has the sizes itself."""
    return _ghostscript(results)


def with_cautions(caption: str, *cautions: str) -> str:
    return _sentences(caption, *cautions)


def _sentences(*found: str) -> str:
    return " ".join(filter(None, found))


def _ghostscript(results: Results) -> str:
    measured = results.program("ghostscript") is not None and "ghostscript" not in results.missing
    return "ghostscript hardly calls malloc and says little." if measured else ""


def _below_the_papers(sizes: Mapping[str, int]) -> str:
    """Those with less than SunOS's of Table 4 has."""
    then = {name: paper.TABLE_4[name][paper.SUNOS].absolute for name in sizes}
    return ", ".join(
        f"{name} {format_bytes(size)} ({then[name]:,g} KB)"
        for name, size in sizes.items()
        if size < 1000 * then[name]
    )
