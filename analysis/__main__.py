# SPDX-License-Identifier: MIT
"""Runs the command: `python3 analysis` in the source tree, `python3 DATADIR/allotrope/python`
when installed. Run as a folder it needs no PYTHONPATH, which programs under test would inherit."""

import sys

try:
    from allotrope.commands.cli import main

    main()
except KeyboardInterrupt:  # while the modules are still being read
    sys.exit(130)
