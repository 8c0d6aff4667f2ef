# SPDX-License-Identifier: MIT
"""The report on a program that the observer looked at: `./inv counters`."""
