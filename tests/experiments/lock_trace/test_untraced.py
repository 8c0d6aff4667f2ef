# SPDX-License-Identifier: MIT
"""Waits for locks that are not traced, read from the kernel's histogram."""

from __future__ import annotations

import pytest
from experiments.lock_trace.report.untraced import read_untraced

from harness.errors import RunError

HISTOGRAM = """\
# event histogram
#
# trigger info: hist:keys=flags:vals=hitcount:sort=hitcount:size=2048 if flags == 0 || flags & 24 [active]
#

{ flags:          8 } hitcount:          1
{ flags:         18 } hitcount:          2
{ flags:         20 } hitcount:         40
{ flags:          0 } hitcount:          5

Totals:
    Hits: 48
    Entries: 4
    Dropped: 0
"""


def test_counts_are_by_kind_of_lock(tmp_path):
    (tmp_path / "untraced").write_text(HISTOGRAM)
    assert read_untraced(tmp_path / "untraced") == {"rt-mutexes": 1, "percpu-rwsems": 42, "semaphores": 5}


def test_no_wait_is_no_kind(tmp_path):
    (tmp_path / "untraced").write_text("# event histogram\n\nTotals:\n    Hits: 0\n    Entries: 0\n    Dropped: 0\n")
    assert read_untraced(tmp_path / "untraced") == {}


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("Hits: 48", "Hits: 49", "has 48 waits in its rows, and 49 in its sum"),
        ("flags:         18", "flagged", "has 46 waits in its rows, and 48 in its sum"),
        ("Hits: 48", "", "has no sum"),
    ],
)
def test_rows_that_are_not_all_are_an_error(tmp_path, old, new, says):
    (tmp_path / "untraced").write_text(HISTOGRAM.replace(old, new))
    with pytest.raises(RunError, match=says):
        read_untraced(tmp_path / "untraced")
