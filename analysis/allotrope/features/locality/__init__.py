# SPDX-License-Identifier: MIT
"""A program's page faults and cache misses, simulated."""
