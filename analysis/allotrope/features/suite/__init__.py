# SPDX-License-Identifier: MIT
"""Many programs under several allocators."""
