# SPDX-License-Identifier: MIT
"""Where the members of a kernel's structs lie: debug information of a module that is compiled for that kernel.

A kernel with debug information of its own would take three times as long to build.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from harness.artefacts.store import Artefact, Store, hash_tree
from harness.image.build import modules_for
from harness.kernel.build import toolchain
from harness.kernel.spec import KernelRecipe
from harness.progress import step


def build_layouts(store: Store, recipe: KernelRecipe, kernel: Artefact, source: Path) -> Path:
    """The .ko file of the module's folder `source`, whose debug information tells of `kernel`.

    RunError when the kernel can have no more modules; UsageError when it does not compile.
    """
    inputs: dict[str, Any] = {
        "sources": hash_tree(source),
        "kernel": kernel.key,
        "compiler": toolchain(recipe.spec.arch),
    }

    def build(folder: Path) -> None:
        log = store.root / "logs" / f"layouts-{recipe.spec.name}.log"
        log.parent.mkdir(exist_ok=True)
        with step(f"reading the structs of {recipe.spec.name}"):
            modules_for(store, recipe, kernel, [source], folder, log)

    return store.obtain("layouts", recipe.spec.name, inputs, build).file(f"{source.name}.ko")
