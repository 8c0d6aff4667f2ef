# SPDX-License-Identifier: MIT
"""The kernel's own tables of a lock trace, as they were copied: `locks.tsv`, `sites.tsv` and `stacks.tsv`."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from harness.measure.raw import read_tsv

LOCK_COLUMNS = {
    "entry": "int64",
    "address": "uint64",
    "generation": "int64",  # initialisations seen
    "kind": "str",  # static, percpu, slab, stack, vmalloc, other
    "name": "str",  # symbol+offset, or the slab cache
    "offset": "int64",  # in the object
    "init_site": "str",  # where it was initialised during the trace, or "-"
}
SITE_COLUMNS = {
    "lock": "uint64",  # address
    "type": "int64",
    "site": "uint64",  # of the acquisition
    "symbol": "str",
    "acquisitions": "int64",
    "contended": "int64",
    "failed": "int64",
    "abandoned": "int64",
    "kept": "int64",  # acquisitions
    "wait_total": "int64",  # cycles, of those that had to wait
}
STACK_COLUMNS = {
    "stack": "int64",  # its number in events, from 1; 0: those that found no room
    "events": "int64",  # that have it
    "calls": "str",  # return addresses, hexadecimal with commas, innermost first; - for stack 0
}


def read_locks(path: Path) -> pd.DataFrame:
    """LOCK_COLUMNS, a row per lock that the kernel's table held; RunError when it is no such table."""
    return read_tsv(path, LOCK_COLUMNS)


def read_sites(path: Path) -> pd.DataFrame:
    """SITE_COLUMNS, a row per CPU, lock, type and call site. RunError when it is no such table."""
    return read_tsv(path, SITE_COLUMNS)


def read_stacks(path: Path) -> pd.DataFrame:
    """STACK_COLUMNS, a row per stack, of a kernel with the patches `lock-stacks`. RunError when it is no such table."""
    return read_tsv(path, STACK_COLUMNS)
