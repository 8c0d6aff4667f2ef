# SPDX-License-Identifier: MIT
"""Page numbers into small integers, and places by page."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy import sparse

from .packed import Coded, Entries, Words

Kind = TypeVar("Kind", bound=np.generic)
Numbers = npt.NDArray[np.intp]

#: A block of the table is for so many pages beside each other: a process's pages lie in few regions.
_BLOCK_BITS = 6
_BLOCK = 1 << _BLOCK_BITS
#: Blocks are looked up by the upper bits of a product, as a processor's cache looks up lines: without a search.
_SLOT_BITS, _SPREAD = 14, np.uint64(0x9E37_79B9_7F4A_7C15)
_NO_BLOCK = np.uint64(0xFFFF_FFFF_FFFF_FFFF)
#: A code is sorted by counting where there are at most so many codes for each place: all of them are passed over.
_DENSE = 8
#: Of a chunk, by which is judged whether pages follow each other.
_SAMPLE = 1024


@dataclass
class Groups:
    """n places with a page each, d distinct ones; `known` bounds their numbers.

    number   (n,)  of each place's page
    """

    number: npt.NDArray[np.integer]
    known: int

    @property
    def order(self) -> Numbers:
        """(n,) places sorted by the page's number, each page's places in their own order."""
        return self._sorted[0]

    @property
    def first(self) -> Numbers:
        """(d,) where each page's places begin in `order`."""
        return self._sorted[1]

    @cached_property
    def last(self) -> Numbers:
        """(d,) where they end, the last one included."""
        return self.first + self.counts - 1

    @cached_property
    def counts(self) -> Numbers:
        """(d,) how many there are."""
        return np.diff(self.first, append=self.number.size)

    @property
    def numbers(self) -> Numbers:
        """(d,) of the distinct pages, as `first` has them."""
        return self._sorted[2]

    def sums(self, values: npt.NDArray[np.generic]) -> npt.NDArray[np.int64]:
        """(d,) of whole numbers or marks, shape (n,)."""
        total = np.cumsum(values.take(self.order), dtype=np.int64).take(self.last)
        total[1:] -= total[:-1].copy()
        return total

    @cached_property
    def _sorted(self) -> tuple[Numbers, Numbers, Numbers]:
        """order, first, numbers."""
        if _few(self.number, self.known):
            order, begins = counting_sort(self.number, self.known, _places(self.number.size))
            numbers = np.flatnonzero(begins[1:] != begins[:-1])
            return order, begins[numbers].astype(np.intp), numbers
        order = stable_order(self.number, self.known)
        ordered = self.number[order]
        first = np.flatnonzero(np.concatenate([np.ones(min(1, ordered.size), bool), ordered[1:] != ordered[:-1]]))
        return order, first, ordered[first].astype(np.intp)


def stable_order(codes: npt.NDArray[np.integer], known: int) -> Numbers:
    """Places sorted by code, which are from 0 up to `known`."""
    if _few(codes, known):
        return counting_sort(codes, known, _places(codes.size))[0]
    if known > 1 << 32:
        return np.argsort(codes, kind="stable")
    order = np.argsort(codes.astype(np.uint16), kind="stable")  # 16 bits are sorted by radix
    if known > 1 << 16:
        order = order[np.argsort((codes >> 16).astype(np.uint16)[order], kind="stable")]
    return order


def distinct(values: npt.NDArray[Kind]) -> npt.NDArray[Kind]:
    """Those of them, shape (n,), sorted, each once. np.unique hashes them first: of a million, ten times as slow."""
    ordered = np.sort(values)
    changes = np.ones(ordered.size, dtype=bool)
    np.not_equal(ordered[1:], ordered[:-1], out=changes[1:])
    return ordered[changes]


def _few(codes: npt.NDArray[np.integer], known: int) -> bool:
    return known <= _DENSE * codes.size


def counting_sort(
    codes: npt.NDArray[np.integer], known: int, values: npt.NDArray[Kind]
) -> tuple[npt.NDArray[Kind], npt.NDArray[np.int32]]:
    """`values`, shape (n,), sorted by code and stably; and where each code begins and ends there, shape (known + 1,).

    A matrix of one row, by columns: scipy counts and places them in compiled code. numpy's sorts take several times
    as long.
    """
    row = np.array([0, codes.size], dtype=np.int32)
    # Of codes that come several times each is an entry of its own.
    matrix = sparse.csr_array((values, codes.astype(np.int32), row), shape=(1, known)).tocsc()
    return matrix.data, matrix.indptr


@functools.lru_cache(maxsize=2)
def _places(size: int) -> Numbers:
    """0 up to `size`; most chunks are of one size."""
    return np.arange(size)


