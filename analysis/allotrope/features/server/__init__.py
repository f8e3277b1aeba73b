# SPDX-License-Identifier: MIT
"""A server under a load."""
