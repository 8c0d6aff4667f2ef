# SPDX-License-Identifier: MIT
"""Decoders: what came out of a guest, as typed tables, metrics and verdicts. Pure functions of files."""
