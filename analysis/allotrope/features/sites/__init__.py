# SPDX-License-Identifier: MIT
"""Where a program allocates."""
