# SPDX-License-Identifier: MIT
"""`patches`: a patch series as mails, of what is kept in files."""

from __future__ import annotations

import sys
from typing import Annotated

from harness.cli.declaration import Option, command


@command("Your own work")
def patches(
    kind: Annotated[str, Option("a feature that has a series in `kernel-patches`", word=True)],
    kernel: Annotated[str, Option("the kernel's version, like 6.1", word=True)],
) -> None:
    """Print a series of our kernel patches, for git am.

    Each patch has the new files that it names, as a kernel developer would send it.
    """
    from harness.kernel.load import find_feature
    from harness.kernel.series import mailbox

    text = mailbox(find_feature(kind, kernel))
    sys.stdout.buffer.write(text.encode(errors="surrogateescape"))
