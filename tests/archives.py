# SPDX-License-Identifier: MIT
"""tar archives of the tests' own."""

from __future__ import annotations

import tarfile
from pathlib import Path


def extract_all(archive: tarfile.TarFile, target: Path) -> None:
    """All of it; Debian 12's Python knows no filters, and later ones want one."""
    if hasattr(tarfile, "data_filter"):
        archive.extractall(target, filter="data")
    else:
        archive.extractall(target)
