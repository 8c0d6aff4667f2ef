# SPDX-License-Identifier: MIT
"""`build`: kernels and base images into the store."""

from __future__ import annotations

from typing import Annotated

from harness.commands import cli
from harness.commands.declaration import Option, command


@command(guests=True)
def build(
    kernel: Annotated[str, Option("a kernel of `images/kernels/`, or `all`", word=True)],
) -> None:
    """Build kernels and their base images into the store."""
    from harness.build.spec import kernel_names
    from harness.build.store import Store
    from harness.experiment.prepare import build_for

    store = Store.default()
    for name in kernel_names() if kernel == "all" else [kernel]:
        made = build_for(store, name, None)
        cli.output().print(f"{name}: {made.kernel.path}", markup=False, soft_wrap=True)
