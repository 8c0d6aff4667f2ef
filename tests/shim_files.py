# SPDX-License-Identifier: MIT
"""Raw files of shim's observer as another run would have written them: of fewer samples, of a slower load."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from experiments.shim.observer.records import EVENT, SWITCH
from tests.rawfiles import edit, records, said


def recount(folder: Path, run: str, every: int = 1, share: float | None = None) -> None:
    """A run of the observer took one sample in place of so many, and such a share of its windows is trusted."""
    path = folder / f"{run}.shim.json"
    run_said = said(path)
    windows, kept = run_said["windows"] // every, run_said["trusted"] // every
    for name in ("periods", "ids"):
        table = pd.read_csv(folder / f"{run}.{name}.csv")
        table[["windows", "trusted"]] //= every
        table.loc[table["windows"].idxmax(), "windows"] += windows - table["windows"].sum()
        if name == "periods":
            table[["low", "high"]] *= every
        if share is not None:
            table["trusted"] = (share * table["windows"]).astype(int)
            kept = int(share * windows)
        table.to_csv(folder / f"{run}.{name}.csv", index=False)
    edit(path, samples=run_said["samples"] // every, windows=windows, trusted=kept, untrusted=windows - kept)


def look(folder: Path, period_us: float) -> None:
    """The observer's log is what one would have seen of the trace that looks once in each period."""
    log, trace = np.fromfile(folder / "observer.switches.bin", SWITCH), np.fromfile(folder / "truth.bin", EVENT)
    step = period_us * said(folder / "observer.shim.json")["tsc_hz"] / 1e6
    moments = np.arange(log["seen"][0], log["seen"][-1] + 1, step).astype(np.uint64)
    last = np.searchsorted(trace["time"], moments, side="right") - 1
    number, first = np.unique(last[last >= 0], return_index=True)
    seen = np.zeros(len(number), dtype=SWITCH)
    seen["seen"], seen["time"] = moments[last >= 0][first], trace["time"][number]
    seen["pid"] = seen["tgid"] = trace["next"][number]
    seen["count"], seen["cpu"] = number + 1, log["cpu"][0]
    seen.tofile(folder / "observer.switches.bin")
    missed = int(number[-1] - number[0] + 1 - len(number))
    edit(folder / "observer.shim.json", switches_seen=len(seen), switches_written=len(seen), switches_missed=missed)


def delay(folder: Path, times: int) -> None:
    """All that a run saw took so many times as long, from its begin on."""
    path = folder / "observer.shim.json"
    run_said = said(path)
    begin, end = run_said["clock_begin"], run_said["clock_end"]
    later = {clock: begin[clock] + (end[clock] - begin[clock]) * times for clock in ("tsc", "mono_ns")}
    edit(path, clock_end=later, seconds=run_said["seconds"] * times)
    for name, kind, clocks in (("truth", EVENT, ["time"]), ("observer.switches", SWITCH, ["time", "seen"])):
        with records(folder / f"{name}.bin", kind) as entries:
            for clock in clocks:
                entries[clock] = begin["tsc"] + (entries[clock].astype(np.int64) - begin["tsc"]) * times
    readings = pd.read_csv(folder / "observer.host.csv")
    readings["tsc"] = begin["tsc"] + (readings["tsc"] - begin["tsc"]) * times
    readings.to_csv(folder / "observer.host.csv", index=False)
