# SPDX-License-Identifier: MIT
"""Programs of a suite on the workers of a Dask cluster (docs/design-cluster.md)."""
