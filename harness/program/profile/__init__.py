# SPDX-License-Identifier: MIT
"""The tracer of `./inv profile`, in a folder as experiments have theirs."""
