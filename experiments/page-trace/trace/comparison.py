# SPDX-License-Identifier: MIT
"""A trace against an exact sequence of the same run, visit for visit, with a reason for each difference.

Both become visits of data pages: pages of the trace's CODE records are left out, then repeats are collapsed. What
differs between two equal visits is one difference, and has one class:

    boundary  before the first or after the last visit that is equal: the two did not begin or end together
    kernel    gone when accesses by the kernel, there or right behind, are left out on both sides: an instruction that
              was interrupted may have made a part of its accesses, which the oracle sees and the trace takes back
    string    all its pages belong to one instruction that touches several: such an instruction keeps them
    unknown   none of these
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from .align import Words, align
from .index import PageIndex
from .records import VISIT, Flags, Records

CLASSES = ("boundary", "kernel", "string", "unknown")
#: A larger difference is not looked into; one visit of the equal ones before it is.
_LARGE = 4096
_EXAMPLES = 20
_SHOWN = 16
#: Visits behind a difference that tell whether it is gone without the kernel's.
_BEHIND = 8
#: How far back the place of a difference is uncertain at most.
_SLIDE = 64

_Visits = list[tuple[int, bool]]  # pages, and whether by the kernel


@dataclass(frozen=True)
class Comparison:
    """Counts in visits.

    oracle, trace  visits of data pages on each side
    equal          common to both in the order of both; a lower bound, exact where differences are small
    equal_at_most  that there can be, by how often each page is visited
    missing        of the oracle's, not in the trace: oracle - equal
    extra          in the trace, not in the oracle's: trace - equal
    oracle_code, trace_code  accesses (runs, records) of code pages, left out on each side
    differences    one row per class: class, differences, missing, extra
    examples       the first differences of class unknown: their place on each side, and the first pages there
    """

    oracle: int
    trace: int
    equal: int
    equal_at_most: int
    missing: int
    extra: int
    oracle_code: int
    trace_code: int
    differences: pd.DataFrame
    examples: pd.DataFrame

    @property
    def loss(self) -> float:
        """Share of the oracle's visits that the trace misses; NaN when there are none."""
        return self.missing / self.oracle if self.oracle else float("nan")


def compare(
    trace: Iterable[Records], oracle: Iterable[pd.DataFrame], code: Words, *, tid: int | None = None
) -> Comparison:
    """Line up a trace's visits with an exact sequence.

    `trace`: its records (`tid` picks one thread); `oracle`: frames with page uint64 and kernel bool, in order; `code`:
    `records.code_pages` of the trace, sorted.
    """
    index = PageIndex()
    exact = _Side(_oracle_runs(oracle), code, index)
    seen = _Side(_trace_runs(trace, tid), code, index)
    tally = _Tally(exact, seen)
    for step in align(exact, seen):
        tally.add(step.equal, step.a, step.b)
    tally.close(last=True)
    return tally.result(int(np.minimum(exact.visits_of(index), seen.visits_of(index)).sum()))


@dataclass
class _Runs:
    """Accesses in order: page, by the kernel, the number of the instruction, and whether that touches several pages."""

    page: Words
    kernel: Flags
    group: npt.NDArray[np.int64]
    several: Flags

    def where(self, mask: Flags) -> _Runs:
        return _Runs(self.page[mask], self.kernel[mask], self.group[mask], self.several[mask])

    def behind(self, other: _Runs) -> _Runs:
        return _Runs(
            np.concatenate([other.page, self.page]),
            np.concatenate([other.kernel, self.kernel]),
            np.concatenate([other.group, self.group]),
            np.concatenate([other.several, self.several]),
        )

    def part(self, part: slice) -> _Runs:
        return _Runs(self.page[part], self.kernel[part], self.group[part], self.several[part])

    def collapsed(self) -> _Runs:
        """One for each run of one page; by the kernel, where all of it is; of several pages, where any of it is."""
        if not self.page.size:
            return self
        at = np.flatnonzero(np.concatenate([[True], self.page[1:] != self.page[:-1]]))
        return _Runs(
            self.page[at],
            np.logical_and.reduceat(self.kernel, at),
            self.group[at],
            np.logical_or.reduceat(self.several, at),
        )


def _no_runs() -> _Runs:
    return _Runs(np.empty(0, np.uint64), np.empty(0, bool), np.empty(0, np.int64), np.empty(0, bool))


