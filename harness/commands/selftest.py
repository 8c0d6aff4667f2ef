# SPDX-License-Identifier: MIT
"""`selftest`: a small trial of every kind of arm on this host."""

from __future__ import annotations

from harness.cli import terminal
from harness.cli.declaration import command
from harness.host.request import SelftestRequest


@command("Upkeep", guests=True)
def selftest(request: SelftestRequest) -> int:
    """Try every kind of arm on this host, with a file for an issue."""
    from harness.artefacts.store import Store
    from harness.host.selftest import selftest as tried

    return tried(request, Store.default(), terminal.output())
