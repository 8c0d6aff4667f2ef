# SPDX-License-Identifier: MIT
"""Runs: from a plan to a finished set, on this host or on many, resumed, united, analysed or executed again."""
