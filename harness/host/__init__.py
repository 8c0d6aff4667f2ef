# SPDX-License-Identifier: MIT
"""What this host can do: looked at, and tried with a small trial of every kind."""
