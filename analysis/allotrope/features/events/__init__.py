# SPDX-License-Identifier: MIT
"""A program's allocations and frees, recorded natively."""
