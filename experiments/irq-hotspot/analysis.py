# SPDX-License-Identifier: MIT
"""Yang & Lu (2004): kernel hot spots by tick sampling, and interrupt handlers as its blind spot.

The hooks; each job has a file beside this one. Numbers in brackets, "fault 3", are those of this folder's README.
"""

from .declared import TABLES
from .declared_metrics import METRICS
from .decoding import decode_trials as tables
from .figures import draw as figures
from .forensics import beside as paper
from .metrics import measure as metrics
from .report import summarise as summary
from .stacks import weighted as profiles

__all__ = ["METRICS", "TABLES", "figures", "metrics", "paper", "profiles", "summary", "tables"]
