# SPDX-License-Identifier: MIT
"""QEMU TCG plugins: C sources of this harness, compiled into the store."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from harness.build.kernel import toolchain
from harness.build.run import tool
from harness.build.store import Artefact, Store, hash_tree

#: qemu.h: what the plugins use of QEMU. No package ships QEMU's own header.
INCLUDE = Path(__file__).resolve().parent / "include"
CFLAGS = ("-std=gnu11", "-O3", "-g0", "-shared", "-fPIC", "-fvisibility=hidden", "-Wall", "-Wextra", "-Werror")


def build_plugin(store: Store, name: str, sources: Path) -> Artefact:
    """The artefact with `NAME.so`, of all C files in `sources`.

    RunError with gcc's first error when it does not compile.
    """
    inputs: dict[str, Any] = {
        "sources": hash_tree(sources),
        "include": hash_tree(INCLUDE),
        "cflags": list(CFLAGS),
        "compiler": toolchain(),
    }

    def build(folder: Path) -> Mapping[str, Any]:
        (store.root / "logs").mkdir(exist_ok=True)
        command = ["gcc", *CFLAGS, f"-I{INCLUDE}", f"-ffile-prefix-map={sources}=.", "-o", str(folder / f"{name}.so")]
        command += map(str, sorted(sources.glob("*.c")))
        tool(command, log=store.root / "logs" / f"{name}.log", what=f"compiling the plugin {name}")
        return {}

    return store.obtain("plugin", name, inputs, build)
