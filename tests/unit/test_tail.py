# SPDX-License-Identifier: MIT
"""What a guest wrote costs as much memory as is looked at, and no time without end."""

from __future__ import annotations

import time
import tracemalloc
from pathlib import Path

from harness.guest.session import JobResult
from harness.machine.machine import Machine
from harness.machine.tail import BLOCK_BYTES, TAIL_BYTES, Kept, read_tail
from tests.processes import PATIENCE_S
from tests.unit.test_recording import FILES, spec

MIB = 1 << 20


def long_file(path: Path, end: bytes) -> Path:
    """A file of 200 MiB, which takes one block of the disk."""
    with path.open("wb") as file:
        file.truncate(200 * MIB - len(end))
        file.seek(0, 2)
        file.write(end)
    return path


def test_a_tail_is_the_end(tmp_path):
    path = tmp_path / "x"
    path.write_bytes(b"abc\xff\ndef\n")
    assert read_tail(path) == "abc\ufffd\ndef\n"
    assert read_tail(path, 4) == "def\n"
    assert read_tail(long_file(tmp_path / "long", b"\nlast\n"), 6) == "\nlast\n"


def test_a_console_of_200_mib_takes_little_memory(tmp_path):
    """It took from 0.6 to 4.6 GiB."""
    long_file(tmp_path / "console.log", b"\nKernel panic\n")
    long_file(tmp_path / "job.stderr", b"\nno such file\n")
    tracemalloc.start()
    try:
        console = Machine(spec(), FILES, tmp_path).console()
        stderr = JobResult(1, tmp_path, 0).stderr
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert console.splitlines()[-1] == "Kernel panic"
    assert stderr.splitlines()[-1] == "no such file"
    assert peak < 16 * MIB


def test_a_machine_that_has_printed_nothing_has_an_empty_console(tmp_path):
    assert Machine(spec(), FILES, tmp_path).console() == ""


def test_of_a_stream_the_end_is_kept():
    kept = Kept(10)
    for number in range(100_000):
        kept.add(b"%09d\n" % number)
    assert len(kept.data) <= 10 + BLOCK_BYTES
    assert kept.data.endswith(b"000099998\n000099999\n")
    assert TAIL_BYTES > BLOCK_BYTES


def test_a_stream_without_end_ends_at_the_deadline():
    kept = Kept()
    assert not kept.to_end(lambda most: b"x" * most, time.monotonic() + 0.05)
    assert len(kept.data) <= TAIL_BYTES + BLOCK_BYTES
    blocks = [b"a", b"b", b""]
    assert Kept().to_end(lambda most: blocks.pop(0), time.monotonic() + PATIENCE_S)
