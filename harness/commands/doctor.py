# SPDX-License-Identifier: MIT
"""`doctor`: what this host can do."""

from __future__ import annotations

from harness.commands import cli
from harness.commands.declaration import command
from harness.errors import EXIT_OK, EXIT_USAGE


@command()
def doctor() -> int:
    """Say what this host can do: accelerator, PMU, tools, settings."""
    from harness import host
    from harness.build.store import Store
    from harness.build.tree import finding
    from harness.machine import accelerator
    from harness.machine.sandbox import sandbox_findings

    store = Store.default()
    report = host.examine(store.root, lambda: accelerator.kvm_finding(store), finding, sandbox_findings())
    console = cli.output()
    console.print(host.table(report))
    console.print(host.settings_table())
    return EXIT_OK if report.usable else EXIT_USAGE
