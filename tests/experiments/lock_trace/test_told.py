# SPDX-License-Identifier: MIT
"""What the kernel's own trace point tells of waits: its histogram is read whole or not at all."""

from __future__ import annotations

import pytest
from experiments.lock_trace.told import read_histogram

from harness.errors import RunError

HISTOGRAM = """\
# event histogram
{ lock_addr: ffffffffc0256a00, flags:         33 } hitcount:        100
{ lock_addr: ffffffffc0256a00, flags:         32 } hitcount:         90

Totals:
    Hits: 190
    Entries: 2
    Dropped: 0
"""


def test_a_histogram_by_lock_and_flags(tmp_path):
    (tmp_path / "hist").write_text(HISTOGRAM)
    assert read_histogram(tmp_path / "hist") == {(0xFFFFFFFFC0256A00, 33): 100, (0xFFFFFFFFC0256A00, 32): 90}


@pytest.mark.parametrize(
    ("was", "now"),
    [
        ("Hits: 190", "Hits: 191"),
        ("Dropped: 0", "Dropped: 1"),
        ("    Dropped: 0\n", ""),
        ("hitcount:         90", "hit"),
    ],
)
def test_one_with_a_gap_is_told(tmp_path, was, now):
    (tmp_path / "hist").write_text(HISTOGRAM.replace(was, now))
    with pytest.raises(RunError, match="hist: has 1"):
        read_histogram(tmp_path / "hist")
