# SPDX-License-Identifier: MIT
"""The kernel's filters as a program of this host: the kernel's own files, and threads.c beside them."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

from harness.errors import RunError
from harness.measure.compiling import gcc

HERE = Path(__file__).parent
KERNEL = HERE.parents[2] / "kernel-patches/lock-trace/src"
#: What of the kernel's files it is made of.
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


def kernel_files(to: Path) -> list[Path]:
    """Copy the kernel's files below `to`, as they lie in its tree."""
    made = []
    for path in sorted(path for part in PARTS for path in KERNEL.glob(part)):
        made.append(to / path.relative_to(KERNEL))
        made[-1].parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, made[-1])
    return made


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


def _check(done: subprocess.CompletedProcess[str], what: str) -> None:
    if done.returncode:
        told = (done.stderr.strip() or f"exit {done.returncode}").splitlines()
        raise RunError(next((line for line in told if "error" in line), told[0]), where=what)
