# SPDX-License-Identifier: MIT
"""`locks`: the kernel's locks while a user's own program runs in a guest, and who waited for whom."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from harness.choices import MOST_CPUS
from harness.cli.declaration import Option, command
from harness.commands.programs import TracedOptions
from harness.errors import UsageError

KEYS = ("lock", "type", "waiter", "holder", "thread")


@dataclass(frozen=True, kw_only=True)
class LockOptions(TracedOptions):
    """What `locks` takes."""

    cpus: Annotated[
        int | None, Option("CPUs of the guest; one has the virtual clock", least=1, most=MOST_CPUS, none="the tracer's")
    ] = None
    filter: Annotated[
        tuple[str, ...] | None,
        Option(
            "only waits of these: `lock=GLOB`, `type=GLOB`, `waiter=GLOB`, `holder=GLOB`, `thread=GLOB`; all must fit",
            repeated=True,
        ),
    ] = None
    verbose: Annotated[
        bool, Option("show meanwhile, each second of the guest, what was waited for since the second before")
    ] = False
    module: Annotated[
        tuple[str, ...] | None,
        Option(
            "folders of kernel modules of yours, comma-separated: built for the guest's kernel, and loaded under the "
            "trace before the program",
            path=True,
            least=1,
        ),
    ] = None


@command("Your own work", guests=True)
def locks(options: LockOptions) -> int:
    """Trace the kernel's locks while a program of yours runs."""
    wanted = options.filter or ()
    for text in wanted:
        if text.partition("=")[0] not in KEYS or "=" not in text:
            raise UsageError(f"--filter {text}: must be KEY=GLOB", hint=f"KEY is one of {', '.join(KEYS)}")
    return options.trace(
        "locks",
        cpus=options.cpus,
        params={"watch": 1 if options.verbose else None},
        chosen={"filter": wanted},
        modules=options.module or (),
    )
