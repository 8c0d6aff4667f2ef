# SPDX-License-Identifier: MIT
"""What a user chooses among by a word, on the command line or in experiment.yaml. Standard library only."""

from __future__ import annotations

from typing import Literal

Profile = Literal["quick", "full"]
AcceleratorChoice = Literal["auto", "kvm", "tcg"]
OracleMode = Literal["functions", "pages", "sampler", "nmi", "locks", "counters", "paths"]
FigureFormat = Literal["svg", "pdf", "png"]
ExportFormat = Literal["csv", "parquet", "ro-crate", "speedscope", "perfetto"]
#: How far a stranger's code is trusted: in a sandbox, or with the user's rights where there is none.
TrustChoice = Literal["sandboxed", "unsandboxed"]
Trusted = TrustChoice | bool | None

#: CPUs that a guest may have.
MOST_CPUS = 64
#: MiB that a guest may make one of its files on the host have, unless it is told.
FILE_MIB = 8192
