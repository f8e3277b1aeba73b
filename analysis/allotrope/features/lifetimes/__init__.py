# SPDX-License-Identifier: MIT
"""How long a program's objects live."""
