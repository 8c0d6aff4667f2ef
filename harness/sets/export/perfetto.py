# SPDX-License-Identifier: MIT
"""What happened when, for https://ui.perfetto.dev: the JSON trace event format of Chrome ("Trace Event Format")."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from harness.errors import KreproError, UsageError
from harness.measure.symbols import read_system_map
from harness.measure.traceevents import Event, instant, process_name, thread_name, time_slice, write_events
from harness.measure.views import TIMELINE, TIMELINE_COLUMNS
from harness.oracle.reader import Oracle
from harness.sets.resultset import ResultSet, view_file
from harness.trial.model import TrialRecord


def write_perfetto(result: ResultSet, path: Path) -> None:
    """What the experiment's `timeline` gave, and the oracle's samples of the first good trial of each arm.

    UsageError when there is neither. Executes nothing.
    """
    told = result.view(TIMELINE)
    if told is not None and not (np.isfinite(told["start_s"]) & ~(told["duration_s"] < 0)).all():
        raise UsageError(
            "timeline(): start_s must be a number, and duration_s not negative",
            where=str(result.path / view_file(TIMELINE.name)),
        )
    seen = [timeline for trial in _first_trials(result.trials) if (timeline := _sampled(trial)) is not None]
    parts = [part for part in (told, *seen) if part is not None and len(part)]
    if not parts:
        raise UsageError(
            "has no timeline: no arm had an oracle with mode sampler, and analysis.py has no function timeline",
            where=str(result.path),
            hint="or the set is older than stored time lines: ./inv analyse makes one that has it",
        )
    write_events(events(pd.concat(parts)), path, unit="ms")


def events(timeline: pd.DataFrame) -> Iterator[Event]:
    """Trace events of a table with TIMELINE_COLUMNS: names of processes and tracks, then slices in order of time.

    A row without a duration is an instant event.
    """
    ordered = timeline.sort_values(["process", "track", "start_s"], kind="stable")
    columns = (ordered[name].tolist() for name in TIMELINE_COLUMNS)
    process, track = "", ""
    pid = tid = 0
    for its_process, its_track, name, start, duration in zip(*columns, strict=True):
        if its_process != process:
            process, track, pid, tid = its_process, "", pid + 1, 0
            yield process_name(pid, process)
        if its_track != track:
            track, tid = its_track, tid + 1
            yield thread_name(pid, tid, track)
        if np.isnan(duration):
            yield instant(name, pid, tid, start * 1e9, cat=track)
        else:
            yield time_slice(name, pid, tid, start * 1e9, duration * 1e9, cat=track)


def _first_trials(trials: Sequence[TrialRecord]) -> list[TrialRecord]:
    """The good trial of each arm with the lowest repetition: a trial has thousands of samples."""
    first: dict[str, TrialRecord] = {}
    for trial in sorted(trials, key=lambda trial: (trial.arm, trial.repetition)):
        if trial.status == "ok":
            first.setdefault(trial.arm, trial)
    return list(first.values())


def _sampled(trial: TrialRecord) -> pd.DataFrame | None:
    """The ideal sampler's view of a trial in virtual time from its first sample on; None where it did not run.

    Track "workload": from a workload's first sample to its last. Track "samples": samples in a row that hit the same
    place, as one slice up to the next sample.
    """
    try:
        samples = Oracle(trial.path).samples(read_system_map(trial.system_map))
    except KreproError:
        return None
    if samples.empty:
        return None
    seconds = (samples["ns"] - samples["ns"].iloc[0]).to_numpy() / 1e9
    region = samples["region"].to_numpy()
    name = samples["function"].where(~samples["idle"], "(halted)").to_numpy(dtype=object)
    begins = np.flatnonzero(np.r_[True, (name[1:] != name[:-1]) | (region[1:] != region[:-1])])
    ends = np.r_[begins[1:], len(samples)] - 1
    # A slice ends where the next sample hits another place; at a workload's end, with its own last sample.
    follows = np.minimum(ends + 1, len(samples) - 1)
    until = np.where(region[follows] == region[ends], seconds[follows], seconds[ends])
    rows = [("samples", name[a], seconds[a], float(b - seconds[a])) for a, b in zip(begins, until, strict=True)]
    for index in np.unique(region[region >= 0]):  # samples of a collector alone are in no workload
        mine = seconds[region == index]
        label = trial.workloads[index] if index < len(trial.workloads) else f"region {index}"
        rows.append(("workload", label, mine[0], float(mine[-1] - mine[0])))
    frame = pd.DataFrame(rows, columns=["track", "name", "start_s", "duration_s"])
    process = f"{trial.arm} {trial.repetition} (virtual time)"
    return frame.assign(process=process).loc[:, list(TIMELINE_COLUMNS)]
