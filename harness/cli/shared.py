# SPDX-License-Identifier: MIT
"""Options that several commands have."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from harness.choices import AcceleratorChoice, TrustChoice
from harness.cli.declaration import Option
from harness.errors import UsageError
from harness.paths import INSTALLED

SET = "a result set: a path, `EXPERIMENT/ID`, a unique prefix of an ID, or `latest`"

SetName = Annotated[str, Option(SET, word=True, path=True)]
ResultsFolder = Annotated[Path, Option("folder of result sets")]
Verbose = Annotated[bool, Option("print all tables, claims and remarks, not only what fits a screen")]
Trust = Annotated[
    TrustChoice | None,
    Option(
        "execute code that is in a set which was not made on this host, without a question: in a sandbox, or "
        "`--trust=unsandboxed` with your rights where this host has none",
        none="a question",
        bare="sandboxed",
    ),
]
KernelName = Annotated[
    str,
    Option(
        "a kernel of `images/kernels/` (`./inv build`), Debian's own (`debian:6.1`), or a path", word=True, path=True
    ),
]
Accelerator = Annotated[
    AcceleratorChoice,
    Option(
        "`auto` proves KVM by a boot, else uses TCG; `kvm` is an error where it does not work. "
        "Arms with the virtual clock, an oracle or a recording always use TCG; a run of such arms only refuses `kvm`"
    ),
]


def check_checkout(command: str) -> None:
    """UsageError in an installed copy, for what reads or writes the project's own sources."""
    if INSTALLED:
        raise UsageError(f"{command} needs a checkout: this is an installed copy", hint="git clone the project")
