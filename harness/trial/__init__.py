# SPDX-License-Identifier: MIT
"""Trials: the plan of them, what each needs, the execution of one, its record."""
