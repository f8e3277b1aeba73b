# SPDX-License-Identifier: MIT
"""Whether a program hides pointers from the collector."""
