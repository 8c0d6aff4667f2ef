# SPDX-License-Identifier: MIT
"""What the kernel's own trace point tells of waits: its histogram is read whole or not at all."""

from __future__ import annotations

from types import SimpleNamespace

import pandas as pd
import pytest
from experiments.lock_trace.locks.events import MUTEX
from experiments.lock_trace.told import read_histogram, told_rows

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


def test_a_mutex_that_is_got_while_spinning_has_been_waited_for(tmp_path, monkeypatch):
    """Its only event has LCB_F_SPIN; one that sleeps has both, for one wait."""
    lock = {"name": "shared.0", "lock": 0xFFFFFFFFC0256A00, "kind": MUTEX, "conflicts": 100, "conflicts_most": 100}
    monkeypatch.setitem(told_rows.__globals__, "module_counts", lambda run: pd.DataFrame([lock]))
    (tmp_path / "contention_begin").write_text(HISTOGRAM)
    run = SimpleNamespace(counted=True, folder=tmp_path)
    assert [(row["told"], row["difference"]) for row in told_rows(run)] == [(100, 0)]


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
