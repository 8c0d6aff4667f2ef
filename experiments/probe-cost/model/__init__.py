# SPDX-License-Identifier: MIT
"""The cost model: its parameters, and what it says that a script of probes will cost."""
