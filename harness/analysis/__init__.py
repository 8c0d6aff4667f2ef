# SPDX-License-Identifier: MIT
"""Executing an analysis: in a process of its own, in the sandbox, and never a stranger's unasked."""
