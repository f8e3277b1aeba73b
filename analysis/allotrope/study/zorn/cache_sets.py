# SPDX-License-Identifier: MIT
"""Where in a direct-mapped cache the misses are, from their number in each of its sets."""

from typing import Sequence


def busiest_share(misses: Sequence[int], parts: int = 64) -> float:
    """The share of misses in the busiest 1/`parts` of the sets; 1/`parts` if all are alike."""
    most = sorted(misses, reverse=True)[: max(1, len(misses) // parts)]
    return sum(most) / (sum(misses) or 1)


def page_start_share(misses: Sequence[int], block: int = 32, page: int = 4096) -> float:
    """The share of misses in the sets to which the first two blocks of a page go: where headers at
    the start of a page meet. 2 in page / block if all sets are alike."""
    return sum(misses_by_place(misses, block, page)[:2]) / (sum(misses) or 1)


def misses_by_place(misses: Sequence[int], block: int = 32, page: int = 4096) -> list[int]:
    """The misses by the place of a block in its page: all sets that serve the place together."""
    places = page // block
    return [sum(misses[place::places]) for place in range(places)]
