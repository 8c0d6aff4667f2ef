# SPDX-License-Identifier: MIT
"""Running build tools: output kept in a log, progress shown, failures reported with their first error line."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from harness.errors import RunError
from harness.packages.tree import Tools, tools

#: The host's own: git, which no bit depends on.
HOST = Tools()
#: Lines by which compilers, linkers, make, patch and git name what went wrong.
ERROR_LINE = re.compile(r"(\berror\b|\*\*\*|undefined reference|No such file|fatal:|No space left)", re.IGNORECASE)


def build_environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """The caller's environment less what would change a build's output, or point git at another repository."""
    environment = {
        key: value
        for key, value in os.environ.items()
        if key not in {"CFLAGS", "LDFLAGS", "KCFLAGS", "MAKEFLAGS"} and not key.startswith("GIT_")
    }
    environment.update({"LC_ALL": "C", "TZ": "UTC", **(extra or {})})
    return environment


def tool(
    argv: Sequence[str | Path],
    *,
    log: Path,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    on_line: Callable[[str], None] | None = None,
    what: str,
    among: Tools | None = None,
) -> None:
    """Run `argv`, append its output to `log`, call `on_line` per line; RunError naming the first error line.

    `among`: the tools that are used, those of this process unless told.
    """
    first_error = ""
    used = tools() if among is None else among
    with log.open("a", encoding="utf-8") as sink:
        sink.write(f"$ {' '.join(map(str, argv))}\n")
        process = subprocess.Popen(
            # pdeathsig: a harness that is killed leaves no compiler behind that writes into the store.
            ["setpriv", "--pdeathsig", "TERM", *used.run_words(argv, cwd)],
            cwd=cwd,
            env=used.environment(build_environment(env)),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
        )
        try:
            assert process.stdout is not None
            for line in process.stdout:
                sink.write(line)
                if not first_error and ERROR_LINE.search(line):
                    first_error = line.strip()
                if on_line:
                    on_line(line)
            status = process.wait()
        except BaseException:
            # Ctrl-C or a failing callback: make's children are in its own session, end them all.
            os.killpg(process.pid, signal.SIGTERM)
            process.wait()
            raise
    if status != 0:
        tail = log.read_text(errors="replace").splitlines()[-1:]
        raise RunError(f"{what} failed: {first_error or ''.join(tail) or f'exit {status}'}", hint=f"log: {log}")
