# SPDX-License-Identifier: MIT
"""The kernel's filters as a program of this host: the patches' own files, and threads.c beside them."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

from harness.errors import RunError
from harness.measure.compiling import gcc

HERE = Path(__file__).parent
PATCHES = HERE.parents[2] / "kernel-patches/lock-trace/6.1"
#: What of the kernel it is made of; all of it is new with the patches.
PARTS = ("kernel/locking/lock_trace*", "include/linux/lock_trace*", "include/uapi/linux/lock_trace.h")
FLAGS = (
    "-std=gnu11",
    "-O2",
    "-Wall",
    "-Werror",
    "-Wno-unused-function",
    "-fno-strict-aliasing",
    "-fcf-protection=none",
)
_INCLUDE = re.compile(r"#include <([\w/.]+)>")
#: Headers that are the host's own.
_REAL = frozenset({"linux/ioctl.h"})


def kernel_files(to: Path, patches: Path = PATCHES) -> list[Path]:
    """Write the kernel's files, as the series leaves them, below `to`; RunError when a patch does not apply."""
    only = [f"--include={part}" for part in PARTS]
    for patch in sorted(patches.glob("*.patch")):
        _git(["apply", *only, patch], to)
    return sorted(path for path in to.rglob("lock_trace*") if path.suffix in {".c", ".h"})


def build(to: Path, change: Callable[[str, str], str] | None = None, *, flags: Sequence[str] = ()) -> Path:
    """The program, in the folder `to`. `change` makes another text of a file's name and its own: for mutations."""
    source = to / "source"
    source.mkdir(parents=True)
    wanted = set()
    for path in kernel_files(source):
        text = path.read_text()
        wanted |= set(_INCLUDE.findall(text))
        if change is not None:
            path.write_text(change(path.name, text))
    for name in wanted - _REAL:
        header = source / "include" / name
        if not header.exists():
            header.parent.mkdir(parents=True, exist_ok=True)
            header.write_text('#include "kernel.h"\n')
    program = to / "threads"
    include: list[str | Path] = ["-I", HERE, "-iquote", source / "kernel/locking", "-I", source / "include"]
    _check(gcc([*FLAGS, *flags, *include, "-o", program, HERE / "threads.c", "-static", "-pthread"], to), "gcc")
    shutil.rmtree(source)
    return program


def _git(words: Sequence[str | Path], cwd: Path) -> None:
    # What is no repository is patched as plain files.
    environment = os.environ | {"GIT_CEILING_DIRECTORIES": str(cwd.parent), "LC_ALL": "C"}
    done = subprocess.run(["git", *words], cwd=cwd, env=environment, capture_output=True, text=True, check=False)
    _check(done, f"git {words[0]}")


def _check(done: subprocess.CompletedProcess[str], what: str) -> None:
    if done.returncode:
        told = (done.stderr.strip() or f"exit {done.returncode}").splitlines()
        raise RunError(next((line for line in told if "error" in line), told[0]), where=what)
