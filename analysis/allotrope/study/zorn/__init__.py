# SPDX-License-Identifier: MIT
"""B. Zorn's study of 1992, "The Measured Cost of Conservative Garbage Collection"
(CU-CS-573-92), measured again.

    programs.py      what is run: bench_programs/study.toml
    plan.py          under which allocators, in which steps, and how long it will take
    store.py         each step's result in a file of its own: what makes a study resumable
    measure.py       one function for each kind of step
    births.py        births and deaths of objects in a trace
    results.py       the steps' results, as the tables, figures and claims ask for them
    measurements.py  the same in one file, from which alone the page is drawn
    paper.py         what the paper says; printed.py: its own figures as evidence
    rules.py         what each claim compares; locality_rules.py: those on locality
    asking.py        what rules share; evidence.py: what they ask for
    explanations.py  what a run's reader found of its claims
    pairs.py         which forms and allocators are shown, and their names
    tables.py, locality_tables.py, figures.py, chart.py, claims.py, answer.py, report.py
                     what a reader gets; layouts.py: rows of tables; cache_sets.py: where misses are

`allotrope zorn` is in commands/zorn.py.
"""
