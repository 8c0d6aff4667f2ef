# SPDX-License-Identifier: MIT
"""What the tracer itself takes for a visit, measured by a program of known visits; and times of a trace without that.

The visits of `pagework turns` are of four kinds, which each take the kernel another time, and which a trace tells:

    plain     the next visit is by another instruction
    again     the next visit is by the same one, at another time: the kernel compares its registers
    second    the instruction goes on to another page
    stepped   an instruction of several pages is done: the kernel has stepped over it
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from harness.errors import RunError
from harness.measure.raw import Answer, read_answer

from .records import CODE, VISIT, Records, Trace

#: Accesses in a visit to pages 4 and 5 of the program; one is made in each other.
ACCESSES = 100
#: Visits of each kind at least.
LEAST_VISITS = 100
PLAIN, AGAIN, SECOND, STEPPED = range(4)

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Cost:
    """ns that the tracer takes for a visit of each kind, and that an access of the known program takes."""

    plain_ns: float
    again_ns: float
    second_ns: float
    stepped_ns: float
    access_ns: float

    @property
    def by_kind(self) -> Floats:
        """Of PLAIN, AGAIN, SECOND, STEPPED: shape (4,)."""
        return np.array([self.plain_ns, self.again_ns, self.second_ns, self.stepped_ns])


#: Where nothing is known of it.
NOTHING = Cost(0.0, 0.0, 0.0, 0.0, float("nan"))


class _Known(Answer):
    page: int


def measured(trace: Path, answer: Path) -> Cost:
    """The cost by a trace of `pagework turns` and what that printed; RunError when they are none."""
    first = read_answer(answer, _Known).page
    parts = [records.where(records.type == VISIT) for records in Trace(trace).chunks()]
    page = np.concatenate([part.page for part in parts]).astype(np.int64) - first
    lasted = np.diff(np.concatenate([part.time_ns for part in parts]))
    ip = np.concatenate([part.ip for part in parts])
    same = np.concatenate([part.same for part in parts])
    kind = _kinds(ip, same, ip[:1], False)[1:]

    def median(which: int, *pages: int) -> float:
        chosen = lasted[np.isin(page[:-1], pages) & (kind == which)]
        if chosen.size < LEAST_VISITS:
            raise RunError(f"has {chosen.size} visits of a known kind, not {LEAST_VISITS}", where=str(trace))
        return float(np.median(chosen))

    again = median(AGAIN, 2, 3)
    access = (median(AGAIN, 4, 5) - again) / (ACCESSES - 1)
    return Cost(
        plain_ns=median(PLAIN, 0, 1) - access,
        again_ns=again - access,
        second_ns=median(SECOND, 6),
        stepped_ns=median(STEPPED, 7) - access,
        access_ns=access,
    )


def _kinds(ip: npt.NDArray[np.uint64], same: npt.NDArray[np.bool_], ip_before: object, same_before: bool) -> Ints:
    """Of each visit, shape (n,), the kind of the one before it; `ip_before`, `same_before`: of the first one's."""
    before = np.concatenate([np.atleast_1d(np.asarray(ip_before, dtype=np.uint64)), ip[:-1]])
    after_same = np.concatenate([[same_before], same[:-1]])
    kinds = np.select([same, after_same, ip == before], [SECOND, STEPPED, AGAIN], PLAIN)
    return np.asarray(kinds, dtype=np.int64)


class Clock:
    """The program's own time: that of its records less what the tracer took before each, chunk by chunk.

    Of a program of one thread: what kind a visit is follows from the record before it.
    """

    def __init__(self, cost: Cost) -> None:
        self._cost = cost
        self._taken = 0.0
        self._begun = False
        self._ip, self._same = np.uint64(0), False

    def own_ns(self, records: Records) -> Floats:
        """Shape (n,), ns since the trace's start; a page of code takes as long as a plain visit. Not yet in order."""
        visits = records.type == VISIT
        taken = np.zeros(len(records))
        taken[records.type == CODE] = self._cost.plain_ns
        ip, same = records.ip[visits], records.same[visits]
        if ip.size:
            taken[visits] = self._cost.by_kind[_kinds(ip, same, self._ip, self._same)]
            if not self._begun:  # no visit came before
                taken[np.argmax(visits)] = 0.0
                self._begun = True
            self._ip, self._same = ip[-1], bool(same[-1])
        total = self._taken + np.cumsum(taken)
        if total.size:
            self._taken = float(total[-1])
        return np.asarray(records.time_ns - total, dtype=np.float64)


def own_time(chunks: Iterable[Records], cost: Cost) -> Iterator[Records]:
    """The same records at their program's own time; that does not run back where a visit took the tracer less."""
    clock, latest = Clock(cost), 0
    for records in chunks:
        if cost is not NOTHING and len(records):
            time = np.rint(clock.own_ns(records)).astype(np.int64)
            np.maximum.accumulate(np.maximum(time, latest), out=records.time_ns)
            latest = int(records.time_ns[-1])
        yield records
