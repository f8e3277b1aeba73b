# SPDX-License-Identifier: MIT
"""A package for each feature of the command: it measures, and shows what it measured."""
