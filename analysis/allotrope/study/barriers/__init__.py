# SPDX-License-Identifier: MIT
"""The collector's half of A. L. Hosking and J. E. B. Moss, "Protection traps and alternatives for
memory management of an object-oriented language" (SOSP 1993), measured again.

    paper.py         Tables 1 to 3, and the figures that the text gives
    plan.py          which programs of bench_programs/runtime are run under which write barriers
    measure.py       one function for each kind of step
    results.py       the steps' results; a workload of it is evidence
    measurements.py  the same in one file, from which alone the page is drawn
    evidence.py      what the rules ask for; printed.py: the paper's own figures as evidence
    rules.py         what each claim compares
    tables.py, report.py  what a reader gets

Object faulting, checkpoints, the concurrent copying collector and region traps are further halves
and papers: each is to be a package beside this one.
"""
