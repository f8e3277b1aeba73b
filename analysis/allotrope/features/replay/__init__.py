# SPDX-License-Identifier: MIT
"""A program's allocations and frees, made again under other allocators."""
