# SPDX-License-Identifier: MIT
"""What an observer's readings say of each thread: sums by hand, over pieces of any length."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from experiments.shim.observer import records
from experiments.shim.report.looked import IDLE, SWITCHING, phases, read_looked
from harness.errors import RunError

#: Begin clock, thread, switches that the line has counted, what the counter stood at.
READINGS = [(100, 7, 1, 0), (200, 7, 1, 50), (300, 0, 2, 70), (400, 0, 2, 71), (500, 7, 4, 90), (600, 7, 4, 150)]


def observed(folder, readings):
    signal = {"name": "instructions", "source": "oracle", "scope": "cpu"}
    refused = {"name": "cycles", "source": "pmu", "scope": "observer", "reason": "no such event"}
    clock = {"tsc": 0, "mono_ns": 0}
    counts = dict.fromkeys(
        (
            *("period_cycles", "period_ns", "samples", "windows", "trusted", "untrusted", "zero", "switches_seen"),
            *("switches_missed", "torn", "injected", "injected_windows", "injected_trusted", "samples_written"),
            *("samples_lost", "switches_written", "switches_lost", "seconds"),
        ),
        0,
    )
    answer = {**counts, "observer_cpu": 0, "cpu": 1, "bounds": ["99/100", "101/100"], "tsc_hz": 1e6, "ppid": "bpf"}
    answer |= {"clock_begin": clock, "clock_end": clock, "switches_slot": 3, "signals": [signal], "refused": [refused]}
    (folder / "observer.shim.json").write_text(json.dumps(answer))
    table = np.zeros(len(readings), dtype=records.sample_type(1))
    for row, (begin, pid, count, counter) in zip(table, readings, strict=True):
        row["begin"], row["end"], row["pid"], row["tgid"], row["count"] = begin, begin + 1, pid, pid, count
        row["signals"][0] = counter
    table.tofile(folder / "stream")
    return read_looked(folder, folder / "stream")


@pytest.mark.parametrize("piece", [2, 3, 100])
def test_what_lies_between_two_readings_is_a_threads_only_without_a_switch_between(piece, tmp_path, monkeypatch):
    monkeypatch.setattr(records.pieces, "__defaults__", (piece,))
    looked = observed(tmp_path, READINGS)
    threads = looked.threads.set_index("pid")
    assert threads["instructions"].to_dict() == {SWITCHING: 20 + 19, IDLE: 1, 7: 50 + 60}
    assert threads["cycles"].to_dict() == {SWITCHING: 200, IDLE: 100, 7: 200}
    assert looked.parts["instructions"].sum() == 150
    assert looked.runs[["pid", "begin", "end"]].to_numpy().tolist() == [
        [7, 0, 100],
        [SWITCHING, 100, 200],
        [IDLE, 200, 300],
        [SWITCHING, 300, 400],
        [7, 400, 500],
    ]
    assert [signal.name for signal in looked.refused] == ["cycles"]


def test_a_phase_ends_where_another_thread_has_the_time(tmp_path):
    thread = [7] * 1000 + [0] * 500 + [8] * 500
    count = [1] * 1000 + [2] * 500 + [3] * 500
    readings = [(i, thread[i], count[i], 10 * i) for i in range(2000)]
    table = phases(observed(tmp_path, readings))
    assert table["pid"].tolist() == [7, IDLE, 8]
    assert table["instructions"].sum() == 19990
    assert 990 <= table["end"][0] <= 1010


def test_a_phase_ends_where_the_instructions_a_cycle_are_others(tmp_path):
    looked = observed(tmp_path, [(i, 7, 1, 10 * i) for i in range(2400)])
    cycles = np.where(looked.parts["part"] < 120, 100, 20)
    table = phases(replace(looked, counters=("instructions", "cycles"), parts=looked.parts.assign(cycles=cycles)))
    assert table["pid"].tolist() == [7, 7]
    assert table["end"].tolist() == [120 * 2399 // 240, 2399]


def test_without_a_reading_there_is_nothing_to_tell(tmp_path):
    with pytest.raises(RunError, match="took no reading"):
        observed(tmp_path, [])
