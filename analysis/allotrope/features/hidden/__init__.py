# SPDX-License-Identifier: MIT
"""`allotrope verify-gc`: whether a program hides pointers from the collector."""
