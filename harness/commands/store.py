# SPDX-License-Identifier: MIT
"""`store`: what the store holds."""

from __future__ import annotations

from typing import Annotated

from harness.cli.declaration import Option, command
from harness.errors import UsageError
from harness.harmless import harmless


@command("Upkeep")
def store(
    kind: Annotated[
        str | None, Option("list the things of this kind one by one, or of `all`", word=True, none="the kinds")
    ] = None,
) -> None:
    """Show what the store holds: size, age and last use."""
    import time

    from harness.artefacts.holdings import holdings
    from harness.artefacts.store import Store
    from harness.progress import step
    from harness.report.storelist import holding_lines, kind_lines

    place = Store.default()
    with step("measuring the store"):
        held = holdings(place)
    kinds = sorted({one.kind for one in held if one.key})
    if kind is not None and kind not in {"all", *kinds}:
        raise UsageError(
            f"the store has no {kind!r}", where=str(place.root), hint=f"it has {', '.join(kinds) or 'nothing'}"
        )
    if kind is None:
        lines = [str(place.root), *kind_lines(held, time.time())]
    else:
        lines = holding_lines([one for one in held if one.key and kind in ("all", one.kind)], time.time())
    print(harmless("\n".join(lines)))
