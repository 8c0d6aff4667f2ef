# SPDX-License-Identifier: MIT
"""Decoders: what came out of a guest, as typed tables. Pure functions of the files they are given."""