class PageIndex:
    """Gives each page a number from 0 on; memory is proportional to the pages, or their surroundings of 64 pages."""

    def __init__(self) -> None:
        self._blocks: dict[int, int] = {}
        self._table = np.full(_BLOCK, -1, dtype=np.intp)
        # Of each slot the block that was looked up last, and where it begins.
        self._slot_block = np.full(1 << _SLOT_BITS, _NO_BLOCK, dtype=np.uint64)
        self._slot_begins = np.zeros(1 << _SLOT_BITS, dtype=np.intp)
        self._pages = np.empty(1024, dtype=np.uint64)
        self._count = 0
        # Entries that were looked up last, with what their words were mixed, and the number of each, or -1.
        self._coded: tuple[Entries | None, int] = None, 0
        self._of_entry = np.empty(0, dtype=np.intp)

    def __len__(self) -> int:
        return self._count

    def of(self, pages: Words) -> Numbers:
        """Numbers of `pages`, shape (n,); pages that are new get the next ones."""
        place = self._places(pages)
        number: Numbers = self._table[place]
        if number.size and number.min() < 0:
            new = np.flatnonzero(number < 0)
            self._number(pages[new])
            number[new] = self._table[place[new]]
        return number

    def of_coded(self, coded: Coded, mixed: int = 0) -> Numbers:
        """The same of a column of words, exclusive-or `mixed`, shape (n,): each of its entries is looked up once."""
        key, words = (coded.entries, mixed), coded.entries.words
        if self._coded != key:
            self._coded, self._of_entry = key, np.empty(0, dtype=np.intp)
        if more := words.size - self._of_entry.size:
            self._of_entry = np.append(self._of_entry, np.full(more, -1))
        number: Numbers = self._of_entry.take(coded.code, mode="clip")
        if number.size and number.min() < 0:
            new = np.flatnonzero(number < 0)
            codes = coded.code[new]
            number[new] = self._of_entry[codes] = self.of(words[codes] ^ np.uint64(mixed))
        return number

    def _places(self, pages: Words) -> Numbers:
        """Where the table has them."""
        place = self._begins(pages >> np.uint64(_BLOCK_BITS))
        place |= (pages & np.uint64(_BLOCK - 1)).view(np.int64)
        return place

    def _number(self, pages: Words) -> None:
        """Give the next numbers to pages that have none."""
        # Mostly a page comes several times in a row: what is left then is sorted.
        fresh = distinct(pages[np.concatenate([[True], pages[1:] != pages[:-1]])])
        first, self._count = self._count, self._count + fresh.size
        self._pages = self.grown(self._pages)
        self._pages[first : self._count] = fresh
        self._table[self._places(fresh)] = np.arange(first, self._count)

    def _begins(self, block: Words) -> Numbers:
        """Where each block of pages begins in the table."""
        first = block[:_SAMPLE]
        if np.count_nonzero(first[1:] != first[:-1]) < first.size // 8:
            # Walks stay in a block for long: each time is looked up once.
            runs = np.concatenate([[0], np.flatnonzero(block[1:] != block[:-1]) + 1])
            return np.repeat(self._looked_up(block[runs]), np.diff(runs, append=block.size))
        return self._looked_up(block)

    def _looked_up(self, block: Words) -> Numbers:
        slot = (block * _SPREAD) >> np.uint64(64 - _SLOT_BITS)
        begins: Numbers = self._slot_begins[slot]
        missed = np.flatnonzero(self._slot_block[slot] != block)
        if missed.size:
            begins[missed] = self._found(block[missed], slot[missed])
        return begins

    def _found(self, block: Words, slot: Words) -> Numbers:
        """The same, for blocks whose slots are another's, and theirs from now on; new ones get a place."""
        codes, distinct = pd.factorize(block)
        known = self._blocks
        begins = np.array([known.setdefault(one, len(known)) for one in distinct.tolist()], dtype=np.intp)
        need = len(known) * _BLOCK
        if self._table.size < need:
            self._table = _wider(self._table, need, -1)
        begins <<= _BLOCK_BITS
        every: Numbers = begins[codes]
        self._slot_block[slot] = block
        self._slot_begins[slot] = every
        return every

    def pages(self) -> Words:
        """The pages in the order of their numbers."""
        return self._pages[: self._count]

    def grown(self, array: npt.NDArray[Kind], fill: int = 0) -> npt.NDArray[Kind]:
        """`array` with room for all numbers along its first axis: itself, or a copy of at least twice the length."""
        return array if len(array) >= self._count else _wider(array, self._count, fill)


def _wider(array: npt.NDArray[Kind], least: int, fill: int) -> npt.NDArray[Kind]:
    wide = np.full((max(2 * len(array), least), *array.shape[1:]), fill, dtype=array.dtype)
    wide[: len(array)] = array
    return wide
