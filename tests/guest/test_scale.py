# SPDX-License-Identifier: MIT
"""What a run keeps in memory of each trial, measured with trials of no time."""

from __future__ import annotations

import gc
import tracemalloc

from harness.commands import pipeline
from harness.commands.run import RunOptions
from tests.scale import NoGuests, experiment

FEW, MORE = 100, 250
#: Bytes that a run may take for a trial at most, at its end: the record, its files' hashes, rows of tables.
MOST = 16 << 10


def test_memory_for_a_trial_is_that_of_its_record_and_hashes(tmp_path, monkeypatch):
    monkeypatch.setattr(pipeline, "LocalExecutor", NoGuests)
    folder = experiment(tmp_path / "hello")

    def peak(trials: int) -> int:
        gc.collect()
        before = tracemalloc.get_traced_memory()[0]
        tracemalloc.reset_peak()
        pipeline.measure(RunOptions(str(folder), repetitions=trials // 2, results=tmp_path / "results"))
        return tracemalloc.get_traced_memory()[1] - before

    tracemalloc.start()
    try:
        peak(10)  # what is imported late, and what is remembered for ever
        few, more = peak(FEW), peak(MORE)
    finally:
        tracemalloc.stop()
    assert (more - few) / (MORE - FEW) <= MOST
