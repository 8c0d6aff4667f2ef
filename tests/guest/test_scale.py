# SPDX-License-Identifier: MIT
"""What a run keeps in memory of each trial, measured with trials of no time."""

from __future__ import annotations

import gc
import multiprocessing
import tracemalloc
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import pytest

from harness.run import pipeline
from harness.run.request import RunRequest
from tests.scale import NoGuests, experiment

#: So many that what waits for the garbage collector, at most some MB, counts little in each: 12 to 15 KiB were seen.
FEW, MORE = 250, 750
#: Bytes that a run may take for a trial at most, at its end: the record, its files' hashes, rows of tables.
MOST = 24 << 10  # was 16 KiB; 19 were seen once the terminal's line and the analysis' process came to a run


def bytes_per_trial(experiment_folder: Path, results: Path) -> float:
    pipeline.LocalExecutor = NoGuests  # type: ignore[assignment,misc]

    def peak(trials: int) -> int:
        gc.collect()
        before = tracemalloc.get_traced_memory()[0]
        tracemalloc.reset_peak()
        pipeline.measure(RunRequest(str(experiment_folder), repetitions=trials // 2, results=results))
        return tracemalloc.get_traced_memory()[1] - before

    tracemalloc.start()
    peak(10)  # what is imported late, and what is remembered for ever
    few, more = peak(FEW), peak(MORE)
    return (more - few) / (MORE - FEW)


@pytest.mark.deep
def test_memory_for_a_trial_is_that_of_its_record_and_hashes(tmp_path):
    # In a process of its own: when the collector runs depends on all that other tests have left.
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as process:
        taken = process.submit(bytes_per_trial, experiment(tmp_path / "hello"), tmp_path / "results").result()
    assert taken <= MOST
