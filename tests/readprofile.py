# SPDX-License-Identifier: MIT
"""The output of util-linux's `readprofile -b`, parsed, for comparison with our decoder."""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from experiments.irq_hotspot.profile.buffer import decode, decode_as_readprofile

from harness.measure.symbols import read_system_map

READPROFILE = shutil.which("readprofile", path="/usr/sbin:/sbin:/usr/bin:/bin")


@dataclass(frozen=True)
class ReadprofileBins:
    """buckets: counter's address -> (symbol it is printed under, ticks); totals: (symbol, ticks) in order."""

    buckets: dict[int, tuple[str, int]]
    totals: list[tuple[str, int]]
    unknown: int
    total: int


def parse_readprofile_b(text: str) -> ReadprofileBins:
    """Parse `readprofile -b`; ValueError on a line that it does not know or when the trailer is missing."""
    buckets: dict[int, tuple[str, int]] = {}
    totals: list[tuple[str, int]] = []
    unknown = total = None
    name = ""
    for line in text.splitlines():
        if match := re.fullmatch(r"(\S+):", line):
            name = match[1]
        elif match := re.fullmatch(r"\t([0-9a-f]+)\t(\d+)", line):
            buckets[int(match[1], 16)] = (name, int(match[2]))
        elif match := re.fullmatch(r"  total\t+(\d+)", line):
            totals.append((name, int(match[1])))
        elif match := re.fullmatch(r"\s*(\d+) \*unknown\*", line):
            unknown = int(match[1])
        elif match := re.fullmatch(r"\s*(\d+) total\s+[-0-9.naif]+", line):
            total = int(match[1])
        else:
            raise ValueError(f"not a line of readprofile -b: {line!r}")
    if unknown is None or total is None:
        raise ValueError("readprofile -b ended without its trailer")
    return ReadprofileBins(buckets, totals, unknown, total)


def run_readprofile_b(profile: Path, system_map: Path) -> ReadprofileBins:
    """Run the real tool over files. `-n`: it guesses the byte order, wrongly when counts are large."""
    assert READPROFILE is not None, "readprofile is not installed (Debian package util-linux-extra or util-linux)"
    done = subprocess.run(
        [READPROFILE, "-n", "-p", profile, "-m", system_map, "-b"], capture_output=True, text=True, check=True
    )
    assert not done.stderr
    return parse_readprofile_b(done.stdout)


def assert_same_counters(raw: bytes, profile: Path, system_map: Path) -> None:
    """The real readprofile over these files has our total, our counters and the owners that its rule gives."""
    symbols = read_system_map(system_map)
    tool = run_readprofile_b(profile, system_map)
    ours = decode(raw, symbols)
    like = decode_as_readprofile(raw, symbols)
    stext, shift = int(symbols.stext), like.step.bit_length() - 1
    assert tool.total + tool.unknown == ours.total
    assert tool.unknown == ours.out_of_text == like.unknown
    nonzero = {stext + (int(b) << shift): int(ours.buckets[b]) for b in np.flatnonzero(ours.buckets[:-1])}
    assert {address: ticks for address, (_, ticks) in tool.buckets.items()} == nonzero
    owners = {address: str(like.name[like.owner[(address - stext) >> shift]]) for address in nonzero}
    assert {address: name for address, (name, _) in tool.buckets.items()} == owners
    assert tool.totals == [(str(n), int(t)) for n, t in zip(like.name, like.ticks, strict=True) if t]
