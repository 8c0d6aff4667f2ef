# SPDX-License-Identifier: MIT
"""The compiler, for what an experiment measures on this host itself."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

from harness.packages.tree import tools


def gcc(arguments: Sequence[str | Path], folder: Path) -> subprocess.CompletedProcess[str]:
    """gcc of this process's tools, in `folder`, and what it said in English. What it makes runs here when static."""
    used = tools()
    return subprocess.run(
        used.run_words(["gcc", *arguments], folder),
        cwd=folder,
        env=used.environment(os.environ | {"LC_ALL": "C"}),
        capture_output=True,
        text=True,
        check=False,
    )
