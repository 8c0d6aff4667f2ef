# SPDX-License-Identifier: MIT
"""The drivers that a kernel has as modules, in an initramfs of their own behind the image."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path

from harness.artefacts.store import Artefact, Store
from harness.image.build import init_of
from harness.image.cpio import write_cpio
from harness.kernel.arch import ArchName

#: In a kernel's artefact, and below /krepro in the guest.
DRIVERS = "drivers"
#: Behind this line of images/init they are loaded.
BEHIND = "hostname krepro\n"
LOAD = f"""
for driver in /krepro/{DRIVERS}/*.ko; do
	insmod "$driver"
done
"""


def driver_archive(store: Store, kernel: Artefact, arch: ArchName) -> Path | None:
    """An archive with a kernel's drivers and an init that loads them, in their order; None where it needs none."""
    drivers = {name: sha256 for name, sha256 in kernel.files.items() if name.startswith(f"{DRIVERS}/")}
    if not drivers:
        return None
    before, behind, after = init_of(arch).partition(BEHIND)
    assert behind
    init = f"{before}{behind}{LOAD}{after}"

    def build(folder: Path) -> None:
        with store.scratch("drivers") as root:
            (root / "krepro" / DRIVERS).mkdir(parents=True)
            for name in drivers:
                shutil.copyfile(kernel.file(name), root / "krepro" / name)
            (root / "init").write_text(init)
            (root / "init").chmod(0o755)
            write_cpio(root, folder / "drivers.cpio")

    inputs = {"drivers": drivers, "init": hashlib.sha256(init.encode()).hexdigest()}
    return store.obtain(DRIVERS, kernel.info["release"], inputs, build).file("drivers.cpio")
