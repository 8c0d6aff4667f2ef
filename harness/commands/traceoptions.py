# SPDX-License-Identifier: MIT
"""Options that every command has that traces a user's own program."""

from __future__ import annotations

from typing import Annotated

from harness.cli.declaration import Option

Exec = Annotated[
    str | None,
    Option("the program and its arguments, as shell text; or the words after `--`", none="none", rest=True),
]
Whose = Annotated[
    str | None,
    Option("whose tracer: a name, or a folder's path", path=True, none="the one that has a tracer"),
]
Kernel = Annotated[
    str | None,
    Option(
        "a kernel of `images/kernels/` with the tracer's patches, or the path of a source tree",
        path=True,
        none="the tracer's",
    ),
]
Package = Annotated[
    tuple[str, ...] | None,
    Option(
        "Debian packages of `tools.lock`, or `.deb` files, that the program is in, comma-separated", path=True, least=1
    ),
]
CopyIn = Annotated[
    tuple[str, ...] | None,
    Option("files and folders that the program needs, beside those among its arguments", path=True, least=1),
]
With = Annotated[
    tuple[str, ...] | None, Option("programs of this host that the program starts, comma-separated", least=1)
]
Memory = Annotated[int | None, Option("MiB of the guest", least=64, none="the kernel's, and more for large files")]
Timeout = Annotated[int, Option("seconds of the guest's time that the program may take", least=1)]
