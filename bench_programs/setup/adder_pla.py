#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Espresso's input: the truth table of an adder, of a number of BITS bits (7) and one of OTHER bits
(as many).

    adder_pla.py [BITS [OTHER]]

It has as many rows as there are sums, of which espresso makes a few hundred terms. With 7 and 7 bits
it keeps 2.4 MB alive and asks for three million blocks; a multiplier of 6 bits took thrice as long
and kept 0.4 MB, less than the collector of 1992 begins with.
"""

import sys


def bits_of(given: str) -> int:
    if not given.isdigit() or not 1 <= int(given) <= 8:
        sys.exit(f"adder_pla.py: bad number of bits '{given}'; give 1 to 8")
    return int(given)


def main() -> None:
    given = [bits_of(one) for one in sys.argv[1:3]] or [7]
    bits, others = given[0], given[-1]
    sum_bits = max(bits, others) + 1
    print(f".i {bits + others}\n.o {sum_bits}")
    for one in range(1 << bits):
        for other in range(1 << others):
            print(f"{one:0{bits}b}{other:0{others}b} {one + other:0{sum_bits}b}")
    print(".e")


if __name__ == "__main__":
    main()
