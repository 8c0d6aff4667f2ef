"""The kernel's own tables of a lock trace, as the launcher copied them: `locks.tsv` and `sites.tsv`."""

from __future__ import annotations

from io import StringIO
from pathlib import Path

import pandas as pd

from harness.errors import RunError

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
    "entry": "int64",  # of the lock
    "type": "int64",
    "site": "uint64",  # of the acquisition
    "symbol": "str",
    "acquisitions": "int64",
    "contended": "int64",
    "failed": "int64",
    "abandoned": "int64",
    "kept": "int64",  # acquisitions
    "wait_total": "int64",  # cycles, as all times here
    "wait_max": "int64",
    "hold_total": "int64",
    "hold_max": "int64",
    "holds": "int64",
    "depth_max": "int64",
}


def read_locks(path: Path) -> pd.DataFrame:
    """LOCK_COLUMNS, a row per lock that the kernel's table held; RunError when it is no such table."""
    return _read(path, LOCK_COLUMNS)


def read_sites(path: Path) -> pd.DataFrame:
    """SITE_COLUMNS, a row per lock, type and call site; times are cycles. RunError when it is no such table."""
    return _read(path, SITE_COLUMNS)


def _read(path: Path, columns: dict[str, str]) -> pd.DataFrame:
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise RunError(f"cannot be read: {error.strerror}", where=str(path)) from error
    lines = text.splitlines()
    names = lines[0].split("\t") if lines else []
    if missing := [name for name in columns if name not in names]:
        raise RunError(f"has no column {missing[0]}", where=f"{path}:1")
    for number, line in enumerate(lines[1:], start=2):
        if line.count("\t") != len(names) - 1:
            raise RunError(f"has {line.count(chr(9)) + 1} fields, not {len(names)}", where=f"{path}:{number}")
    table = pd.read_csv(StringIO(text), sep="\t", dtype=str, keep_default_na=False, quoting=3)
    made = {}
    for name, kind in columns.items():
        try:
            made[name] = table[name] if kind == "str" else [int(value, 0) for value in table[name]]
        except ValueError as error:
            raise RunError(f"column {name}: {error}", where=str(path)) from error
    return pd.DataFrame(made).astype(columns)
