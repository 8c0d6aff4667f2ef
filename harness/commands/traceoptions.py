# SPDX-License-Identifier: MIT
"""Options that every command has that traces a user's own program."""

from __future__ import annotations

from typing import Annotated, Literal

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
In = Annotated[
    tuple[str, ...] | None,
    Option(
        "what the program needs, comma-separated: Debian packages of `tools.lock`, `.deb` files, programs, files and "
        "folders of this host, or a folder with all of `/`",
        path=True,
        least=1,
        none="what it opens when it is run here once, where nothing that it does stays",
    ),
]
ExitCode = Annotated[bool, Option("end with the program's own exit status, once the report is written")]
#: `junit` is for verdicts, and so for comparisons.
ToVerdict = Annotated[
    Literal["json", "junit"] | None,
    Option("print it in this form; `junit` with `--against`", none="a few lines"),
]
Executor = Annotated[
    str | None,
    Option(
        "run them on the Dask cluster of this scheduler, `dask://HOST:PORT` or `tls://HOST:PORT`, or on"
        " jobs of `slurm`, see [scale.md](scale.md)",
        none="this machine",
    ),
]
To = Annotated[Literal["json"] | None, Option("print the result in this form", none="a few lines")]
Memory = Annotated[int | None, Option("MiB of the guest", least=64, none="the kernel's, and more for large files")]
Timeout = Annotated[int, Option("seconds of the guest's time that the program may take", least=1)]
