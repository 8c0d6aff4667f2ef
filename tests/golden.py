# SPDX-License-Identifier: MIT
"""Golden trials: trimmed real trials of every experiment, and what they decode to.

tests/golden/NAME/raw.tar.xz  raw/ARM/REPETITION/… and kernels/…, as in a result set
tests/golden/NAME/trials.json the trials' records, paths relative, as in a manifest
tests/golden/NAME/MORE.tar.xz, MORE.trials.json  the same of trials that were made apart from these
tests/golden/NAME/expected.json  every metric; of every table its rows, its hash and the first of them

`./inv test -k golden --update` writes expected.json anew: look at the difference before you commit it.
"""

from __future__ import annotations

import hashlib
import json
import tarfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
from pydantic import TypeAdapter

from harness.experiment.model import Experiment, load_experiment
from harness.measure.analysis import Analysis
from harness.measure.claims import ClaimResult, judge
from harness.paths import EXPERIMENTS, ROOT
from harness.trial.model import TrialRecord
from tests.archives import extract_all

GOLDEN = ROOT / "tests" / "golden"
#: First rows of a table that expected.json shows.
SHOWN = 3
_RECORDS = TypeAdapter(list[TrialRecord])


@dataclass
class Golden:
    """The golden trials of one experiment, unpacked below `root`; `analysis` is the experiment's as it is now."""

    name: str
    root: Path
    trials: list[TrialRecord]
    experiment: Experiment
    analysis: Analysis

    def tables(self) -> dict[str, pd.DataFrame]:
        return self.analysis.tables(self.trials)

    def metrics(self, tables: dict[str, pd.DataFrame]) -> pd.DataFrame:
        return self.analysis.metrics(tables, self.experiment.claims)

    def claims(self, tables: dict[str, pd.DataFrame]) -> dict[str, ClaimResult]:
        """Verdicts by claim."""
        # There are fewer golden trials than some claims ask for.
        claims = [claim.model_copy(update={"least_trials": None}) for claim in self.experiment.claims]
        return {claim.id: claim for claim in judge(claims, self.metrics(tables))}

    def raw(self, arm: str, repetition: int = 0) -> Path:
        """A trial's raw folder."""
        return self.root / "raw" / arm / str(repetition)


def golden_names() -> list[str]:
    """The experiments that have golden trials."""
    return sorted(path.parent.name for path in GOLDEN.glob("*/raw.tar.xz"))


def records(name: str) -> list[TrialRecord]:
    """The golden trials' records, paths relative."""
    files = [GOLDEN / name / "trials.json", *sorted((GOLDEN / name).glob("*.trials.json"))]
    return [record for path in files for record in _RECORDS.validate_json(path.read_bytes())]


def unpack(name: str, target: Path) -> Golden:
    """The golden trials of an experiment, in a folder of the caller's own."""
    target.mkdir(parents=True, exist_ok=True)
    for path in (GOLDEN / name).glob("*.tar.xz"):
        with tarfile.open(path) as archive:
            extract_all(archive, target)
    folder = EXPERIMENTS / name
    trials = [record.relocated(target) for record in records(name)]
    return Golden(name, target, trials, load_experiment(folder), Analysis(folder))


def decoded(golden: Golden) -> dict[str, Any]:
    """What expected.json holds."""
    tables = golden.tables()
    metrics = golden.metrics(tables)
    return {
        "tables": {name: _summary(frame) for name, frame in sorted(tables.items())},
        "metrics": [
            [row.arm, row.trial, row.metric, _digits(row.value), row.unit, row.reason]
            for row in metrics.sort_values(["arm", "trial", "metric"]).itertuples()
        ],
    }


def text(value: dict[str, Any]) -> str:
    """expected.json: a line per table and per metric, so that a difference is read."""
    tables = ",\n".join(f"  {json.dumps(name)}: {_line(told)}" for name, told in value["tables"].items())
    metrics = ",\n".join(f"  {_line(row)}" for row in value["metrics"])
    return f'{{\n "tables": {{\n{tables}\n }},\n "metrics": [\n{metrics}\n ]\n}}\n'


def _digits(value: Any) -> float | None:
    """To 12 digits, for libraries differ in the last bit."""
    return None if pd.isna(value) else float(f"{value:.12g}")


def _line(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _summary(frame: pd.DataFrame) -> dict[str, Any]:
    """Rows, a hash over all of them, and the first; floats as `_digits` has them."""
    lines = frame.to_csv(index=False, float_format="%.12g", lineterminator="\n")
    first = lines.splitlines()[: SHOWN + 1]
    return {"rows": len(frame), "sha256": hashlib.sha256(lines.encode()).hexdigest(), "first": first}
