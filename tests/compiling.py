# SPDX-License-Identifier: MIT
"""The compiler of this process's tools, for tests."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

from harness.packages.tree import tools


def start(*argv: str | Path, cwd: Path | None = None, **options: Any) -> subprocess.Popen[str]:
    """Start a program of the tools; `options` are Popen's."""
    used = tools()
    words = used.run_words(argv, cwd)
    return subprocess.Popen(words, cwd=cwd, env=used.environment(os.environ), text=True, **options)


def run(*argv: str | Path, cwd: Path | None = None, text: str | None = None) -> str:
    """What a program of the tools prints, given `text`; CalledProcessError when it fails."""
    process = start(*argv, cwd=cwd, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    printed, _ = process.communicate(text)
    if process.returncode != 0:
        raise subprocess.CalledProcessError(process.returncode, list(argv), printed)
    return printed
