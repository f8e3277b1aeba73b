# SPDX-License-Identifier: MIT
"""What asks or drives the machine; it knows nothing of what is measured."""
