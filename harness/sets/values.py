# SPDX-License-Identifier: MIT
"""What a reference run measured: value and interval of every claim. Which verdicts are known, claims themselves say."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

from pydantic import ValidationError

from harness.errors import UsageError
from harness.sets.resultset import ResultSet
from harness.yamlfile import Strict, about

VALUES = "values.json"


class Value(Strict):
    """One claim's figure."""

    id: Annotated[str, about("of the claim")]
    metric: Annotated[str, about("METRIC/ARM, as the claim had it")]
    measured: Annotated[float | None, about("median over trials; null: not measured", "the metric's")]
    interval: Annotated[tuple[float, float] | None, about("95 %; null: too few trials", "the metric's")]
    unit: Annotated[str | None, about("null: the analysis gives none")]
    trials: Annotated[int, about("how many", "trials")]


class Values(Strict):
    """The figures of one run, for later runs to be compared with."""

    experiment: Annotated[str, about("name")]
    version: Annotated[int, about("the experiment's; figures of another one do not compare", "1")]
    result: Annotated[str, about("ID of the result set")]
    profile: Annotated[str, about("quick or full")]
    seed: Annotated[int, about("the run's", "1")]
    fidelity: Annotated[dict[str, str], about("kind of time, per arm; figures of another one do not compare")]
    claims: Annotated[list[Value], about("those with a metric, in the experiment's order")]

    def of(self, id_: str) -> Value | None:
        """The figure of this claim; None where the reference has none."""
        return next((value for value in self.claims if value.id == id_), None)


def values_of(result: ResultSet) -> Values:
    """What this set measured; UsageError when trials failed or claims were not judged, for that is no reference."""
    manifest, claims = result.manifest, result.claims
    if manifest.part:
        raise UsageError(f"cannot be a reference: it has {manifest.part}", where=str(result.path))
    failed = [trial for trial in manifest.trials if trial.status == "failed"]
    if failed or len(claims) != len(manifest.experiment.claims):
        why = f"trial {failed[0].arm}/{failed[0].repetition} failed" if failed else "its claims were not judged"
        raise UsageError(f"cannot be a reference: {why}", where=str(result.path))
    return Values(
        experiment=manifest.experiment.name,
        version=manifest.experiment.version,
        result=manifest.id,
        profile=manifest.profile,
        seed=manifest.seed,
        fidelity=manifest.fidelity,
        claims=[Value.model_validate(claim, from_attributes=True) for claim in claims if claim.metric is not None],
    )


def write_values(result: ResultSet, folder: Path) -> Path:
    """Write what this set measured to `folder`, a line per claim; the file written."""
    data = values_of(result).model_dump(mode="json")
    rows = [_line(row) for row in data.pop("claims")]
    head = json.dumps(data, indent=1, ensure_ascii=False).removesuffix("\n}")
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / VALUES
    target.write_text(f'{head},\n "claims": [\n  ' + ",\n  ".join(rows) + "\n ]\n}\n")
    return target


def _line(row: dict[str, Any]) -> str:
    return json.dumps(row, ensure_ascii=False, separators=(",", ":"))  # so that a change is readable in a diff


def load_values(folder: Path) -> Values | None:
    """The reference in this folder; None when there is none, UsageError naming it when it cannot be used."""
    path = folder / VALUES
    try:
        return Values.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        return None
    except OSError as error:
        raise UsageError(f"cannot be read: {error.strerror}", where=str(path)) from error
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        field = ".".join(map(str, first["loc"])) or "(whole file)"
        raise UsageError(
            f"not reference values: field {field}: {first['msg']}", where=str(path), hint="./inv reference SET"
        ) from error
