#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Records what a program asks of malloc, for test_fidelity.py.

    record_allocations.py RECORDER.so OUTPUT.ops.xz REQUESTS COMMAND...

Of the processes that the command starts, the one that asks most is kept, up to REQUESTS requests.
How the kept recordings were made:

    record_allocations.py ./allocation_recorder.so data/gawk.ops.xz 100000 \
        gawk '{ n[length($1)]++; s[substr($1, 1, 3)] = s[substr($1, 1, 3)] $1 }
              END { for (i in s) if (length(s[i]) > 2000) delete s[i];
                    for (i in s) print i, toupper(s[i]) }' /usr/share/dict/words
    record_allocations.py ./allocation_recorder.so data/perl.ops.xz 100000 \
        perl -MData::Dumper -e 'for my $i (1..400) { my %h; $h{$_} = [map { $_ x 3 } 1..$_ % 7]
              for 1..$i % 40; $x{$i % 50} = \\%h; $s .= Dumper(\\%h) } print length $s'
    record_allocations.py ./allocation_recorder.so data/gcc.ops.xz 100000 \
        gcc -O2 -c -x c -o /dev/null allocation_recorder.c
"""

from __future__ import annotations

import lzma
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path


def numbered(lines: list[str], limit: int) -> Iterator[str]:
    """Puts numbers of blocks in place of addresses; what came before the recorder is left out."""
    numbers: dict[str, int] = {}
    blocks = requests = 0
    for line in lines:
        if requests == limit:
            return
        word, *fields = line.split()
        result = fields[-1]
        requests += 1
        if word == "f":
            if result in numbers:
                yield f"f {numbers.pop(result)}\n"
        elif word == "r" and fields[0] in numbers:
            number = numbers.pop(fields[0])
            if fields[1] == "0":
                yield f"f {number}\n"
            else:
                yield f"r {number} {fields[1]}\n"
                numbers[result] = number
        else:
            if word == "r":
                if fields[0] != "0":
                    continue
                word, fields = "a", fields[1:]
            numbers[result] = blocks
            blocks += 1
            yield f"{word} {' '.join(fields[:-1])}\n"


def main() -> int:
    if len(sys.argv) < 5:
        print(__doc__, file=sys.stderr)
        return 2
    recorder, output, limit, *command = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        environment = os.environ | {
            "LD_PRELOAD": str(Path(recorder).resolve()),
            "ALLOCATION_RECORD": f"{folder}/record",
        }
        subprocess.run(command, env=environment, stdout=subprocess.DEVNULL, check=True)
        records = [path.read_text().splitlines() for path in Path(folder).iterdir()]
    with lzma.open(output, "wt", preset=9) as file:
        file.writelines(numbered(max(records, key=len), int(limit)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
