# SPDX-License-Identifier: MIT
"""TLB misses of whole programs under several allocators, with pages of 4 KiB and of 2 MiB.

    /usr/bin/python3 tests/measure/tlb_curves.py [-a SPEC]... [--only NAME]...

Run from the top of the build tree; nothing is timed, so the machine may be busy. Each program is
recorded under each allocator, and `allotrope simulate tlb` counts the misses of fully associative
TLBs by their entries. They are of data references alone; a processor fetches code through others.

2 MiB is what it would be if all of the program's memory had huge pages. Printed for each program:
millions of references, and misses in a thousand references by entries.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

SOURCE = Path(__file__).resolve().parents[2]
BENCH = "bench_programs"
WORDS = "/usr/share/dict/words"
PERL = 'push @{$group{join "", sort split //, lc}}, $_; END { print scalar keys %group }'
PROGRAMS: dict[str, list[str]] = {
    "perl": ["perl", "-ne", f"next if $. % 6; chomp; {PERL}", WORDS],
    "gawk": ["gawk", "-v", "passes=1", "-f", str(SOURCE / BENCH / "gawk_fill/fill.awk"), WORDS],
    "python3": ["/usr/bin/python3", "-S", str(SOURCE / "tests/matrix/objects.py")],
    "live set": [f"{BENCH}/live_set", "blocks=100000", "pairs=1000000"],
    "phases": [f"{BENCH}/phases"],
}
ENVIRONMENT = {
    "LC_ALL": "C",
    "PERL_HASH_SEED": "0",
    "PERL_PERTURB_KEYS": "0",
    "PYTHONHASHSEED": "0",
    "PYTHONMALLOC": "malloc",
}
# Entries: of a first level, of a second, and between.
SHOWN = {4096: (64, 512, 2048), 2 << 20: (16, 32)}


def allotrope(*words: str) -> None:
    command = [sys.executable, "-I", str(SOURCE / "analysis"), *words]
    environment = dict(os.environ, ALLOTROPE_BUILD_DIR=os.getcwd(), **ENVIRONMENT)
    done = subprocess.run(
        command,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    if done.returncode != 0:
        sys.exit(f"tlb_curves: {' '.join(words)}: status {done.returncode}\n{done.stderr}")


def misses(folder: Path, program: str, spec: str) -> dict[str, Any]:
    trace, found = folder / "run.alt", folder / "tlb.json"
    allotrope("record", "-a", spec, "-o", str(trace), "--", *PROGRAMS[program])
    allotrope("simulate", "tlb", "--tlb", "4K:1,2M:1", "--json", str(found), str(trace))
    simulated: dict[str, Any] = json.loads(found.read_text())
    trace.unlink()
    return simulated


def rate(simulated: dict[str, Any], page: int, entries: int) -> float:
    """A thousandfold. Where the curve ends, all that the program uses has an entry."""
    found = next(one for one in simulated["fully_associative"] if one["block"] == page)
    reached = [one["misses"] for one in found["curve"] if one["blocks"] <= entries]
    missed: int = found["cold"] if found["curve"][-1]["blocks"] < entries else reached[-1]
    return 1000 * missed / simulated["references"]


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("-a", "--allocator", action="append", metavar="SPEC")
    parser.add_argument("--only", action="append", choices=PROGRAMS, metavar="NAME")
    asked = parser.parse_args()
    columns = [(page, entries) for page, counts in SHOWN.items() for entries in counts]
    heads = [f"{page >> 10} KiB, {entries}" for page, entries in columns]
    print("| program | allocator | references | " + " | ".join(heads) + " |")
    print("|---|---|" + "--:|" * (1 + len(columns)))
    with tempfile.TemporaryDirectory() as folder:
        for program in asked.only or PROGRAMS:
            for spec in asked.allocator or ["glibc", "blocks"]:
                found = misses(Path(folder), program, spec)
                cells = [f"{rate(found, *column):.3f}" for column in columns]
                millions = f"{found['references'] / 1e6:.1f}"
                row = [program, Path(spec).name, millions, *cells]
                print("| " + " | ".join(row) + " |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
