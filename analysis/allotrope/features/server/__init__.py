# SPDX-License-Identifier: MIT
"""One start of a server under a load, for `allotrope compare --server`."""
