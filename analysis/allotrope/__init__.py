# SPDX-License-Identifier: MIT
"""The allotrope command: runs, compares and explains allocators under existing programs."""
