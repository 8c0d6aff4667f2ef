# SPDX-License-Identifier: MIT
"""Temporary folders that a killed process cannot leave behind for ever."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

PREFIX = ".krepro-"


def scratch_folder(parent: Path, label: str) -> Path:
    """A new folder in `parent`, named by this process; folders there whose process has ended are removed first.

    The caller removes the folder; only a process that is killed does not come to that.
    """
    parent.mkdir(parents=True, exist_ok=True)
    for path in parent.glob(f"{PREFIX}[0-9]*"):
        owner = path.name.removeprefix(PREFIX).split("-", 1)[0]
        if not Path("/proc", owner).exists():
            shutil.rmtree(path, ignore_errors=True)
    return Path(tempfile.mkdtemp(prefix=f"{PREFIX}{os.getpid()}-{label}-", dir=parent))
