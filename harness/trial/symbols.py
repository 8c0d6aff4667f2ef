# SPDX-License-Identifier: MIT
"""A packaged kernel made whole: its symbols, which its packages have not, as it tells them itself once booted."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from harness.artefacts.store import Artefact, Store, hash_file
from harness.errors import RunError
from harness.guest.mailbox import MailboxSession
from harness.kernel.build import note_of
from harness.kernel.spec import KernelRecipe
from harness.machine.machine import GuestLost, Machine
from harness.machine.saved import BOOT_TIMEOUT_S, keep_console
from harness.machine.spec import BootFiles, MachineSpec, machine_spec, prepare_folder
from harness.progress import step

SYMBOLS = "System.map"
#: Of a kernel without one of these files there is an empty one.
JOB = "for at in kernel/notes kallsyms config.gz; do cat /sys/$at /proc/$at >${at#*/}; done; gunzip config.gz"
TIMEOUT_S = 300.0
#: Raised when the artefact has other files, or others in them, than before.
RECIPE_VERSION = 1
#: A symbol of the kernel itself: those of modules have the module behind them.
PLACED = re.compile(r"^0*[1-9a-f]\w* [tT] _stext$", re.MULTILINE)
SYMBOL = re.compile(r"^[0-9a-f]+ [A-Za-z] \S+$", re.MULTILINE)


def with_symbols(
    store: Store, recipe: KernelRecipe, part: Artefact, files_for: Callable[[MachineSpec], BootFiles]
) -> Artefact:
    """The kernel with `System.map`: /proc/kallsyms of its guest, which boots once, on the virtual clock.

    `files_for`: what a machine of this kernel boots from. RunError when it does not boot, or tells no addresses.
    """
    spec = recipe.spec
    inputs: dict[str, Any] = {
        "recipe": RECIPE_VERSION,
        "arch": spec.arch,
        "source": {"part": part.key},
        "patches": [],
        "fragments": [],
        "compiler": {},
    }

    def build(folder: Path) -> dict[str, Any]:
        machine = machine_spec(
            spec.name,
            hardware=spec.hardware,
            accelerator="tcg",
            clock="virtual",
            session="mailbox",
            cmdline=tuple(spec.cmdline),
        )
        with store.scratch("told") as told:
            _tell(store, spec.name, machine, files_for(machine), told)
            symbols = "\n".join(SYMBOL.findall((told / "kallsyms").read_text())) + "\n"
            if PLACED.search(symbols) is None:
                if SYMBOLS not in part.files:
                    raise RunError(f"kernel {spec.name} tells no addresses in /proc/kallsyms, and has no {SYMBOLS}")
                symbols = part.file(SYMBOLS).read_text()
            for name in part.files:
                (folder / name).parent.mkdir(exist_ok=True)
                shutil.copyfile(part.file(name), folder / name)
            (folder / SYMBOLS).write_text(symbols)
            if "config" not in part.files:
                (folder / "config").write_bytes((told / "config").read_bytes() if (told / "config").exists() else b"")
            build_id = note_of((told / "notes").read_bytes())
        return {**part.info, "build_id": build_id, "config_sha256": hash_file(folder / "config")}

    return store.obtain("kernel", spec.name, inputs, build)


def _tell(store: Store, name: str, machine: MachineSpec, files: BootFiles, target: Path) -> None:
    """What the booted kernel says of itself, into a folder."""
    with store.scratch("symbols") as scratch, step(f"booting {name} once for its symbols"):
        prepare_folder(machine, scratch, JOB)
        with Machine(machine, files, scratch) as running:
            try:
                done = not running.stops_or_ends(BOOT_TIMEOUT_S)
                MailboxSession(running, done=done).run(JOB, target, TIMEOUT_S)
            except GuestLost:
                keep_console(store, name, scratch)
                raise
            except RunError as error:
                why = f"kernel {name} boots and gives nothing back: it lacks qemu_fw_cfg or virtio_console"
                hint = "give its package, or put its modules into a folder modules beside it"
                raise RunError(why, hint=hint) from error
