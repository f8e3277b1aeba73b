# SPDX-License-Identifier: MIT
"""One command under several allocators."""
