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
_TYPE = 0xF00

Words = npt.NDArray[np.uint64]
Places = npt.NDArray[np.int64]


def replaced(chunks: Iterable[Words]) -> Places:
    """Positions, sorted, of the records that later ones replace; `chunks`: words of shape (n, 3), in order."""
    last: dict[int, Places] = {}
    gone: list[Places] = []
    first = 0
    for words in chunks:
        flags = words[:, 0].astype(np.uint16)
        for key, places in _by_thread(words, flags):
            own = flags[places]
            heads = np.flatnonzero(own & SAME == 0)  # each begins a group; in front of them the one of the chunk before
            for group in np.flatnonzero(own[heads] & AGAIN).tolist():
                if group == 0 and key in last:
                    gone.append(last[key])
                gone.append(places[heads[group - 1] if group else 0 : heads[group]] + first)
            if heads.size:
                last[key] = places[heads[-1] :] + first
            else:
                last[key] = np.concatenate([last.get(key, places[:0]), places + first])
        first += len(words)
    return np.unique(np.concatenate(gone)) if gone else np.empty(0, dtype=np.int64)


def _by_thread(words: Words, flags: npt.NDArray[np.uint16]) -> list[tuple[int, Places]]:
    """Places of the visits of each thread and mode."""
    visits = np.flatnonzero(flags & _TYPE == 0)
    if not visits.size:
        return []
    key = words[visits, 2] >> 48 << 12
    key |= words[visits, 1] & 0xFFF
    codes, keys = pd.factorize(key << 1 | (flags[visits] & KERNEL != 0))
    return [(one, visits if keys.size == 1 else visits[codes == code]) for code, one in enumerate(keys.tolist())]
