# SPDX-License-Identifier: MIT
"""The words of the command line, one module each."""
