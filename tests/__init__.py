# SPDX-License-Identifier: MIT
"""The project's tests. Importing this makes the experiments' folders importable by names that Python can have."""

import sys
import types

from harness.paths import EXPERIMENTS

# A name with a dash is none that Python imports: page-trace/trace/records.py is experiments.page_trace.trace.records.
for _folder in EXPERIMENTS.iterdir():
    _package = types.ModuleType(f"experiments.{_folder.name.replace('-', '_')}")
    _package.__path__ = [str(_folder)]
    sys.modules.setdefault(_package.__name__, _package)
