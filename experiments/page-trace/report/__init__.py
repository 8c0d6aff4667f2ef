# SPDX-License-Identifier: MIT
"""The report on one traced program: what its addresses are called, tiles of its visits, tables, advice, the page."""
