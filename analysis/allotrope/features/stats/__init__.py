# SPDX-License-Identifier: MIT
"""The heap of a running process."""
