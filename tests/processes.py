# SPDX-License-Identifier: MIT
"""Processes of tests: QEMU's of one test, told from others by the folder of their files; programs that get signals."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

#: Seconds that nothing lasts which a test waits for, however busy the host: what has not come then does not come.
PATIENCE_S = 600.0
#: Before a program's words: it leaves ignored what was, and a test run in the background of a shell ignores some.
DEFAULT_SIGNALS = ("env", "--default-signal=INT,TERM,HUP,QUIT")


def eventually(condition: Callable[[], object], seconds: float = PATIENCE_S) -> bool:
    """Whether `condition` holds within so many seconds; it is looked at ten times in each."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.1)
    return True


def _processes(marker: Path, wanted: Callable[[list[bytes]], bool]) -> list[int]:
    """Those whose words are wanted, and of which one names what is below `marker` (a TMPDIR)."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = entry.read_bytes().split(b"\0")
        except OSError:
            continue
        if wanted(words) and any(str(marker).encode() in word for word in words):
            found.append(int(entry.parent.name))
    return found


def machines(marker: Path) -> list[int]:
    """Processes of QEMU that are machines, not asked for a version, and whose files are below `marker`."""
    return _processes(marker, lambda words: words[0].endswith(b"qemu-system-x86_64") and b"-machine" in words)


def sandboxes(marker: Path) -> list[int]:
    """Processes of bubblewrap that stand before a program, or wait to, with files below `marker`."""
    return _processes(marker, lambda words: any(word.endswith(b"bwrap") for word in words[:6]))


def worker_of(machine: int) -> int:
    """The process of krepro that runs this QEMU: its parent, or bubblewrap's, which stands between the two."""
    process = machine
    while True:
        process = int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])
        if b"bwrap" not in Path(f"/proc/{process}/cmdline").read_bytes():
            return process
