# SPDX-License-Identifier: MIT
"""How commands are declared and how they end: options, console, signals, one-line errors. Standard library at first."""
