# SPDX-License-Identifier: MIT
"""The filters between threads of this host."""
