# SPDX-License-Identifier: MIT
"""What a collector did, in words, from a heap's account (docs/compare-format.md)."""

from typing import Any, Mapping

from ...output.units import format_nanoseconds


def collections_line(collector: Mapping[str, Any]) -> str:
    """How many collections there were, why, and how long the program stood for them."""
    count = collector["collections"]
    if not count:
        line = "no collection came due"
    else:
        causes = causes_in_words(collector["causes"])
        why = "" if causes == "–" else f" ({causes})"
        line = (
            f"{count:,} {'collection' if count == 1 else 'collections'}{why}, paused "
            f"{format_nanoseconds(collector['pause_ns'])} in all, "
            f"{format_nanoseconds(collector['longest_pause_ns'])} at most"
        )
    given_up = given_up_in_words(collector)
    return line if given_up == "–" else f"{line}; given up: {given_up}"


def causes_in_words(causes: Mapping[str, int]) -> str:
    """Why collections came, or were given up, the most frequent first."""
    found = sorted(((count, cause) for cause, count in causes.items() if count), reverse=True)
    if len(found) == 1:
        return found[0][1].replace("_", " ")
    return ", ".join(f"{cause.replace('_', ' ')} {count:,}" for count, cause in found) or "–"


def given_up_in_words(collector: Mapping[str, Any]) -> str:
    """Why, and for how long the program stood for it; its pauses are those that reclaimed."""
    reasons = causes_in_words(collector["given_up"])
    stood = collector.get("given_up_ns", 0)
    return f"{reasons} ({format_nanoseconds(stood)})" if stood else reasons


def least_running(collector: Mapping[str, Any]) -> str:
    """The minimum mutator utilisation: the least share of any so many milliseconds in a row in
    which the world was not stopped. Empty where it was not kept."""
    stopped = collector.get("stopped") or {}
    shares = []
    for milliseconds in (1, 10, 100):
        longest = stopped.get(f"longest_in_{milliseconds}_ms_ns")
        if longest is None:
            return ""
        shares.append(f"{max(0.0, 1 - longest / (milliseconds * 1e6)):.0%}")
    return ", ".join(shares)