def _oracle_runs(frames: Iterable[pd.DataFrame]) -> Iterator[_Runs]:
    for frame in frames:
        page = frame["page"].to_numpy(dtype=np.uint64)
        none = np.zeros(page.size, dtype=np.int64)
        yield _Runs(page, frame["kernel"].to_numpy(dtype=bool), none, none.astype(bool))


def _trace_runs(chunks: Iterable[Records], tid: int | None) -> Iterator[_Runs]:
    group = 0
    held = _no_runs()
    for records in chunks:
        mask = records.type == VISIT
        if tid is not None:
            mask &= records.tid == tid
        made = records.where(mask)
        groups = group + np.cumsum(~made.same, dtype=np.int64)
        if groups.size:
            group = int(groups[-1])
        whole = _Runs(made.page, made.kernel, groups, made.same.copy()).behind(held)
        # An instruction touches several pages if the next visit is its too; of the last that is not known yet.
        whole.several[:-1] |= whole.group[1:] == whole.group[:-1]
        held = whole.part(slice(-1, None))
        yield whole.part(slice(0, -1))
    yield held


class _Side:
    """One sequence of visits, read forward; keeps what is ahead and the last visits behind."""

    def __init__(self, runs: Iterator[_Runs], code: Words, index: PageIndex) -> None:
        self._source = self._visits(runs, code)
        self._index = index
        self._counts = np.zeros(1024, dtype=np.int64)
        self._runs = _no_runs()
        self._at = 0
        self._ended = False
        self.passed = 0
        self.code = 0

    def _visits(self, runs: Iterator[_Runs], code: Words) -> Iterator[_Runs]:
        """Collapsed data visits; the last of a chunk waits for the next, which may go on with it."""
        held = _no_runs()
        for chunk in runs:
            data = ~_within(chunk.page, code)
            kept = chunk.where(data)
            self.code += len(chunk.page) - len(kept.page)
            whole = kept.behind(held).collapsed()
            held = whole.part(slice(-1, None))
            yield whole.part(slice(0, -1))
        yield held

    def _count(self, page: Words) -> None:
        numbers = self._index.of(page)
        self._counts = self._index.grown(self._counts)
        more = np.bincount(numbers)
        self._counts[: more.size] += more

    def visits_of(self, index: PageIndex) -> npt.NDArray[np.int64]:
        """Visits so far by page, shape (pages known to `index`,)."""
        self._counts = index.grown(self._counts)
        return self._counts[: len(index)]

    def ahead(self, n: int) -> Words:
        self._fill(n)
        return self._runs.page[self._at : self._at + n]

    def kernel_ahead(self, n: int) -> Flags:
        return self._runs.kernel[self._at : self._at + n]

    def around(self, n: int, back: int) -> Words:
        """Pages of the instructions of several pages that the `back` visits before the next `n` and the visit behind
        them belong to.
        """
        self._fill(n + _LARGE)
        runs = self._runs
        if not runs.page.size:
            return runs.page
        places = np.array([*range(max(0, self._at - back), self._at), min(runs.page.size - 1, self._at + n)])
        places = places[runs.several[places]]
        # A visit counts with the first instruction of its run; the one of several pages may be another.
        groups = np.unique(runs.group[places])
        first, last = np.searchsorted(runs.group, groups), np.searchsorted(runs.group, groups, side="right")
        parts = [runs.page[i:j] for i, j in zip(first, last, strict=True)]
        return np.concatenate([runs.page[places], *parts])

    def slide(self, n: int) -> int:
        """How many visits further ahead the next `n` could as well be missing: those before them repeat them."""
        page, steps = self._runs.page, 0
        while steps < min(_SLIDE, self._at) and page[self._at - steps - 1] == page[self._at - steps - 1 + n]:
            steps += 1
        return steps

    def advance(self, n: int) -> None:
        self._at += n
        self.passed += n

    def _fill(self, n: int) -> None:
        while not self._ended and self._runs.page.size - self._at < n:
            more = next(self._source, None)
            if more is None:
                self._ended = True
                return
            self._count(more.page)
            # What lies further behind than any look back is dropped.
            keep = max(0, self._at - _LARGE)
            self._runs = more.behind(self._runs.part(slice(keep, None)))
            self._at -= keep


def _within(page: Words, code: Words) -> Flags:
    if not code.size:
        return np.zeros(page.size, dtype=bool)
    return np.equal(code[np.minimum(np.searchsorted(code, page), code.size - 1)], page)


