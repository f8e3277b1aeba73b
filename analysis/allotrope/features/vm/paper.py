# SPDX-License-Identifier: MIT
"""Table 1 of Appel and Li, "Virtual memory primitives for user programs" (ASPLOS 1991), as printed:
microseconds of elapsed time; None where they print nothing. Figure 2 is drawn from it: times
divided by that of an add."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Machine:
    machine: str
    system: str
    add: float
    trap: float | None
    prot1: float  # trap + prot1 + unprot
    prot_n: float  # trap + protN + unprot, a page
    map2: bool
    page_bytes: int
    note: str = ""


NO_FLUSH = "its mprotect fails to flush the TLB"
ESTIMATED = "the trap is estimated"

TABLE_1 = (
    Machine("Sun 3/60", "SunOS 4.0", 0.12, 760, 1238, 1016, True, 8192),
    Machine("Sun 3/60", "SunOS 4.1", 0.12, None, 2080, 1800, True, 8192),
    Machine("Sun 3/60", "Mach 2.5(xp)", 0.12, None, 3300, 2540, True, 8192),
    Machine("Sun 3/60", "Mach 2.5(exc)", 0.12, None, 3380, 2880, True, 8192),
    Machine("SparcStn 1", "SunOS 4.0.3c", 0.05, None, 919, 839, True, 4096, NO_FLUSH),
    Machine("SparcStn 1", "SunOS 4.1", 0.05, 230, 1008, 909, True, 4096, ESTIMATED),
    Machine("SparcStn 1", "Mach 2.5(xp)", 0.05, None, 1550, 1230, True, 4096),
    Machine("SparcStn 1", "Mach 2.5(exc)", 0.05, None, 1770, 1470, True, 4096),
    Machine("DEC 3100", "Ultrix 4.1", 0.062, 210, 393, 344, False, 4096),
    Machine("DEC 3100", "Mach 2.5(xp)", 0.062, None, 937, 766, False, 4096),
    Machine("DEC 3100", "Mach 2.5(exc)", 0.062, None, 1203, 1063, False, 4096),
    Machine("µVax 3", "Ultrix 2.3", 0.21, 314, 612, 486, False, 1024),
    Machine("i386 on iPSC/2", "NX/2", 0.15, 172, 302, 252, True, 4096),
)
