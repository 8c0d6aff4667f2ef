# SPDX-License-Identifier: MIT
"""`./inv` as a newcomer calls it, in a folder of his own, and the page that it wrote."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from harness.paths import ROOT

INV = [sys.executable, "-m", "harness.commands.program"]


def inv(folder: Path, *words: str, stdin: bytes = b"", **settings: str) -> subprocess.CompletedProcess[str]:
    """What a user gets who calls `./inv` in `folder`; `settings`: further variables of the environment."""
    env = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "PYTHONPATH": str(ROOT), "HOME": str(Path.home()), **settings}
    source = folder / ".stdin"
    source.write_bytes(stdin)
    with source.open("rb") as file:
        return subprocess.run(
            [*INV, *words], stdin=file, capture_output=True, text=True, check=False, cwd=folder, env=env, timeout=1700
        )


def report_of(done: subprocess.CompletedProcess[str]) -> Path:
    assert done.returncode == 0, done.stderr
    page = Path(done.stdout.splitlines()[-1])
    assert page.name == "report.html"
    return page.parent
