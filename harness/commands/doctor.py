# SPDX-License-Identifier: MIT
"""`doctor`: what this host can do."""

from __future__ import annotations

from harness.cli import terminal
from harness.cli.declaration import command
from harness.errors import EXIT_OK, EXIT_USAGE


@command("Upkeep")
def doctor() -> int:
    """Say what this host can do: accelerator, PMU, tools, settings."""
    from harness.artefacts.store import Store
    from harness.host import examine
    from harness.machine import accelerator
    from harness.machine.sandbox import sandbox_findings
    from harness.packages.tree import finding

    store = Store.default()
    report = examine.examine(store.root, lambda: accelerator.kvm_finding(store), finding, sandbox_findings())
    console = terminal.output()
    console.print(examine.table(report))
    console.print(examine.settings_table())
    return EXIT_OK if report.usable else EXIT_USAGE
