# SPDX-License-Identifier: MIT
"""What the virtual memory of this machine costs, beside that of 1991."""
