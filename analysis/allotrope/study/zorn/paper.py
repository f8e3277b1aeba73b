# SPDX-License-Identifier: MIT
"""What the paper says, as far as its text gives figures: B. Zorn, "The Measured Cost of
Conservative Garbage Collection", CU-CS-573-92, 1992. What it does not give is not here."""

from dataclasses import dataclass

# As the paper names the algorithms, and our presets that are the same.
ALGORITHMS = {
    "cartesian:classic": "SunOS (Cartesian trees)",
    "knuth:classic": "Knuth (first fit)",
    "bsd:classic": "BSD (powers of two)",
    "gnu:classic": "GNU (hybrid)",
    "gc:classic": "Boehm–Weiser collector",
}

PROGRAMS = ("cfrac", "espresso", "gawk", "ghostscript", "perl", "yacr")

OWN_ALLOCATOR = ("cfrac", "espresso", "gawk", "ghostscript", "perl")  # Tables 5 and 6

# Table 2: objects allocated, where the text gives them, in millions.
OBJECTS_MILLIONS = {"gawk": 4.5, "ghostscript": 0.92}


@dataclass(frozen=True)
class Range:
    low: float
    high: float

    def __str__(self) -> str:
        if self.high == float("inf"):
            return f"from {self.low:g} on"
        return f"{self.low:g} to {self.high:g}" if self.low != self.high else f"{self.low:g}"


MALLOC_SHARE = Range(0.23, 0.38)  # of time, Table 2
COLLECTOR_CPU = Range(0.70, 1.27)  # Table 3, to optimised SunOS
COLLECTOR_MEMORY = Range(1.30, 2.50)  # Table 4, to the best explicit allocator
COLLECTOR_MEMORY_YACR = 0.79
BSD_SPACE = Range(1.0, 1.42)  # Table 4, to SunOS
DOMAIN_GAIN_BSD = Range(0.02, 0.07)  # Table 5
DOMAIN_GAIN_MOST = 0.60  # Table 5, cfrac under SunOS
COLLECTOR_FAULTS = Range(10, 100)  # Figure 4, to BSD's at a tight memory
COLLECTOR_MISSES = Range(3, 10)  # Figure 6, to BSD's
COLLECTOR_MISSES_EXCEPT = ("ghostscript", "yacr")
SURVIVORS_AT_100_000 = 0.10  # Figure 8
SURVIVORS_AT_100_000_EXCEPT = ("yacr",)
PERL_SURVIVORS_AT_10_000 = 0.5
MEMORY_1992 = 2 << 20
CACHE_1992 = 128 << 10
