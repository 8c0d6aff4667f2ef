# SPDX-License-Identifier: MIT
"""Visits as a picture that can be zoomed into: cells of time and page on several levels, in tiles.

A tile is COLUMNS intervals of time by all rows; level 0 is one tile, and each further one has twice the tiles. A row
is a page; where there are too many, `grouped` tells how many a level's rows are, as a power of two. A tile holds its
cells that have visits: key = row * COLUMNS + column, and how many visits, how many of them write. Levels
whose cells would be too many are left out, from the deepest up.

A tile's text is base64 of zlib of: keys as differences in LEB128, then a byte a cell: log2(visits) * 8 rounded, at most
127, and 128 where a visit writes.
"""

from __future__ import annotations

import base64
import tempfile
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from ..trace.index import Numbers, stable_order
from ..trace.records import VISIT, Records, Words
from ..trace.visits import Ints

COLUMNS = 512
MOST_LEVELS = 12
#: Rows of level 0, as a power of two; each further level may have twice as many.
ROW_BITS = 12
#: Cells of one level.
MOST_CELLS = 40_000_000
#: On average, a column of the deepest level has so many visits.
LEAST_VISITS = 2


@dataclass(frozen=True)
class Cells:
    """Cells of one tile, shape (n,): distinct keys, sorted; visits; writes, of them those that write."""

    key: Words
    visits: Ints
    writes: Ints


def merged(parts: Iterable[Cells]) -> Cells:
    """Cells of the same tile, together."""
    every = list(parts)
    key = np.concatenate([one.key for one in every])
    # Parts are sorted, or nearly: a stable sort merges such runs.
    order = np.argsort(key, kind="stable")
    visits, writes = (np.concatenate([getattr(one, name) for one in every])[order] for name in ("visits", "writes"))
    key = key[order]
    begins = _runs(key)
    return Cells(key[begins], np.add.reduceat(visits, begins), np.add.reduceat(writes, begins))


def _runs(*columns: np.ndarray) -> Numbers:
    """Where rows begin that are not as the one before; shape (n,), none of them empty."""
    changes = np.ones(columns[0].size, dtype=bool)
    changes[1:] = np.logical_or.reduce([column[1:] != column[:-1] for column in columns])
    return np.flatnonzero(changes)


def halved(cells: Cells, right: bool, rows: int) -> Cells:
    """The same on the next coarser level, in the left or right half of a tile, where a row is 2**`rows` of these.

    Keys may come twice, and are not sorted.
    """
    row, column = cells.key // np.uint64(COLUMNS) >> np.uint64(rows), cells.key % np.uint64(COLUMNS)
    column = (column >> np.uint64(1)) + np.uint64(COLUMNS // 2 if right else 0)
    return Cells(row * np.uint64(COLUMNS) + column, cells.visits, cells.writes)


def encoded(cells: Cells) -> str:
    """The text of a tile."""
    deltas = np.diff(cells.key, prepend=np.uint64(0))
    level = np.minimum(np.rint(np.log2(np.maximum(cells.visits, 1)) * 8), 127).astype(np.uint8)
    value = level | np.where(cells.writes > 0, 128, 0).astype(np.uint8)
    return base64.b64encode(zlib.compress(_varints(deltas) + value.tobytes(), 6)).decode()


def _varints(numbers: Words) -> bytes:
    """LEB128 of each number, one after the other."""
    length = np.ones(numbers.size, dtype=np.intp)
    for bits in range(7, int(numbers.max(initial=0)).bit_length(), 7):
        length += numbers >= np.uint64(1 << bits)
    at = np.cumsum(length) - length
    text = np.empty(int(length.sum()), dtype=np.uint8)
    rest = numbers
    while rest.size:
        more = rest >= np.uint64(128)
        text[at] = (rest & np.uint64(127)).astype(np.uint8) | more.astype(np.uint8) << np.uint8(7)
        at, rest = at[more] + 1, rest[more] >> np.uint64(7)
    return text.tobytes()


class Tiles(Mapping[int, str]):
    """Texts of tiles by number, in a file without a name in `folder`: they may be larger than memory should be."""

    def __init__(self, folder: Path) -> None:
        self._file = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115  (it lives as long as this does)
        self._places: dict[int, tuple[int, int]] = {}
        self._end = 0

    def put(self, number: int, text: str) -> None:
        self._places[number] = self._end, len(text)
        self._file.seek(self._end)
        self._end += self._file.write(text.encode("ascii"))

    def clear(self) -> None:
        self._places.clear()
        self._file.truncate(0)
        self._end = 0

    @property
    def bytes(self) -> int:
        """Of all texts."""
        return self._end

    def __getitem__(self, number: int) -> str:
        begin, length = self._places[number]
        self._file.seek(begin)
        return self._file.read(length).decode("ascii")

    def __iter__(self) -> Iterator[int]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)


