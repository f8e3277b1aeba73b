#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Espresso's input: the truth table of an adder, of two numbers of BITS bits each (7).

It has as many rows as there are sums, of which espresso makes a few hundred terms. With 7 bits it
keeps 2.4 MB alive and asks for three million blocks; a multiplier of 6 bits took thrice as long and
kept 0.4 MB, less than the collector of 1992 begins with.
"""

import sys


def main() -> None:
    given = sys.argv[1] if len(sys.argv) > 1 else "7"
    if not given.isdigit() or not 1 <= int(given) <= 8:
        sys.exit(f"adder_pla.py: bad number of bits '{given}'; give 1 to 8")
    bits = int(given)
    print(f".i {2 * bits}\n.o {bits + 1}")
    for one in range(1 << bits):
        for other in range(1 << bits):
            print(f"{one:0{bits}b}{other:0{bits}b} {one + other:0{bits + 1}b}")
    print(".e")


if __name__ == "__main__":
    main()
