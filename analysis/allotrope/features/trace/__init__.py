# SPDX-License-Identifier: MIT
"""A program's references: recording them, and reading a trace (`allotrope record`, `trace`)."""