@dataclass
class _Level:
    """One level: tiles that are done, and the cells of the one that is not."""

    tiles: Tiles
    cells: int = 0
    open: int = 0
    parts: list[Cells] = field(default_factory=list)
    dropped: bool = False


class Pyramid:
    """Makes the tiles of records that come in the order of time; memory is that of the open tiles, one a level."""

    def __init__(self, pages: Words, span_ns: int, visits: int, folder: Path, most_cells: int = MOST_CELLS) -> None:
        """`pages`: all that are visited, sorted and distinct: a row each. Times are from 0 to below `span_ns`. Tiles
        that are done wait in `folder`.
        """
        wanted = int(np.log2(max(1, visits // (LEAST_VISITS * COLUMNS)))) if visits else 0
        self.depth = min(MOST_LEVELS, max(wanted, 0))
        self._pages = pages
        whole = max(0, int(pages.size - 1).bit_length() - ROW_BITS)
        self.grouped = [max(0, whole - level) for level in range(self.depth + 1)]
        self._span = max(1, span_ns)
        self._most = most_cells
        self._levels = [_Level(Tiles(folder)) for _ in range(self.depth + 1)]

    def add(self, records: Records) -> None:
        """Put a chunk's visits into cells."""
        visit = records.type == VISIT
        if not visit.any():
            return
        # Cells of levels that are dropped already are not made.
        level = max(number for number, one in enumerate(self._levels) if number == 0 or not one.dropped)
        row = np.searchsorted(self._pages, records.page[visit]) >> self.grouped[level]
        # In two steps: a time by as many columns may not fit into 64 bits.
        time = records.time_ns[visit].astype(np.float64)
        columns = COLUMNS << level
        column = np.clip(time * (columns / self._span), 0, columns - 1).astype(np.int64)
        np.maximum.accumulate(column, out=column)
        # They come in the order of columns, and so of tiles: sorted by row, and by tile, they are so by key.
        tile = column // COLUMNS
        order = stable_order(row, self._pages.size)
        if tile[0] != tile[-1]:
            order = order[np.argsort((tile - tile[0])[order].astype(np.uint16), kind="stable")]
        key = (row[order] * COLUMNS + column[order] % COLUMNS).astype(np.uint64)
        begins = _runs(tile, key)  # a tile's places are where they were: sorting by it leaves it as it is
        cells = Cells(
            key[begins],
            np.diff(begins, append=key.size),
            np.add.reduceat(records.write[visit][order], begins, dtype=np.int64),
        )
        bounds = np.append(_runs(tile[begins]), begins.size)
        for first, last in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
            part = Cells(cells.key[first:last], cells.visits[first:last], cells.writes[first:last])
            self._put(level, max(int(tile[begins[first]]), self._levels[level].open), part)
        for number in range(level, 0, -1):
            if self._levels[number].dropped:
                self._close(number)

    def _put(self, number: int, tile: int, cells: Cells) -> None:
        level = self._levels[number]
        if tile != level.open:
            self._close(number)
            level.open = tile
        level.parts.append(cells)
        if len(level.parts) >= 16:
            level.parts = [merged(level.parts)]

    def _close(self, number: int) -> None:
        level = self._levels[number]
        if not level.parts:
            return
        cells, level.parts = merged(level.parts), []
        level.cells += cells.key.size
        if level.cells > self._most and number > 0:
            level.dropped = True
            level.tiles.clear()
        if not level.dropped:
            level.tiles.put(level.open, encoded(cells))
        if number > 0:
            shift = self.grouped[number - 1] - self.grouped[number]
            self._put(number - 1, level.open // 2, halved(cells, bool(level.open % 2), shift))

    def finish(self) -> list[Tiles]:
        """By level, from 0 on, the tiles that have visits, by number; levels that would be too large are left out."""
        for number in range(self.depth, -1, -1):
            self._close(number)
        whole: list[Tiles] = []
        for level in self._levels:
            if level.dropped:
                break
            whole.append(level.tiles)
        return whole
