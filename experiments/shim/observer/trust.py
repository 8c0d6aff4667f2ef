# SPDX-License-Identifier: MIT
"""The trust test of a window between two samples, in exact arithmetic.

A window has two lengths: B between the begin clocks of its samples, and E between their end clocks. It is trusted when
B > 0 and low * B <= E <= high * B, both bounds included, as rationals: nothing is divided and nothing is rounded.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np

from harness.errors import RunError

from .pieces import Pieces
from .records import DELAYED, FIRST, GAP, TRUSTED, ZERO, Clocks, Flags, Records

_WORD = (1 << 64) - 1


@dataclass(frozen=True)
class Bounds:
    """Bounds of E / B, both included; 0 < low <= 1 <= high."""

    low: Fraction = Fraction(99, 100)
    high: Fraction = Fraction(101, 100)

    @staticmethod
    def parse(texts: tuple[str, str] | list[str]) -> Bounds:
        """Of two texts like 99/100; RunError when they are none, or no bounds."""
        try:
            low, high = (Fraction(text) for text in texts)
        except (ValueError, ZeroDivisionError) as error:
            raise RunError(f"bounds of trust {list(texts)} are no two rationals") from error
        if not 0 < low <= 1 <= high:
            raise RunError(f"bounds of trust {list(texts)} do not enclose 1")
        return Bounds(low, high)


def trusted(begin: Clocks, end: Clocks, bounds: Bounds) -> Flags:
    """Whether each window is trusted. `begin`, `end`: lengths B and E in clock ticks, shape (n,), uint64."""
    low, high = bounds.low, bounds.high
    factors = max(low.numerator, low.denominator, high.numerator, high.denominator)
    longest = max(int(begin.max(initial=0)), int(end.max(initial=0)))
    if max(longest, 1) * factors > _WORD:
        # Products of 64 bits would wrap: the long windows are done one by one, they are few.
        limit = np.uint64(_WORD // factors)
        long = (begin > limit) | (end > limit) | (factors > _WORD)
        found: Flags = np.zeros(begin.shape, dtype=np.bool_)
        if not long.all():
            found[~long] = trusted(begin[~long], end[~long], bounds)
        found[long] = [_one(int(b), int(e), bounds) for b, e in zip(begin[long], end[long], strict=True)]
        return found
    at_least = begin * np.uint64(low.numerator) <= end * np.uint64(low.denominator)
    at_most = end * np.uint64(high.denominator) <= begin * np.uint64(high.numerator)
    return (begin > 0) & at_least & at_most


def _one(begin: int, end: int, bounds: Bounds) -> bool:
    return begin > 0 and bounds.low * begin <= end <= bounds.high * begin


def lengths(samples: Records) -> tuple[Clocks, Clocks]:
    """B and E of the n - 1 windows between n samples, uint64. A clock that ran backwards gives a window of length 0."""
    begin, end = samples["begin"], samples["end"]
    forward = (begin[1:] >= begin[:-1]) & (end[1:] >= end[:-1])
    zero = np.uint64(0)
    return np.where(forward, begin[1:] - begin[:-1], zero), np.where(forward, end[1:] - end[:-1], zero)


def windows(samples: Records) -> Flags:
    """Which of the n - 1 windows between n samples are there: none begins before a gap or ends in the first sample."""
    broken: Flags = (samples["flags"][1:] & np.uint32(GAP | FIRST)) != 0
    number = samples["number"]
    follows: Flags = number[1:] - number[:-1] == 1
    return ~broken & follows


@dataclass
class Recheck:
    """The program's flags against the same test done again; numbers of windows.

    A delay in a sample lengthens E of the window that it ends, and shortens E of the window that it begins, by as much.
    It is `beyond` the bounds when it is longer than they allow of the window, and a `long_delay` when it is longer than
    twice that. A window with a long delay that is trusted all the same is a failure of the test: the sample at its
    other end was slow by as much, by an interruption.

    windows     that could be judged again: both samples are in the file
    trusted     of them, by this test
    wrong       flags TRUSTED or ZERO that the program set or left out wrongly
    same_ids    windows with one thread and one switch count at both ends
    clean_all   that touch no delay; clean_all_trusted: of those, trusted
    clean       of clean_all, those in pieces of the time that `pieces` says are sound; clean_trusted
    delayed     that begin with or end in a delayed sample; by the file's flags
    beyond, beyond_trusted          of delayed; trusted by this test or by the program
    long_delay, long_delay_trusted  the same
    short_trusted                   of delayed, not long_delay, and trusted
    delayed_numbers                 numbers of the delayed samples
    """

    bounds: Bounds
    delays: Mapping[int, int] = field(default_factory=dict)
    pieces: Pieces | None = None
    samples: int = 0
    gaps: int = 0
    windows: int = 0
    trusted: int = 0
    wrong: int = 0
    same_ids: int = 0
    delayed: int = 0
    long_delay: int = 0
    long_delay_trusted: int = 0
    beyond: int = 0
    beyond_trusted: int = 0
    short_trusted: int = 0
    clean_all: int = 0
    clean_all_trusted: int = 0
    clean: int = 0
    clean_trusted: int = 0
    delayed_numbers: list[int] = field(default_factory=list)
    last_number: int = -1
    _last: Records | None = None

    def add(self, samples: Records) -> None:
        """The next piece of samples.bin."""
        self.samples += len(samples)
        if not len(samples):
            return
        self.delayed_numbers += samples["number"][(samples["flags"] & DELAYED) != 0].tolist()
        self.last_number = int(samples["number"][-1])
        if self._last is not None:
            samples = np.concatenate([self._last, samples])
        self._last = samples[-1:].copy()
        there = windows(samples)
        begin, end = lengths(samples)
        flags = samples["flags"][1:]
        by_us, by_program = trusted(begin, end, self.bounds), (flags & TRUSTED) != 0
        zero = (flags & ZERO) != 0
        wrong = (by_us != by_program) | (zero != (begin == 0))
        late = (samples["flags"] & DELAYED) != 0
        delayed = there & (late[1:] | late[:-1])
        same = (samples["count"][1:] == samples["count"][:-1]) & (samples["pid"][1:] == samples["pid"][:-1])
        self.windows += int(there.sum())
        self.gaps += int((~there).sum())
        self.trusted += int((by_us & there).sum())
        self.wrong += int((wrong & there).sum())
        self.same_ids += int((same & there).sum())
        clean = there & ~delayed
        self.clean_all += int(clean.sum())
        self.clean_all_trusted += int((by_us & clean).sum())
        if self.pieces is not None:
            sound = self.pieces.hold(samples["begin"])
            clean &= sound[1:] & sound[:-1]
        self.clean += int(clean.sum())
        self.clean_trusted += int((by_us & clean).sum())
        self.delayed += int(delayed.sum())
        for at in np.flatnonzero(delayed):
            self._delayed(samples[at : at + 2], int(begin[at]), bool(by_us[at] or by_program[at]))

    def _delayed(self, ends: Records, begin: int, passed: bool) -> None:
        """One window with a delay at one of its ends, or at both."""
        first, last = (self.delays.get(int(one["number"]), 0) for one in ends)
        if self._exceeds(1, begin, last - first):
            self.beyond += 1
            self.beyond_trusted += passed
        if self._exceeds(2, begin, last - first):
            self.long_delay += 1
            self.long_delay_trusted += passed
        else:
            self.short_trusted += passed

    def _exceeds(self, factor: int, begin: int, by: int) -> bool:
        """Whether E = B + by lies more than `factor` times as far from B as the bounds allow."""
        low, high = self.bounds.low - 1, self.bounds.high - 1
        return not factor * low * begin <= by <= factor * high * begin
