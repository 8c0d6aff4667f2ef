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

    windows     that could be judged again: both samples are in the file
    trusted     of them, by this test
    wrong       flags TRUSTED or ZERO that the program set or left out wrongly
    clean       that touch no delay, in pieces of the time that `pieces` says are sound
    clean_trusted  of those, trusted
    delayed     windows that begin with or end in a delayed sample
    delayed_trusted  of them, that either test trusts
    within_bounds    of these, those whose delay is too short for so long a window: not twice what the bounds allow
    alike            of these, those between two samples that took about equally long: the other was delayed too, on
                     purpose or by an interruption
    same_ids    windows with one thread and one switch count at both ends
    """

    bounds: Bounds
    delays: Mapping[int, int] = field(default_factory=dict)
    pieces: Pieces | None = None
    windows: int = 0
    trusted: int = 0
    wrong: int = 0
    clean: int = 0
    clean_trusted: int = 0
    delayed: int = 0
    delayed_trusted: int = 0
    within_bounds: int = 0
    alike: int = 0
    same_ids: int = 0
    samples: int = 0
    gaps: int = 0
    _last: Records | None = None

    def add(self, samples: Records) -> None:
        """The next piece of samples.bin."""
        self.samples += len(samples)
        if self._last is not None:
            samples = np.concatenate([self._last, samples])
        if not len(samples):
            return
        self._last = samples[-1:].copy()
        there = windows(samples)
        begin, end = lengths(samples)
        flags = samples["flags"][1:]
        mine, theirs = trusted(begin, end, self.bounds), (flags & TRUSTED) != 0
        zero = (flags & ZERO) != 0
        wrong = (mine != theirs) | (zero != (begin == 0))
        late = (samples["flags"] & DELAYED) != 0
        delayed = there & (late[1:] | late[:-1])
        same = (samples["count"][1:] == samples["count"][:-1]) & (samples["pid"][1:] == samples["pid"][:-1])
        self.windows += int(there.sum())
        self.gaps += int((~there).sum())
        self.trusted += int((mine & there).sum())
        self.wrong += int((wrong & there).sum())
        clean = there & ~delayed
        if self.pieces is not None:
            sound = self.pieces.hold(samples["begin"])
            clean &= sound[1:] & sound[:-1]
        self.clean += int(clean.sum())
        self.clean_trusted += int((mine & clean).sum())
        self.delayed += int(delayed.sum())
        self.delayed_trusted += int((delayed & (mine | theirs)).sum())
        for at in np.flatnonzero(delayed & mine):
            why = self._excuse(samples[at : at + 2], int(begin[at]))
            self.within_bounds += why == "within_bounds"
            self.alike += why == "alike"
        self.same_ids += int((same & there).sum())

    def _excuse(self, pair: Records, begin: int) -> str | None:
        """Why a window with a delay is trusted all the same, and rightly.

        Each delay is in E of one window and in B of the next: the test sees that two samples took unlike times. A delay
        that is not twice what the bounds allow may be made up for by what the samples' own lengths differ; the
        program calls it too short as well.
        """
        first, last = (self.delays.get(int(one["number"]), 0) for one in pair)
        low, high = begin - 2 * (1 - self.bounds.low) * begin, begin + 2 * (self.bounds.high - 1) * begin
        if low <= begin - first + last <= high:
            return "alike" if first and last else "within_bounds"
        other = int(pair["end"][0 if last else 1]) - int(pair["begin"][0 if last else 1])
        return "alike" if 2 * other >= max(first, last) > 0 else None
