# SPDX-License-Identifier: MIT
"""What `allotrope trace info` prints."""

from typing import Any

from ...output.text import one_line


def share(part: int, whole: int) -> str:
    return f"{100 * part / whole:6.2f} %" if whole else "     - "


def print_info(file: str, facts: dict[str, Any]) -> None:
    """The same for people; what is zero is left out."""
    totals, run = facts["totals"], facts.get("run")
    references = totals["references"]
    description = facts["description"]
    size = facts["bytes"]
    print(one_line(file), end="\n" if size is None else f": {size:,} bytes")
    if size is not None:
        print(f", {size / references:.3f} per reference" if references else "")
    for key, value in description.items():
        words = value if isinstance(value, list) else [str(value)]
        print(one_line(f"  {key:<13}{' '.join(words)}"))
    print(f"references   {references:>16,}")
    if run is not None and run["references"] != references:
        print(f"  of a run of{run['references']:>16,}")
    for key in ("loads", "stores"):
        print(f"  {key:<11}{totals[key]:>16,}  {share(totals[key], references)}")
    for key in ("instructions", "superblocks", "events", "allocated_bytes"):
        print(f"{key.replace('_', ' '):<15}{totals[key]:>14,}")
    if references:
        _print_tables(facts, references)
    if facts["events"]:
        print("events")
    for name, count in facts["events"].items():
        print(f"  {count:>16,}  {name}")


def _print_tables(facts: dict[str, Any], references: int) -> None:
    _print_shares("class", facts["totals"]["by_class"], references)
    threads = {str(row["thread"]): row["references"] for row in facts["threads"]}
    _print_shares("thread", threads, references)
    _print_shares("region", _regions(facts["regions"]), references)
    _print_matrix(facts["regions"], references)


def _regions(rows: list[dict[str, Any]]) -> dict[str, int]:
    return {f"{row['kind']} {row['name']}".strip(): sum(row["references"].values()) for row in rows}


def _print_shares(title: str, counts: dict[str, int], whole: int) -> None:
    print(f"by {title}")
    for name, count in sorted(counts.items(), key=lambda item: -item[1]):
        if count:
            print(one_line(f"  {count:>16,}  {share(count, whole)}  {name}"))


def _print_matrix(rows: list[dict[str, Any]], whole: int) -> None:
    """Who refers to what: shares of all references, kinds of regions against classes."""
    matrix: dict[str, dict[str, int]] = {}
    for row in rows:
        counts = matrix.setdefault(row["kind"], {})
        for name, count in row["references"].items():
            counts[name] = counts.get(name, 0) + count
    names = [name for name in rows[0]["references"] if any(row[name] for row in matrix.values())]
    print("class and region" + "".join(f"{name:>12}" for name in names))
    for kind, counts in sorted(matrix.items(), key=lambda item: -sum(item[1].values())):
        if any(counts.values()):
            print(f"  {kind:<14}" + "".join(f"{share(counts[name], whole):>12}" for name in names))
