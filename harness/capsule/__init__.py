# SPDX-License-Identifier: MIT
"""Capsules: one file with all that a result set was made of."""
