# SPDX-License-Identifier: MIT
"""The order of pages that a process touches: decoding traces of kernel-patches/page-trace, tables, comparisons."""
