#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Espresso's input: the truth table of a multiplier, of two numbers of BITS bits each (6).

Few functions of 12 inputs are as hard to write as a sum of products: nearly 2,000 terms remain.
"""

import sys


def main() -> None:
    given = sys.argv[1] if len(sys.argv) > 1 else "6"
    if not given.isdigit() or not 1 <= int(given) <= 8:
        sys.exit(f"multiplier_pla.py: bad number of bits '{given}'; give 1 to 8")
    bits = int(given)
    print(f".i {2 * bits}\n.o {2 * bits}")
    for one in range(1 << bits):
        for other in range(1 << bits):
            print(f"{one:0{bits}b}{other:0{bits}b} {one * other:0{2 * bits}b}")
    print(".e")


if __name__ == "__main__":
    main()
