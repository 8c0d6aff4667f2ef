# SPDX-License-Identifier: MIT
"""Real runs that meet a fault: the command as a user gives it, in a place of its own, and what must hold afterwards."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.paths import ROOT
from tests.processes import DEFAULT_SIGNALS, eventually, machines

ANALYSIS = """\
from harness.measure.rows import MetricRows, TableRows

TABLES, METRICS = [], []


def tables(trials):
    return TableRows(TABLES).frames()


def metrics(tables):
    return MetricRows(METRICS, tables["problems"]).frame()
"""
#: Longer than any of these runs takes, on a busy machine.
MOST_S = 1500.0


@dataclass
class Ended:
    """A run that has ended."""

    status: int
    out: str
    err: str
    seconds: float

    @property
    def lines(self) -> list[str]:
        """What it told as errors and warnings."""
        return [line for line in self.err.splitlines() if line.startswith("krepro: ")]


class Place:
    """A folder for runs of one experiment: its own results, temporary files, and if need be store."""

    def __init__(self, root: Path, yaml: str, environment: Mapping[str, str] | None = None) -> None:
        self.root, self.folder = root, root / "faulty"
        self.results, self.temporary = root / "results", root / "tmp"
        self.home = self.results / "faulty"
        for folder in (self.folder, self.temporary, self.results):
            folder.mkdir(parents=True)
        (self.folder / "experiment.yaml").write_text(yaml)
        (self.folder / "analysis.py").write_text(ANALYSIS)
        self.environment = {"TMPDIR": str(self.temporary), **(environment or {})}

    def start(self, *words: str, before: tuple[str, ...] = ()) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "invoke", "run", str(self.folder), "--results", str(self.results), *words]
        return subprocess.Popen(
            [*before, *DEFAULT_SIGNALS, *command], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env={**os.environ, **self.environment}, start_new_session=True,
        )  # fmt: skip

    def run(self, *words: str, before: tuple[str, ...] = (), timeout_s: float = MOST_S) -> Ended:
        begun = time.monotonic()
        process = self.start(*words, before=before)
        out, err = process.communicate(timeout=timeout_s)
        return Ended(process.returncode, out, err, time.monotonic() - begun)

    def manifest(self) -> dict[str, Any]:
        """Of the newest set, whether `latest` leads there or not."""
        (newest,) = sorted(self.home.glob("2*/manifest.json"))[-1:]
        return json.loads(newest.read_text())

    def sets(self) -> list[Path]:
        return sorted(self.home.glob("2*")) if self.home.is_dir() else []

    def seals(self) -> list[str]:
        """Trials that an unfinished run has sealed."""
        return [f"{path.parent.name}/{path.stem}" for path in self.home.glob(".unfinished/*/trials/*/*.json")]

    def check_nothing_is_left(self) -> None:
        """No guest, no temporary file, no half-written set."""
        assert eventually(lambda: not machines(self.temporary), 30), "no guest outlives its run"
        assert not [path.name for path in self.temporary.iterdir()], "no temporary file"
        for path in self.sets():
            assert (path / "manifest.json").is_file(), "no half-written set"
