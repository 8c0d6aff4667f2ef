# SPDX-License-Identifier: MIT
"""The kernel's own lock statistics, /proc/lock_stat: contentions, acquisitions, waits and holds by lock class."""

from __future__ import annotations

import re
from pathlib import Path

import pandas as pd

from harness.errors import RunError
from harness.measure.raw import read_lines

#: Columns in the order of the file, times in microseconds.
_FIELDS = (
    *("con_bounces", "contentions", "wait_min_us", "wait_max_us", "wait_total_us", "wait_mean_us"),
    *("acq_bounces", "acquisitions", "hold_min_us", "hold_max_us", "hold_total_us", "hold_mean_us"),
)
_COUNTS = ("con_bounces", "contentions", "acq_bounces", "acquisitions")
_NUMBER = re.compile(r"[0-9]{1,15}(\.[0-9]{1,15})?")


def read_lock_stat(path: Path) -> pd.DataFrame:
    """A row per class, and two for one that is taken for reading and for writing.

    class object, mode object ("" , "R" or "W"), contentions and acquisitions int64, bounces of both, wait and hold
    times float64 in microseconds (min, max, total, mean). RunError when it is no such file.
    """
    lines = read_lines(path)
    if not lines or not lines[0].startswith("lock_stat version 0.4"):
        raise RunError("is no lock_stat of version 0.4", where=str(path))
    rows = []
    for line in lines[1:]:
        # Call sites below a class have an address in brackets, and one number.
        head, _, tail = line.rpartition(":")
        name, mode, numbers = head.strip(), "", tail.split()
        if not name or len(numbers) != len(_FIELDS):
            continue
        if wrong := [text for text in numbers if not _NUMBER.fullmatch(text)]:
            raise RunError(f"{wrong[0][:40]!a} of {name[:40]!a} is no number", where=str(path))
        if name.endswith(("-R", "-W")):
            name, mode = name[:-2], name[-1]
        rows.append({"class": name, "mode": mode} | dict(zip(_FIELDS, map(float, numbers), strict=True)))
    table = pd.DataFrame(rows, columns=["class", "mode", *_FIELDS])
    return table.astype(dict.fromkeys(_FIELDS, "float64") | dict.fromkeys(_COUNTS, "int64"))
