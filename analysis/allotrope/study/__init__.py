# SPDX-License-Identifier: MIT
"""Studies, which measure many things to answer one question."""
