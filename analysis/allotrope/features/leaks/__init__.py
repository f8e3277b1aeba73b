# SPDX-License-Identifier: MIT
"""Blocks that a program has lost: not freed, and reached by nothing."""
