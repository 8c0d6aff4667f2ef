# SPDX-License-Identifier: MIT
"""mypy over harness/ and the experiments, whose folders' names are none of Python's: `python -m tests.typecheck`.

Each experiment is seen through a link whose name is one, in a folder of its own. It is one run: two would each look at
the libraries.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from harness.paths import EXPERIMENTS, ROOT


def typecheck() -> tuple[int, str]:
    """mypy's exit status and what it says, with the folders' own names."""
    folders = [path.parent for path in sorted(EXPERIMENTS.glob("*/analysis.py"))]
    with tempfile.TemporaryDirectory() as scratch:
        base = Path(scratch) / "experiments"
        base.mkdir()
        for folder in folders:
            (base / folder.name.replace("-", "_")).symlink_to(folder)
        command = [sys.executable, "-m", "mypy", "--config-file", str(ROOT / "pyproject.toml"), "--exclude", "/guest/"]
        command += ["--cache-dir", str(ROOT / ".mypy_cache"), str(ROOT / "harness"), str(ROOT / "tasks.py")]
        done = subprocess.run(
            [*command, *(f"experiments/{folder.name.replace('-', '_')}" for folder in folders)],
            cwd=scratch,
            env={"MYPYPATH": f"{scratch}:{ROOT}", "PATH": "/usr/bin:/bin"},
            capture_output=True,
            text=True,
            check=False,
        )
    said = done.stdout + done.stderr
    for folder in folders:
        said = said.replace(f"experiments/{folder.name.replace('-', '_')}/", f"experiments/{folder.name}/")
    return done.returncode, said


if __name__ == "__main__":
    status, text = typecheck()
    print(text, end="")
    sys.exit(status)
