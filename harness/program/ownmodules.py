# SPDX-License-Identifier: MIT
"""Kernel modules that a user brings with a program: built for the guest's kernel, and loaded before the program."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

from harness.artefacts.store import Store
from harness.errors import UsageError
from harness.image.build import modules_for
from harness.image.programs import KBUILDS
from harness.machine.tail import read_tail
from harness.measure.tracer import LOADED
from harness.progress import step
from harness.trial.prepare import KernelBuild

#: The guest's busybox as the program's root has it; and where in that root the modules lie.
BUSYBOX, MODULES = "/run/krepro/busybox", "modules"
#: Names the one that was not loaded, among what comes out of the guest.
LOST = "not-loaded"


def module_folders(names: Sequence[str]) -> list[Path]:
    """The folders, from here; UsageError for one that is no module's."""
    folders = [Path.cwd() / name for name in names]
    for folder in folders:
        if not any((folder / name).is_file() for name in KBUILDS):
            raise UsageError("--module: is no folder with a Kbuild", where=str(folder))
    return folders


def load_words(store: Store, built: KernelBuild, sources: Sequence[Path], root: Path) -> list[str]:
    """Build modules into the program's root; the words before the program's, which load them in this order.

    UsageError when one does not compile.
    """
    if not sources:
        return []
    log = store.root / "logs" / f"modules-{built.recipe.spec.name}.log"
    log.parent.mkdir(exist_ok=True)
    names: list[str] = []
    for source in sources:
        with step(f"building module {source.name}"):
            modules_for(store, built.recipe, built.kernel, [source], root / MODULES, log)
        names += sorted(path.name for path in (root / MODULES).glob("*.ko") if path.name not in names)
    lines = []
    for name in map(shlex.quote, names):
        lines.append(f"{BUSYBOX} insmod /{MODULES}/{name} || {{ echo {name} >$KREPRO_OUT/{LOST}; exit 1; }}")
    # A module may be gone before the end, with its names.
    lines.append(f"{BUSYBOX} grep '\\[' /proc/kallsyms >$KREPRO_OUT/{LOADED}")
    lines.append(f'exec {BUSYBOX} env "$@"')  # it starts what PATH has: the shell would take its own words first
    return [BUSYBOX, "sh", "-c", "\n".join(lines), "sh"]


def not_loaded(left: Path) -> str:
    """The module that the guest's kernel refused, of what the program left; nothing when there is none."""
    path = left / LOST
    return read_tail(path).strip() if path.is_file() else ""
