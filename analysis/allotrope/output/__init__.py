# SPDX-License-Identifier: MIT
"""What shows things: text, tables, pages, files, profiles."""