@dataclass
class _Difference:
    """What lies between two equal visits, so far."""

    at: tuple[int, int]
    before: list[int]
    exact: _Visits = field(default_factory=list)
    seen: _Visits = field(default_factory=list)
    missing: int = 0
    extra: int = 0
    near: set[int] = field(default_factory=set)


class _Tally:
    """Counts equal visits, and differences by class."""

    def __init__(self, exact: _Side, seen: _Side) -> None:
        self._exact, self._seen = exact, seen
        self._equal = 0
        self._last: list[int] = []
        self._open: _Difference | None = None
        self._by_class: dict[str, Counter[str]] = {name: Counter() for name in CLASSES}
        self._examples: list[dict[str, Any]] = []

    def add(self, equal: bool, a: int, b: int) -> None:
        """A step of the alignment, before the sides advance."""
        if equal:
            self.close(behind=(_next(self._exact), _next(self._seen)))
            self._equal += a
            self._last = [int(self._exact.ahead(a)[-1])]
            return
        if self._open is None:
            self._open = _Difference((self._exact.passed, self._seen.passed), self._last)
        difference = self._open
        difference.missing += a
        difference.extra += b
        if max(difference.missing, difference.extra) <= _LARGE:
            back = 1
            if not (a and b):
                back += self._exact.slide(a) if a else self._seen.slide(b)
            difference.near.update(self._seen.around(b, back).tolist())
            for side, n, into in ((self._exact, a, difference.exact), (self._seen, b, difference.seen)):
                into.extend(zip(side.ahead(n).tolist(), side.kernel_ahead(n).tolist(), strict=True))

    def close(self, behind: tuple[_Visits, _Visits] = ([], []), *, last: bool = False) -> None:
        """Class the open difference; `behind` it lie visits of each side, the first one equal, or `last` the end."""
        difference, self._open = self._open, None
        if difference is None:
            return
        name = "boundary" if last or not difference.before else _class(difference, behind)
        self._by_class[name].update(differences=1, missing=difference.missing, extra=difference.extra)
        if name == "unknown" and len(self._examples) < _EXAMPLES:
            oracle_at, trace_at = difference.at
            self._examples.append(
                {
                    "oracle_at": oracle_at,
                    "trace_at": trace_at,
                    "missing": difference.missing,
                    "extra": difference.extra,
                    "oracle_pages": _shown(difference.exact),
                    "trace_pages": _shown(difference.seen),
                }
            )

    def result(self, at_most: int) -> Comparison:
        """All counts; both sides must have been read to their ends."""
        oracle, trace = self._exact.passed, self._seen.passed
        counts = ("differences", "missing", "extra")
        rows = [{"class": name} | {key: tally[key] for key in counts} for name, tally in self._by_class.items()]
        shown = ["oracle_at", "trace_at", "missing", "extra", "oracle_pages", "trace_pages"]
        return Comparison(
            oracle=oracle,
            trace=trace,
            equal=self._equal,
            equal_at_most=at_most,
            missing=oracle - self._equal,
            extra=trace - self._equal,
            oracle_code=self._exact.code,
            trace_code=self._seen.code,
            differences=pd.DataFrame(rows),
            examples=pd.DataFrame(self._examples, columns=shown),
        )


def _class(difference: _Difference, behind: tuple[_Visits, _Visits]) -> str:
    if max(difference.missing, difference.extra) > _LARGE:
        return "unknown"
    sides = (difference.exact, difference.seen)
    if any(kernel for side in (*sides, behind[0][:1]) for _, kernel in side):
        # As far as both go: behind the first one, another difference may lie.
        left, right = (
            _collapsed([*difference.before, *(page for page, kernel in [*side, *rest] if not kernel)])
            for side, rest in zip(sides, behind, strict=True)
        )
        n = min(len(left), len(right))
        if n > len(difference.before) and left[:n] == right[:n]:
            return "kernel"
    if len(difference.near) > 1 and all(page in difference.near for side in sides for page, _ in side):
        return "string"
    return "unknown"


def _next(side: _Side) -> _Visits:
    pages = side.ahead(_BEHIND)
    return list(zip(pages.tolist(), side.kernel_ahead(pages.size).tolist(), strict=True))


def _collapsed(pages: list[int]) -> list[int]:
    return [page for i, page in enumerate(pages) if i == 0 or page != pages[i - 1]]


def _shown(side: list[tuple[int, bool]]) -> str:
    text = " ".join(f"{page:x}{'k' if kernel else ''}" for page, kernel in side[:_SHOWN])
    return f"{text} …" if len(side) > _SHOWN else text
