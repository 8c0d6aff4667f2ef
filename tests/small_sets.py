# SPDX-License-Identifier: MIT
"""Small whole result sets for tests of reports and exports: written by the harness's own writer, in milliseconds."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from harness.experiment.model import load_experiment
from harness.measure.analysis import Analysis
from harness.measure.claims import METRIC_COLUMNS, judge
from harness.measure.declared import Column, ColumnType, Metric, Table
from harness.sets.digest import deterministic_files
from harness.sets.manifest import ImageManifest, KernelManifest
from harness.sets.resultset import ResultSet, copy_experiment, write_result_set
from harness.sets.shown import Shown
from harness.trial.model import TrialRecord
from harness.trial.plan import make_plan
from tests.folders import NOTHING, experiment
from tests.records import trial_record
from tests.result_sets import manifest_of

KERNEL = KernelManifest(
    key="k", arch="i386", release="6.1.0", build_id="b1", source={"archive": {"linux.tar": "11"}},
    patches=[{"name": "p", "sha256": "22"}], fragments=[], config_sha256="33", compiler={"gcc": "gcc 12"},
    bzimage_sha256="44",
)  # fmt: skip
IMAGE = ImageManifest(key="i", sha256="55", packages={"busybox": "1.35"})
SVG = '<svg xmlns="http://www.w3.org/2000/svg" width="80" height="40"><circle cx="20" cy="20" r="15"/></svg>'

EXPERIMENT = """\
name: small
version: {version}
paper: {{authors: [Ada Nobody, Bob Else], year: 2024, title: "On <small> things & others", venue: Nowhere}}
description: A set that tests make.
workloads:
  add: {{command: "echo 42"}}
arms:
  left: {{kernel: classic, clock: virtual}}
  right: {{kernel: classic, clock: wall}}
  rare: {{kernel: classic, clock: virtual, repetitions: {{quick: 0, full: 2}}}}
repetitions: {{quick: 3, full: 6}}
claims:
  - {{id: adds, section: "2.1", paper: "it <b>adds</b>", metric: total/left, expect: {{equals: 42}},
     because: it says so}}
  - {{id: bounded, kind: finding, source: us, statement: stays low, metric: total/right, expect: {{at_most: 50}},
     because: a guess}}
  - {{id: seldom, metric: total/rare, expect: {{equals: 1}}, because: it says so}}
"""
PAPER_YAML = """\
copy_read: "half of <it>"
sentences:
  - {section: "2.1", says: it <b>adds</b> all, claims: [adds, bounded], left: subtraction}
  - {section: "2.2", says: seldom one, claims: [seldom]}
  - {section: "7", says: it is green, not_judged: nothing here has a colour}
"""


def small_experiment(
    folder: Path, *, version: int = 1, analysis: str = NOTHING, more: str = "", paper: str = ""
) -> Path:
    """The folder of the experiment `small`; `more` is appended to its analysis.py, `paper` is its paper.yaml."""
    experiment(folder, EXPERIMENT.format(version=version), analysis + more)
    if paper:
        (folder / "paper.yaml").write_text(paper)
    return folder


def small_set(
    results: Path,
    folder: Path,
    *,
    values: Mapping[str, Sequence[float]] | None = None,
    tables: Mapping[str, pd.DataFrame] | None = None,
    figures: Mapping[str, str] | None = None,
    failed: Mapping[str, str] | None = None,
    plan: Mapping[str, Any] | None = None,
    more: Callable[[Path], None] = lambda root: None,
    **manifest: Any,
) -> ResultSet:
    """A set with one value of the metric `total` per trial, by arm; `failed` gives arms whose first trial failed.

    `plan`: arguments of make_plan; `more`: writes more files below the set's root; `manifest`: fields to replace.
    """
    model = load_experiment(folder)
    choice: dict[str, Any] = {"profile": "quick", "seed": 1, **(plan or {})}
    given = {"left": [42.0, 42.0, 42.0], "right": [10.0, 11.0, 12.5]} | dict(values or {})
    why = failed or {}
    trials = [
        _record(planned.arm, planned.repetition, planned.seed, why.get(planned.arm) if not planned.repetition else None)
        for planned in make_plan(model, **choice)
    ]
    with write_result_set(results, model.name) as writer:
        copy_experiment(folder, writer.path)
        for trial in trials:
            (writer.path / trial.path).mkdir(parents=True)
            (writer.path / trial.path / "job.exit").write_text("0\n")
        more(writer.path)
        good = [trial for trial in trials if trial.status == "ok"]
        rows = [
            (trial.arm, trial.repetition, "total", given[trial.arm][trial.repetition], "units", None)
            for trial in good
            if trial.repetition < len(given.get(trial.arm, ()))
        ]
        frame = pd.DataFrame(rows, columns=list(METRIC_COLUMNS)).astype({"trial": "int64", "value": "float64"})
        if good:
            analysis = Analysis(folder)
            made = tables if tables is not None else {"sums": frame[["arm", "trial", "value"]]}
            writer.write_tables(made, [declaration(name, table) for name, table in made.items()])
            writer.write_metrics(frame, [Metric("total", "count", "neither", "a sum")])
            sums = frame.groupby("arm", sort=True)["value"].median().reset_index()
            writer.write_views(analysis.views(dict(made), frame))
            writer.write_shown(Shown.of({}, {"Sums by arm": sums}))
        writer.write_claims(judge(model.claims, frame) if good else [])
        for name, svg in (figures if figures is not None else {"sums": SVG}).items():
            (writer.path / "figures").mkdir(exist_ok=True)
            (writer.path / "figures" / f"{name}.svg").write_text(svg)
        files = deterministic_files(writer.path, good)
        told: dict[str, Any] = {
            "created": "2024-01-02T03:04:05Z", "command_line": ["invoke", "run", "small"], "profile": choice["profile"],
            "seed": choice["seed"], "kernels": {"classic": KERNEL}, "images": {"classic": IMAGE},
            "qemu": "QEMU emulator version 7.2", "accelerator": dict.fromkeys(model.arms, "tcg"),
            "packages": {"python": "3.11", "numpy": "2.0"}, "seconds": {"guests": 1.5},
        }  # fmt: skip
        return writer.finish(manifest_of(model, trials, files, **(told | manifest)))


def declaration(name: str, frame: pd.DataFrame) -> Table:
    """What an experiment that made this table would have declared."""
    kinds: dict[str, ColumnType] = {"i": "int64", "u": "uint64", "f": "float64", "b": "bool"}
    columns = []
    for column in frame.columns:
        kind = kinds.get(frame[column].dtype.kind, "string")
        columns.append(Column(column, kind, None if kind == "string" else "1", f"the {column}"))
    return Table(name, "a row", tuple(columns))


def _record(arm: str, repetition: int, seed: int, reason: str | None) -> TrialRecord:
    wall = arm == "right"
    told = {"seed": seed, "status": "ok" if reason is None else "failed", "reason": reason, "workloads": ("add",)}
    told |= {"session": "ssh" if wall else "mailbox", "seconds": {"ready": 0.5, "trial": 1.25}}
    return trial_record(arm, repetition, "wall" if wall else "virtual", **told)
