# SPDX-License-Identifier: MIT
"""mypy over the experiments, whose folders' names are none of Python's: `python -m tests.typecheck [NAME ...]`.

Each folder is seen through a link whose name is one, in a folder of its own.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from harness.paths import EXPERIMENTS, ROOT


def typecheck(names: Sequence[str] = ()) -> tuple[int, str]:
    """mypy's exit status and what it says, with the folders' own names."""
    folders = [path.parent for path in sorted(EXPERIMENTS.glob("*/analysis.py"))]
    chosen = [folder for folder in folders if not names or folder.name in names]
    with tempfile.TemporaryDirectory() as scratch:
        base = Path(scratch) / "experiments"
        base.mkdir()
        for folder in chosen:
            (base / folder.name.replace("-", "_")).symlink_to(folder)
        command = [sys.executable, "-m", "mypy", "--config-file", str(ROOT / "pyproject.toml"), "--exclude", "/guest/"]
        modules = [f"experiments/{folder.name.replace('-', '_')}" for folder in chosen]
        cache = ["--cache-dir", str(ROOT / ".mypy_cache" / "experiments")]
        done = subprocess.run(
            [*command, *cache, *modules],
            cwd=scratch,
            env={"MYPYPATH": f"{scratch}:{ROOT}", "PATH": "/usr/bin:/bin"},
            capture_output=True,
            text=True,
            check=False,
        )
    said = done.stdout + done.stderr
    for folder in chosen:
        said = said.replace(f"experiments/{folder.name.replace('-', '_')}/", f"experiments/{folder.name}/")
    return done.returncode, said


if __name__ == "__main__":
    status, text = typecheck(sys.argv[1:])
    print(text, end="")
    sys.exit(status)
