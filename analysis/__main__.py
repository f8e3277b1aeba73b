# SPDX-License-Identifier: MIT
"""Runs the command: `python3 analysis` in the source tree, `python3 DATADIR/allotrope/python`
when installed. Run as a folder it needs no PYTHONPATH, which programs under test would inherit."""

from allotrope.cli import main

main()
