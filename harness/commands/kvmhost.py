# SPDX-License-Identifier: MIT
"""`kvmhost`: a command in an emulated KVM host."""

from __future__ import annotations

import shutil
from typing import Annotated

from harness.cli.declaration import Option, check_writable, command, unquoted
from harness.cli.shared import check_checkout
from harness.paths import RESULTS

PROOF = "uname -r; ls -l /dev/kvm; grep . /sys/module/kvm_amd/parameters/npt"


@command("Your own work", guests=True)
def kvmhost(
    exec: Annotated[
        str | None,
        Option("what to run, in one argument; also the words after `--`", rest=True, none="show that there is KVM"),
    ] = None,
    out: Annotated[
        tuple[str, ...] | None,
        Option("folders in which it may write for good, comma-separated", path=True, least=1, none="`results/`"),
    ] = None,
    cpus: Annotated[int, Option("emulated CPUs", least=1)] = 2,
    memory: Annotated[int, Option("MiB", least=1024)] = 4096,
    minutes: Annotated[int, Option("minutes that the command may take", least=1)] = 60,
) -> int:
    """Run a command in an emulated host that has /dev/kvm."""
    from pathlib import Path

    from harness.artefacts.store import Store
    from harness.errors import UsageError
    from harness.host.examine import check_memory

    check_checkout("kvmhost")
    folders = [Path(folder) for folder in out] if out else [RESULTS]
    for folder in out or ():
        check_writable("--out", Path(folder).absolute(), "folder")
    words = ["sh", "-c", PROOF] if exec is None else unquoted("--exec", exec)
    if not words or shutil.which(words[0]) is None:
        raise UsageError(
            f"{words[0] if words else '--exec'}: is no program of this host (a program's path, or its name)"
        )
    check_memory(memory)
    from tests.kvmbox.host import KvmHost  # test gear, which a checkout has

    with KvmHost(Store.default(), writable=folders, cpus=cpus, memory_mb=memory) as host:
        return host.run(words, timeout_s=60.0 * minutes, echo=True).status
