# SPDX-License-Identifier: MIT
"""Programs of a suite, or parts of a trace, on Dask's workers (docs/cluster.md)."""
