# SPDX-License-Identifier: MIT
"""A process's mappings, as /proc/PID/maps had them at its end."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from harness.errors import RunError
from harness.measure.raw import read_text

from .records import PAGE_SHIFT, Flags, Words

_LINE = re.compile(r"([0-9a-f]{1,16})-([0-9a-f]{1,16}) ([r-][w-][x-][ps]) ([0-9a-f]+) \S+ \d+ *(.*)")
#: The kernel's own page at the end of all addresses: nobody reads data there.
_VSYSCALL = "[vsyscall]"


@dataclass(frozen=True)
class Mapping:
    """Pages `first` up to, not with, `last`; `name` is a file's path, the kernel's name in brackets, or nothing.

    `offset`: the page of the file that `first` is.
    """

    first: int
    last: int
    executable: bool
    writable: bool
    name: str
    offset: int = 0


class Maps:
    """Mappings in order of their addresses."""

    def __init__(self, mappings: list[Mapping]) -> None:
        self.mappings = sorted(mappings, key=lambda mapping: mapping.first)

    def code(self, pages: Words) -> Flags:
        """Which of `pages`, shape (n,), lie in a mapping that can be executed."""
        ranges = [mapping for mapping in self.mappings if mapping.executable]
        first = np.array([mapping.first for mapping in ranges], dtype=np.uint64)
        last = np.array([mapping.last for mapping in ranges], dtype=np.uint64)
        if not ranges:
            return np.zeros(pages.size, dtype=bool)
        at = np.searchsorted(first, pages, side="right")
        inside: Flags = (at > 0) & (pages < last[np.maximum(at, 1) - 1])
        return inside

    def code_pages(self) -> Words:
        """All pages of mappings that can be executed: sorted, shape (m,)."""
        parts = [np.arange(one.first, one.last, dtype=np.uint64) for one in self.mappings if one.executable]
        return np.concatenate(parts) if parts else np.empty(0, dtype=np.uint64)


def read_maps(path: Path) -> Maps:
    """RunError when the file is absent, empty, or has a line of another form."""
    mappings = []
    for number, line in enumerate(read_text(path).splitlines(), 1):
        match = _LINE.fullmatch(line)
        if match is None:
            raise RunError("is no line of /proc/PID/maps", where=f"{path}:{number}")
        first, last = (int(text, 16) >> PAGE_SHIFT for text in match.group(1, 2))
        if match[5] != _VSYSCALL:
            offset = int(match[4], 16) >> PAGE_SHIFT
            mappings.append(Mapping(first, last, match[3][2] == "x", match[3][1] == "w", match[5], offset))
    if not mappings:
        raise RunError("has no mappings", where=str(path))
    return Maps(mappings)
