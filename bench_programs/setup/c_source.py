#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""gcc's input: a C file of FUNCTIONS functions (300) with loops, switches, structures and calls."""

import random
import sys


def function(number: int, generator: random.Random) -> str:
    out = [f"int f{number}(struct s *p, int a, int b) {{", "    int t = a ^ b;"]
    for _ in range(generator.randrange(3, 9)):
        kind = generator.randrange(4)
        one, other = generator.randrange(1, 99), generator.randrange(1, 99)
        if kind == 0:
            out.append(f"    for (int i = 0; i < {one}; i++) t += p->x[i % 16] * {other} + i;")
        elif kind == 1:
            cases = "".join(f" case {i}: t -= {i * one} ^ b; break;" for i in range(6))
            out.append(f"    switch (t % {other}) {{{cases} default: t++; }}")
        elif kind == 2 and number:
            out.append(f"    t += f{generator.randrange(number)}(p->next ? p->next : p, t, {one});")
        else:
            out.append(f"    if (t > {one} && p->next) {{ p = p->next; p->x[{one % 16}] = t; }}")
    return "\n".join(out + ["    return t;", "}"])


def main() -> None:
    count = sys.argv[1] if len(sys.argv) > 1 else "300"
    if not count.isdigit() or not 1 <= int(count) <= 100000:
        sys.exit(f"c_source.py: bad number of functions '{count}'; give 1 to 100000")
    generator = random.Random(1992)
    print("struct s { struct s *next; int x[16]; };")
    for number in range(int(count)):
        print(function(number, generator))


if __name__ == "__main__":
    main()
