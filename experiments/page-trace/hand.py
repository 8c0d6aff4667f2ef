# SPDX-License-Identifier: MIT
"""What a person counts on paper: visits of some known programs, and of one that nobody here wrote."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True)
class Hand:
    """Visits, consecutive ones to one page being one; and how they were counted."""

    visits: int
    how: str


#: dd of Debian's busybox-static reads 1 MiB of zeros four times (guest/known-cases.sh).
OUTSIDE, READS, BUFFER_PAGES = "debian-dd", 4, 256
#: By case: guest/pageknown/plain.c and multi.c, read with a pencil.
BY_HAND = {
    "forward": Hand(64, "64 pages, one after the other"),
    "stride": Hand(64, "every third of 64 pages, from the first, second and third on: 22 + 21 + 21"),
    "ping-pong": Hand(200, "100 times one page and the other"),
    "dwell": Hand(8, "eight stays of a thousand accesses, no two in a row on one page"),
    "matmul": Hand(1088, "64 numbers of C, for each 8 times a row of A and one of B, then the row of C: 64 × 17"),
    "straddle-load": Hand(40, "20 loads of two pages each"),
    "push-straddle": Hand(80, "20 pushes, each from two pages to two pages"),
    "gather": Hand(160, "20 gathers, each of eight elements on eight pages"),
    OUTSIDE: Hand(READS * BUFFER_PAGES, "four reads into a mapping of 1 MiB: 4 × 256"),
}
#: No shorter run of pages that the kernel writes to, one after the other, is a read into the buffer.
_LEAST = 16

Pages = npt.NDArray[np.int64]


def reads_into_buffer(pages: Pages, by_kernel: npt.NDArray[np.bool_]) -> tuple[int, str | None]:
    """Of a trace of OUTSIDE, the visits of the kernel's writes into the buffer, and how they differ from the count.

    `pages` of its visits in order, shape (n,); `by_kernel`: whether each begins with a write by the kernel.
    """
    written = pages[by_kernel]
    written = written[np.diff(written, prepend=-1) != 0]
    runs = np.split(written, np.flatnonzero(np.diff(written) != 1) + 1)
    reads = [run for run in runs if run.size >= _LEAST]
    lengths, begins = [int(run.size) for run in reads], {int(run[0]) for run in reads}
    right = lengths == [BUFFER_PAGES] * READS and len(begins) == 1
    return sum(lengths), None if right else f"the kernel wrote runs of {lengths} pages from {sorted(begins)} on"
