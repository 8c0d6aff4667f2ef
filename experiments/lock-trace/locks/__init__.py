# SPDX-License-Identifier: MIT
"""Lock events: decoding traces of kernel-patches/lock-trace, replaying its filters, waits and holds by call site."""
