# SPDX-License-Identifier: MIT
"""krepro from Python, for notebooks and programs; docs/python.md.

import harness.api as krepro

results = krepro.load("EXPERIMENT/latest")
results.metrics.query("metric == 'idle_share'")
"""

from harness.api.loading import Results, compare, load, sets
from harness.api.profiling import ProgramProfile, profile
from harness.api.running import RunFailed, analyse, run
from harness.errors import KreproError, RunError, UsageError

__all__ = [
    "KreproError",
    "ProgramProfile",
    "Results",
    "RunError",
    "RunFailed",
    "UsageError",
    "analyse",
    "compare",
    "load",
    "profile",
    "run",
    "sets",
]
