# SPDX-License-Identifier: MIT
"""Pure arithmetic: intervals, and means over the programs of a suite."""
