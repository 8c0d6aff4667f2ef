# SPDX-License-Identifier: MIT
"""What a user asks of one test of a host; as options of `selftest` they are declared here. Standard library only."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from harness.choices import Profile
from harness.cli.declaration import Option


@dataclass(frozen=True)
class SelftestRequest:
    """What a user chose for one test of a host."""

    experiment: Annotated[
        tuple[str, ...] | None,
        Option("names from `experiments/` or folders, comma-separated: whose arms", path=True, least=1, none="all"),
    ] = None
    kernel: Annotated[
        str | None,
        Option(
            "what this kernel can do: a name, `debian:VERSION`, or a path; or `debian:newest`, one of each version and "
            "flavour, or `debian:all`, whether they boot and count exactly",
            path=True,
            none="all arms' kernels",
        ),
    ] = None
    kind: Annotated[
        tuple[str, ...] | None,
        Option(
            "only kinds that have all of these words in their names, comma-separated: `kvm,tcg virtual`",
            least=1,
            none="all",
        ),
    ] = None
    profile: Annotated[Profile, Option("kernels of this profile are built; others are used if they are there")] = (
        "quick"
    )
    minutes: Annotated[int, Option("after so many nothing more is begun; building kernels does not count")] = 10
    out: Annotated[
        Path | None,
        Option("the file to attach to an issue, or its folder", writes="either", none="here, `selftest-TIME.json`"),
    ] = None
