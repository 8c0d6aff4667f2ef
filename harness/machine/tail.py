# SPDX-License-Identifier: MIT
"""The end of what a guest wrote, whatever it wrote before: a guest decides how much there is, not how much is read."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from pathlib import Path

#: Of a console or a stderr: more than any boot prints.
TAIL_BYTES = 1 << 18
BLOCK_BYTES = 1 << 16


def read_tail(path: Path, most: int = TAIL_BYTES) -> str:
    """The last `most` bytes of a file as text, a byte that is no UTF-8 as U+FFFD. OSError when it is not there."""
    with path.open("rb") as file:
        size = file.seek(0, 2)
        file.seek(max(size - most, 0))
        return file.read(most).decode(errors="replace")


def keep_end(source: Path, target: Path, most: int) -> None:
    """Copy a file; of a longer one its last `most` bytes, behind a line that says how many before them are left out."""
    with source.open("rb") as file, target.open("wb") as sink:
        left_out = max(file.seek(0, 2) - most, 0)
        file.seek(left_out)
        if left_out:
            sink.write(f"krepro: {left_out} bytes before this are left out\n".encode())
        shutil.copyfileobj(file, sink)


class Kept:
    """The last bytes of a stream; `data` has at most `most` of them, and a block."""

    def __init__(self, most: int = TAIL_BYTES) -> None:
        self.data = bytearray()
        self._most = most

    def add(self, block: bytes) -> None:
        self.data += block
        if len(self.data) > self._most + BLOCK_BYTES:
            del self.data[: -self._most]

    def to_end(self, receive: Callable[[int], bytes], deadline: float) -> bool:
        """Take what `receive` gives until it gives nothing; False when that is not over at `deadline` (monotonic)."""
        while block := receive(BLOCK_BYTES):
            self.add(block)
            if time.monotonic() > deadline:
                return False
        return True
