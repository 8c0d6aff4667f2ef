# SPDX-License-Identifier: MIT
"""Whether a place can be written, told before anything is made for it. Standard library only."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Literal

from harness.errors import UsageError

Written = Literal["file", "folder", "either"]


def check_writable(flag: str, path: Path, written: Written) -> None:
    """UsageError naming `flag` where no such file or folder can be made at `path`. Nothing is left there.

    Tried, for not everything that has the rights takes a file: /proc, a full disk, a read-only mount.
    """
    if written == "folder" and path.exists() and not path.is_dir():
        raise UsageError(f"{flag} {path}: is no folder")
    if path.is_file():
        if not os.access(path, os.W_OK):
            raise UsageError(f"{flag} {path}: cannot be written: Permission denied")
        return
    there = next(place for place in (path, *path.parents) if place.exists())
    if not there.is_dir():
        raise UsageError(f"{flag} {path}: {there} is no folder")
    try:
        tempfile.TemporaryDirectory(dir=there, prefix=".krepro-").cleanup()
    except OSError as error:
        raise UsageError(f"{flag} {path}: cannot write in {there}: {error.strerror}") from error
