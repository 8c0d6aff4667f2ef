# SPDX-License-Identifier: MIT
"""An observation in pieces, and how the host ran both CPUs in each: whether what was seen there may be believed.

An observed CPU that the host has descheduled stands still, and the trust test does not notice: both of the observer's
clocks run on. An observer that is descheduled sees nothing meanwhile. So the observer asks for the host's figures as it
goes (host.csv).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from harness.errors import RunError
from harness.measure.hostsched import MOST_WAIT
from harness.measure.raw import read_csv

from .answers import Observed
from .records import Clocks, Flags

#: Of an observation: with less than that in sound pieces it says nothing.
LEAST_SOUND = 0.5


@dataclass(frozen=True)
class Pieces:
    """An observation between readings of the host's figures: n pieces in order.

    Shares are of the time that passed, where a trial's are of the time in which the vCPU wanted to run: in so short a
    piece that may be next to none. A wait of the observed vCPU that spans two pieces is told in the second.

    begin, end  (n,) uint64    clock of the guest
    waited      (n,) float64   share of its time for which a vCPU waited for a host CPU, of the two the larger
    """

    begin: Clocks
    end: Clocks
    waited: npt.NDArray[np.float64]

    @property
    def sound(self) -> Flags:
        """The pieces that no vCPU was taken from for longer than MOST_WAIT, shape (n,)."""
        return self.waited <= MOST_WAIT

    @property
    def sound_share(self) -> float:
        """Of the time of all pieces."""
        length = (self.end - self.begin).astype(np.float64)
        return float(length[self.sound].sum() / length.sum())

    @property
    def reason(self) -> str | None:
        """Why nothing can be said, or None."""
        if self.sound_share >= LEAST_SOUND:
            return None
        bad = int((~self.sound).sum())
        limit = f"more than {100 * MOST_WAIT:g} % of the time"
        return f"the host descheduled a vCPU for {limit} in {bad} of {self.begin.size} pieces of the observation"

    def hold(self, times: Clocks) -> Flags:
        """Whether each moment, shape (m,), lies in a sound piece."""
        at = np.searchsorted(self.begin, times, side="right").astype(np.int64) - 1
        within = (at >= 0) & (times < self.end[at])
        return np.asarray(within & self.sound[at])


def read_pieces(folder: Path, run: str, said: Observed) -> Pieces | None:
    """RUN.host.csv; None where nobody told the observer, with the reason in `said.host_reason`."""
    if said.host_readings < 2:
        return None
    path = folder / f"{run}.host.csv"
    names = ("tsc", "observer_run_ns", "observer_wait_ns", "run_ns", "wait_ns")
    readings = read_csv(path, names)
    tsc = readings["tsc"].to_numpy(dtype=np.uint64)
    waits = readings[["observer_wait_ns", "wait_ns"]].to_numpy(dtype=np.float64)
    if len(tsc) != said.host_readings or (tsc[1:] <= tsc[:-1]).any() or (waits[1:] < waits[:-1]).any():
        raise RunError(f"holds no {said.host_readings} readings that rise", where=str(path))
    length_ns = (tsc[1:] - tsc[:-1]).astype(np.float64) / said.tsc_hz * 1e9
    return Pieces(tsc[:-1], tsc[1:], np.diff(waits, axis=0).max(axis=1) / length_ns)
