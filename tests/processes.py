"""QEMU processes of one test, told from others by the folder that their files are in."""

from __future__ import annotations

from pathlib import Path


def machines(marker: Path) -> list[int]:
    """Processes of QEMU whose files are below `marker` (a run's TMPDIR)."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = entry.read_bytes().split(b"\0")
        except OSError:
            continue
        if words[0].endswith(b"qemu-system-x86_64") and any(str(marker).encode() in word for word in words):
            found.append(int(entry.parent.name))
    return found
