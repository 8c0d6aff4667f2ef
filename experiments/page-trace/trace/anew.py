# SPDX-License-Identifier: MIT
"""Visits that were none: an instruction that is begun anew makes its visits again, and the record says so (AGAIN).

It replaces the visits of its thread and mode (user, kernel) from the last one on that does not belong to the
instruction of the visit before.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

KERNEL, SAME, AGAIN = 2, 4, 8
_TYPE = 0xF00

Words = npt.NDArray[np.uint64]
Places = npt.NDArray[np.int64]


def replaced(chunks: Iterable[Words]) -> Places:
    """Positions, sorted, of the records that later ones replace; `chunks`: words of shape (n, 3), in order."""
    last: dict[int, Places] = {}
    gone: list[Places] = []
    first = 0
    for words in chunks:
        flags = words[:, 0].astype(np.uint16) & np.uint16(0xFFF)
        for key, places in _by_thread(words, flags):
            head = flags[places] & SAME == 0
            group = np.cumsum(head)  # 0: those that go on from the chunk before
            again = head & (flags[places] & AGAIN != 0)
            if again.any():
                void = np.zeros(int(group[-1]) + 1, dtype=bool)
                void[group[again] - 1] = True
                if void[0] and key in last:
                    gone.append(last[key])
                gone.append(places[void[group]] + first)
            latest = places[group == group[-1]] + first
            last[key] = latest if group[-1] else np.concatenate([last.get(key, latest[:0]), latest])
        first += len(words)
    return np.unique(np.concatenate(gone)) if gone else np.empty(0, dtype=np.int64)


def _by_thread(words: Words, flags: npt.NDArray[np.uint16]) -> list[tuple[int, Places]]:
    """Places of the visits of each thread and mode."""
    visits = np.flatnonzero(flags & _TYPE == 0)
    if not visits.size:
        return []
    key = (words[visits, 1] & 0xFFF | words[visits, 2] >> 48 << 12) << 1 | (flags[visits] & KERNEL != 0)
    distinct = [int(key[0])] if (key == key[0]).all() else np.unique(key).tolist()
    return [(one, visits[key == one]) for one in distinct]
