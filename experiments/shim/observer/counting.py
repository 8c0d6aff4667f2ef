# SPDX-License-Identifier: MIT
"""Counters between samples: their value at given moments, and their rate by thread and time."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import pandas as pd

from .records import TRUSTED, Clocks, Records
from .trust import windows

Floats = npt.NDArray[np.float64]
RATE_COLUMNS = ("place", "pid", "tgid", "cycles", "windows", "count")


class Counters:
    """What the counters stood at, at m moments in order: linear between the samples around each.

    value  (m, signals) float64, since the first sample; NaN at moments that no two samples enclose
    width  (m,) float64, cycles between these two samples
    """

    def __init__(self, moments: Clocks, signals: int) -> None:
        self.moments = moments
        self.value: Floats = np.full((moments.size, signals), np.nan)
        self.width: Floats = np.full(moments.size, np.nan)
        self._origin: Records | None = None
        self._last: Records | None = None

    def add(self, samples: Records) -> None:
        """The next piece of samples.bin."""
        if self._last is not None:
            samples = np.concatenate([self._last, samples])
        if not len(samples):
            return
        if self._origin is None:
            self._origin = samples[:1].copy()
        self._last = samples[-1:].copy()
        time = samples["begin"]
        low, high = np.searchsorted(self.moments, [time[0], time[-1]], side="left")
        if low == high:
            return
        moment = self.moments[low:high]
        after = np.searchsorted(time, moment, side="right").clip(1, len(time) - 1)
        # Differences of integers first: the clocks have more digits than a float.
        width = (time[after] - time[after - 1]).astype(np.float64)
        inside = (moment - time[after - 1]).astype(np.float64) / np.where(width > 0, width, 1.0)
        origin = self._origin["signals"][0]
        before = (samples["signals"][after - 1] - origin).astype(np.float64)
        step = (samples["signals"][after] - samples["signals"][after - 1]).astype(np.float64)
        self.value[low:high] = before + inside[:, None] * step
        self.width[low:high] = width


class Rates:
    """Counts and cycles of trusted windows with one thread at both ends, by thread and interval of time."""

    def __init__(self, interval: int, signal: int, *, trusted: bool = True) -> None:
        """`interval` in cycles; `signal`: the column of the counter; `trusted`: by trusted windows alone."""
        self.interval, self.signal, self.trusted = interval, signal, trusted
        self._parts: list[pd.DataFrame] = []
        self._last: Records | None = None
        self._origin: int | None = None

    def add(self, samples: Records) -> None:
        """The next piece of samples.bin."""
        if self._last is not None:
            samples = np.concatenate([self._last, samples])
        if not len(samples):
            return
        if self._origin is None:
            self._origin = int(samples["begin"][0])
        self._last = samples[-1:].copy()
        before, after = samples[:-1], samples[1:]
        kept = windows(samples)
        if self.trusted:
            kept &= (after["flags"] & TRUSTED) != 0
        kept &= (before["pid"] == after["pid"]) & (before["count"] == after["count"])
        before, after = before[kept], after[kept]
        part = pd.DataFrame(
            {
                "place": ((before["begin"] - np.uint64(self._origin)) // np.uint64(self.interval)).astype(np.int64),
                "pid": after["pid"],
                "tgid": after["tgid"],
                "cycles": (after["begin"] - before["begin"]).astype(np.float64),
                "count": (after["signals"][:, self.signal] - before["signals"][:, self.signal]).astype(np.float64),
                "windows": 1,
            }
        )
        self._parts.append(part.groupby(["place", "pid", "tgid"], as_index=False).sum())

    def frame(self) -> pd.DataFrame:
        """RATE_COLUMNS: number of the interval, thread, cycles, windows, and what the counter rose by."""
        if not self._parts:
            return pd.DataFrame(columns=[*RATE_COLUMNS])
        every = pd.concat(self._parts, ignore_index=True)
        return every.groupby(["place", "pid", "tgid"], as_index=False).sum()[list(RATE_COLUMNS)]


def costs(chunks: Records, phases: Mapping[str, npt.NDArray[np.uint64]]) -> pd.DataFrame:
    """Cycles per iteration of a known loop while something else went on, each against what was before and after it.

    `chunks`: fields of CHUNK, in order; `phases`: by name, begin and end of m phases, shape (m, 2), cycles; none
    overlap. One row per phase that has chunks in it and beside it: `what` its name, `on` and `off` cycles per
    iteration, medians over chunks (`off`: the mean of before and after), `ratio`. A chunk across a border takes no
    part.
    """
    chunks = chunks[chunks["iterations"] > 0]
    each = (chunks["end"] - chunks["begin"]).astype(np.float64) / chunks["iterations"]
    every = np.concatenate([spans.reshape(-1, 2) for spans in phases.values()] or [np.empty((0, 2), dtype=np.uint64)])
    names = [name for name, spans in phases.items() for _ in range(spans.size // 2)]
    order = np.argsort(every[:, 0], kind="stable")
    edges = every[order].reshape(-1)
    place = np.searchsorted(edges, chunks["begin"], side="right")
    whole = place == np.searchsorted(edges, chunks["end"], side="left")
    by_place = pd.Series(each[whole]).groupby(place[whole]).median().to_dict()
    rows = []
    for number, name in enumerate(order.tolist()):
        here, around = by_place.get(2 * number + 1), [by_place.get(2 * number), by_place.get(2 * number + 2)]
        known = [value for value in around if value is not None]
        if here is not None and known:
            off = float(np.mean(known))
            rows.append({"what": names[name], "phase": number, "on": here, "off": off, "ratio": here / off})
    return pd.DataFrame(rows, columns=["what", "phase", "on", "off", "ratio"])
