# SPDX-License-Identifier: MIT
"""Whom the allocators reach: which of the processes of a command they really serve."""
