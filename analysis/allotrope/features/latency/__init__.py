# SPDX-License-Identifier: MIT
"""How long each call of an allocator takes."""
