# SPDX-License-Identifier: MIT
"""Folders of experiments that tests make."""

from __future__ import annotations

from pathlib import Path

#: Two arms whose guests print their parameter.
HELLO = """\
name: hello
paper: {authors: [Nobody], year: 2024, title: A guest says its parameter}
workloads:
  add:
    command: "echo $KREPRO_OFFSET; dd if=/dev/zero of=/dev/null bs=4k count=40000 2>/dev/null"
    timeout_s: 120
arms:
  one: {kernel: classic, clock: virtual, params: {offset: 1}}
  two: {kernel: classic, clock: virtual, params: {offset: 2}}
repetitions: {quick: 6}
claims:
  - {id: two, metric: total/two, expect: {equals: 2}, because: it says so}
"""
#: Of guests whose workload `add` prints a number.
SUMS = """\
from harness.measure.declared import ARM, TRIAL, Table, fact, number
from harness.measure.raw import read_text
from harness.measure.rows import MetricRows, TableRows

TABLES = [Table("sums", "one trial", (ARM, TRIAL, number("total", "1", "the sum")))]
METRICS = [fact("total", "1", "neither", "the sum")]


def tables(trials):
    rows = TableRows(TABLES)
    for trial in trials:
        with rows.part(trial, "sum"):
            rows.put("sums", {"total": float(read_text(trial.path / "add" / "stdout"))}, trial)
    return rows.frames()


def metrics(tables):
    rows = MetricRows(METRICS, tables["problems"])
    for row in tables["sums"].itertuples():
        rows.put(row.arm, row.trial, "total", row.total)
    return rows.frame()
"""
#: Of guests that nothing is asked of.
NOTHING = (
    "TABLES, METRICS = [], []\n\n\ndef tables(trials):\n    return {}\n\n\ndef metrics(tables):\n    return None\n"
)


def experiment(folder: Path, yaml: str, analysis: str = SUMS) -> Path:
    """The folder, made with these two files."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "experiment.yaml").write_text(yaml)
    (folder / "analysis.py").write_text(analysis)
    return folder
