# SPDX-License-Identifier: MIT
"""Visits that were none: an instruction that is begun anew makes its visits again, and the record says so (AGAIN).

It replaces the visits of its thread and mode (user, kernel) from the last one on that does not belong to the
instruction of the visit before.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt
import pandas as pd

KERNEL, SAME, AGAIN = 2, 4, 8
#: Of a record's mark: the type, 0 for visits.
_TYPE = 0xF0

Marks = npt.NDArray[np.uint8]
Tid = np.uint32 | npt.NDArray[np.uint32]
Places = npt.NDArray[np.int64]


def replaced(chunks: Iterable[tuple[Marks, Tid]]) -> Places:
    """Positions, sorted, of the records that later ones replace.

    `chunks`, in order: bits 0-3 of each record's flags, and above them its type, shape (n,); its thread, one for all or
    shape (n,).
    """
    last: dict[int, Places] = {}
    gone: list[Places] = []
    first = 0
    for marks, tid in chunks:
        for key, places in _by_thread(marks, tid):
            own = marks[places]
            heads = np.flatnonzero(own & SAME == 0)  # each begins a group; in front of them the one of the chunk before
            for group in np.flatnonzero(own[heads] & AGAIN).tolist():
                if group == 0 and key in last:
                    gone.append(last[key])
                gone.append(places[heads[group - 1] if group else 0 : heads[group]] + first)
            if heads.size:
                last[key] = places[heads[-1] :] + first
            else:
                last[key] = np.concatenate([last.get(key, places[:0]), places + first])
        first += marks.size
    return np.unique(np.concatenate(gone)) if gone else np.empty(0, dtype=np.int64)


def _by_thread(marks: Marks, tid: Tid) -> list[tuple[int, Places]]:
    """Places of the visits of each thread and mode."""
    visits = np.flatnonzero(marks & _TYPE == 0)
    if not visits.size:
        return []
    kernel = marks[visits] & KERNEL != 0
    if not isinstance(tid, np.ndarray):
        modes = ((0, visits[~kernel]), (1, visits[kernel])) if kernel.any() else ((0, visits),)
        return [(int(tid) << 1 | mode, places) for mode, places in modes if places.size]
    codes, keys = pd.factorize(tid[visits].astype(np.uint64) << np.uint64(1) | kernel)
    if keys.size == 1:
        return [(int(keys[0]), visits)]
    return [(int(key), visits[codes == code]) for code, key in enumerate(keys)]
