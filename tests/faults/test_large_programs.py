# SPDX-License-Identifier: MIT
"""The large programs of page-trace, end to end: the longest has 145 million visits. Memory does not grow with them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

from harness.paths import ROOT

pytestmark = [pytest.mark.soak, pytest.mark.timeout(7200)]

PROGRAMS = ("matmul", "sort", "graph", "threads", "sqlite")
#: Of the largest process: krepro, or QEMU with 512 MiB of guest.
MOST_MIB = 1024


def run(results: Path, arms: str) -> int:
    """The peak memory in KiB of the largest process of a run, which is ended."""
    words = ["-m", "harness.commands.program", "run", "page-trace", "--arms", arms, "--results", str(results)]
    process = subprocess.Popen([sys.executable, *words], cwd=ROOT, stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode in (0, 1, 3)
    return used.ru_maxrss


def test_nothing_is_left_behind_and_memory_stays_bounded(tmp_path: Path):
    run(tmp_path / "before", "streamed")  # builds what is not there: compilers take memory, too
    kib = run(tmp_path, ",".join(("large", *(f"large-{name}" for name in PROGRAMS))))
    (results,) = (
        path
        for path in (tmp_path / "page-trace").iterdir()
        if (path / "claims.json").is_file() and not path.is_symlink()
    )
    metrics = pd.read_parquet(results / "metrics.parquet").set_index("metric")["value"]
    visits = {name: int(metrics[f"visits.large-{name}"]) for name in PROGRAMS}
    print(visits, f"at most {kib / 1024:.0f} MiB")
    assert [metrics[f"left_behind.large-{name}"] for name in PROGRAMS] == [0] * len(PROGRAMS)
    assert [metrics[f"same_output.large-{name}"] for name in PROGRAMS] == [1] * len(PROGRAMS)
    assert visits["sqlite"] > 100_000_000
    assert kib / 1024 < MOST_MIB
    told = {claim["id"]: claim["verdict"] for claim in json.loads((results / "claims.json").read_text())}
    assert [told[f"large-{name}-whole"] for name in PROGRAMS] == ["reproduced"] * len(PROGRAMS)
