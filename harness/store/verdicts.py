# SPDX-License-Identifier: MIT
"""What a reference run found: verdict, value and interval of every claim, and the median of every metric."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pandas as pd
from pydantic import ValidationError

from harness.errors import UsageError
from harness.measure.claims import ClaimResult
from harness.store.resultset import ResultSet
from harness.yamlfile import Strict, about

VERDICTS = "verdicts.json"


#: What a claim says in words: the experiment's to say, and none of a comparison.
WORDS = ("paper", "statement", "because", "after_data")


class MetricMedian(Strict):
    """A metric of one arm over its trials."""

    arm: Annotated[str, about("name")]
    metric: Annotated[str, about("name")]
    unit: Annotated[str | None, about("null: the analysis gives none")]
    median: Annotated[float | None, about("over trials", "the metric's")]
    trials: Annotated[int, about("how many", "trials")]
    reason: Annotated[str | None, about("why there is no median; null: there is one")]


class Verdicts(Strict):
    """The findings of one run, for later runs to be compared with."""

    experiment: Annotated[str, about("name")]
    version: Annotated[int, about("the experiment's; findings of another one do not compare", "1")]
    result: Annotated[str, about("ID of the result set")]
    profile: Annotated[str, about("quick or full")]
    seed: Annotated[int, about("the run's", "1")]
    fidelity: Annotated[dict[str, str], about("kind of time, per arm; findings of another one do not compare")]
    claims: Annotated[list[ClaimResult], about("as in the set, without their words")]
    metrics: Annotated[list[MetricMedian], about("sorted by arm and metric")]


def verdicts_of(result: ResultSet) -> Verdicts:
    """What this set found; UsageError when trials failed or claims were not judged, for that is no reference."""
    manifest, claims = result.manifest, result.claims
    if manifest.part:
        raise UsageError(f"cannot be a reference: it has {manifest.part}", where=str(result.path))
    failed = [trial for trial in manifest.trials if trial.status == "failed"]
    if failed or len(claims) != len(manifest.experiment.claims):
        why = f"trial {failed[0].arm}/{failed[0].repetition} failed" if failed else "its claims were not judged"
        raise UsageError(f"cannot be a reference: {why}", where=str(result.path))
    return Verdicts(
        experiment=manifest.experiment.name,
        version=manifest.experiment.version,
        result=manifest.id,
        profile=manifest.profile,
        seed=manifest.seed,
        fidelity=manifest.fidelity,
        claims=[claim.model_copy(update=dict.fromkeys(WORDS)) for claim in claims],
        metrics=medians(result.metrics),
    )


def medians(metrics: pd.DataFrame) -> list[MetricMedian]:
    """Median over trials of each metric of each arm; absent where a trial has none, as a claim's value is.

    `metrics` has METRIC_COLUMNS of `harness.measure.claims`.
    """
    found = []
    for (arm, metric), rows in metrics.groupby(["arm", "metric"]):
        values = rows["value"].to_numpy(dtype=np.float64)
        present = bool(np.isfinite(values).all())
        reasons, units = rows["reason"].dropna(), rows["unit"].dropna()
        found.append(
            MetricMedian(
                arm=str(arm),
                metric=str(metric),
                unit=str(units.iloc[0]) if len(units) else None,
                median=float(np.median(values)) if present else None,
                trials=len(rows),
                reason=None if present else str(reasons.iloc[0]) if len(reasons) else "infinite",
            )
        )
    return found


def write_verdicts(result: ResultSet, folder: Path) -> Path:
    """Write what this set found to `folder`, a line per claim and metric; the file written."""
    data = verdicts_of(result).model_dump(mode="json")
    lists = {name: [_line(row) for row in data.pop(name)] for name in ("claims", "metrics")}
    head = json.dumps(data, indent=1, ensure_ascii=False).removesuffix("\n}")
    tail = "".join(f',\n "{name}": [\n  ' + ",\n  ".join(rows) + "\n ]" for name, rows in lists.items())
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / VERDICTS
    target.write_text(f"{head}{tail}\n}}\n")
    return target


def _line(row: dict[str, Any]) -> str:
    return json.dumps(row, ensure_ascii=False, separators=(",", ":"))  # thousands of them are committed


def load_verdicts(folder: Path) -> Verdicts | None:
    """The reference in this folder; None when there is none, UsageError naming it when it cannot be used."""
    path = folder / VERDICTS
    try:
        return Verdicts.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        return None
    except OSError as error:
        raise UsageError(f"cannot be read: {error.strerror}", where=str(path)) from error
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        field = ".".join(map(str, first["loc"])) or "(whole file)"
        raise UsageError(
            f"not reference verdicts: field {field}: {first['msg']}", where=str(path), hint="./inv reference SET"
        ) from error
