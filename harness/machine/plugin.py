# SPDX-License-Identifier: MIT
"""QEMU TCG plugins: C sources of this harness, compiled into the store."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from harness.artefacts.store import Artefact, Store, hash_tree
from harness.errors import UsageError
from harness.kernel.build import toolchain
from harness.packages.buildtool import tool

#: qemu.h: what the plugins use of QEMU. No package ships QEMU's own header.
INCLUDE = Path(__file__).resolve().parent / "include"
CFLAGS = ("-std=gnu11", "-O3", "-g0", "-shared", "-fPIC", "-fvisibility=hidden", "-Wall", "-Wextra", "-Werror")


#: The version of the plugin API of each QEMU and those after it.
API_SINCE = {(7, 2): 1, (9, 0): 2, (9, 1): 3, (9, 2): 4}


def plugin_api(qemu: str) -> int:
    """The version of the plugin API to compile for, by the first line of QEMU's `--version`.

    UsageError for a QEMU that is older than 7.2.
    """
    told = re.search(r"version (\d+)\.(\d+)", qemu)
    version = (int(told[1]), int(told[2])) if told else (0, 0)
    fitting = [api for since, api in API_SINCE.items() if version >= since]
    if not fitting:
        raise UsageError(f"{qemu!r} is not QEMU 7.2 or later", hint="apt-get install qemu-system-x86")
    return max(fitting)


def build_plugin(store: Store, name: str, sources: Path, api: int, define: Sequence[str] = ()) -> Artefact:
    """The artefact with `NAME.so`, of all C files in `sources`, for this version of the plugin API.

    `define`: what it is compiled with for guests of another instruction set than x86's.

    RunError with gcc's first error when it does not compile.
    """
    flags = [*CFLAGS, f"-DQEMU_PLUGIN_VERSION={api}", *define]
    inputs: dict[str, Any] = {
        "sources": hash_tree(sources),
        "include": hash_tree(INCLUDE),
        "cflags": flags,
        "compiler": toolchain(),
    }

    def build(folder: Path) -> Mapping[str, Any]:
        (store.root / "logs").mkdir(exist_ok=True)
        command = ["gcc", *flags, f"-I{INCLUDE}", f"-ffile-prefix-map={sources}=.", "-o", str(folder / f"{name}.so")]
        command += map(str, sorted(sources.glob("*.c")))
        tool(command, log=store.root / "logs" / f"{name}.log", what=f"compiling the plugin {name}")
        return {}

    return store.obtain("plugin", name, inputs, build)
