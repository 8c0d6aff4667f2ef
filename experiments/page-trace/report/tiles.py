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
import itertools
import tempfile
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt

from ..trace.index import Numbers, PageIndex, stable_order
from ..trace.records import VISIT, Records, Words
from ..trace.visits import Ints

COLUMN_BITS = 9
COLUMNS = 1 << COLUMN_BITS
MOST_LEVELS = 12
#: Rows of level 0, as a power of two; each further level may have twice as many.
ROW_BITS = 12
#: Cells of one level.
MOST_CELLS = 40_000_000
#: On average, a column of the deepest level has so many visits.
LEAST_VISITS = 2
#: Of zlib. Level 6 makes tiles 6 to 7 % smaller, and takes 2.5 to 3.7 times as long.
_LEVEL = 1
#: Where `Cells` have them.
_VISITS, _WRITES = 32, np.int64((1 << 32) - 1)


@dataclass(frozen=True)
class Cells:
    """Cells of one tile, shape (n,): distinct keys, sorted; visits << 32 | writes, which are of them those that write.

    Both counts in one number are moved and added up together.
    """

    key: Words
    counts: Ints


def merged(parts: Iterable[Cells]) -> Cells:
    """Cells of the same tile, together."""
    every = list(parts)
    key = np.concatenate([one.key for one in every])
    # Parts are sorted, or nearly: a stable sort merges such runs.
    order = np.argsort(key, kind="stable")
    counts = np.concatenate([one.counts for one in every]).take(order)
    key = key.take(order)
    begins = _runs(key)
    return Cells(key[begins], np.add.reduceat(counts, begins))


def _runs(column: np.ndarray) -> Numbers:
    """Where rows begin that are not as the one before; shape (n,), none of them empty."""
    changes = np.ones(column.size, dtype=bool)
    np.not_equal(column[1:], column[:-1], out=changes[1:])
    return np.flatnonzero(changes)


def halved(cells: Cells, right: bool, rows: int) -> Cells:
    """The same on the next coarser level, in the left or right half of a tile, where a row is 2**`rows` of these.

    Keys may come twice, and are not sorted.
    """
    row, column = cells.key >> np.uint64(COLUMN_BITS + rows), cells.key & np.uint64(COLUMNS - 1)
    column >>= np.uint64(1)
    row <<= np.uint64(COLUMN_BITS)
    row |= column
    return Cells(row | np.uint64(COLUMNS // 2) if right else row, cells.counts)


def encoded(cells: Cells) -> str:
    """The text of a tile."""
    visits = cells.counts >> _VISITS
    level = np.minimum(np.rint(np.log2(visits) * 8), 127).astype(np.uint8)
    level |= ((cells.counts & _WRITES) != 0).view(np.uint8) << np.uint8(7)
    deltas = np.diff(cells.key, prepend=np.uint64(0))
    return base64.b64encode(zlib.compress(_varints(deltas) + level.tobytes(), _LEVEL)).decode()


def _varints(numbers: Words) -> bytes:
    """LEB128 of each number, one after the other."""
    most = int(numbers.max(initial=0))
    width = max(1, -(-most.bit_length() // 7))
    rest: npt.NDArray[np.unsignedinteger] = numbers.astype(np.uint32) if most < 1 << 32 else numbers
    # As many bytes for each as the longest takes; those that are there then stay.
    text, there = np.empty((rest.size, width), dtype=np.uint8), np.empty((rest.size, width), dtype=bool)
    for at in range(width):
        np.not_equal(rest, 0, out=there[:, at])
        np.bitwise_and(rest.astype(np.uint8), np.uint8(127), out=text[:, at])
        rest = rest >> rest.dtype.type(7)
        text[:, at] |= (rest != 0).view(np.uint8) << np.uint8(7)
    there[:, 0] = True
    return text[there].tobytes()


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
        self._pages = pages.size
        # Sorted, they get the numbers of their rows.
        self._rows = PageIndex()
        self._rows.of(pages)
        whole = max(0, int(pages.size - 1).bit_length() - ROW_BITS)
        self.grouped = [max(0, whole - level) for level in range(self.depth + 1)]
        self._span = max(1, span_ns)
        self._most = most_cells
        self._levels = [_Level(Tiles(folder)) for _ in range(self.depth + 1)]

    def add(self, records: Records) -> None:
        """Put a chunk's visits into cells."""
        visits = np.flatnonzero(records.type == VISIT)
        if not visits.size:
            return
        visit = slice(None) if visits.size == len(records) else visits
        # Cells of levels that are dropped already are not made.
        level = max(number for number, one in enumerate(self._levels) if number == 0 or not one.dropped)
        coded = records.coded("page")
        row = self._rows.of_coded(coded.at(visit)) if coded else self._rows.of(records.page[visit])
        row >>= self.grouped[level]
        # In two steps: a time by as many columns may not fit into 64 bits.
        time = records.time_ns[visit].astype(np.float64)
        columns = COLUMNS << level
        time *= columns / self._span
        column = np.clip(time, 0, columns - 1, out=time).astype(np.int64)
        np.maximum.accumulate(column, out=column)
        # They come in the order of columns, and so of tiles: stably sorted by tile and row, they are so by key.
        tile = column >> COLUMN_BITS
        changes = _runs(tile)
        tiles = tile[changes].tolist()
        line = row
        if len(tiles) > 1:
            line = row + np.repeat(np.arange(len(tiles)) * self._pages, np.diff(changes, append=tile.size))
        order = stable_order(line, len(tiles) * self._pages)
        place = (line << COLUMN_BITS | column & COLUMNS - 1).take(order)
        begins = _runs(place)
        counts = np.add.reduceat(records.write[visit].take(order) | np.int64(1 << _VISITS), begins)
        place = place[begins]
        of_tile = self._pages << COLUMN_BITS
        bounds = np.searchsorted(place, np.arange(len(tiles) + 1) * of_tile).tolist()
        for at, (first, last) in enumerate(itertools.pairwise(bounds)):
            key = (place[first:last] - at * of_tile).view(np.uint64)
            self._put(level, max(tiles[at], self._levels[level].open), Cells(key, counts[first:last]))
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
