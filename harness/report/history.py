# SPDX-License-Identifier: MIT
"""All result sets of a folder, and the history of each verdict and metric over them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd

from harness.artefacts.store import hash_file
from harness.errors import KreproError
from harness.measure.claims import ClaimResult
from harness.measure.verdict import Verdict
from harness.sets.listing import ID
from harness.sets.resultset import LATEST, MANIFEST, ResultSet

#: Sets of an experiment that histories show; more would not fit into a plot a few centimetres wide.
MOST = 200
#: With fewer earlier values, a value outside of their range says little.
ENOUGH = 5
_COLUMNS = ("arm", "metric", "value", "unit")


@dataclass(frozen=True)
class Entry:
    """One folder under an experiment's name: what an index says of it. `problem` is why it is no good set."""

    experiment: str
    id: str
    path: Path
    problem: str | None = None
    created: str = ""
    version: int = 0
    profile: str = ""
    seed: int = 0
    commit: str | None = None
    dirty: bool = False
    digest: str | None = None
    trials: int = 0
    failed: int = 0
    fidelity: tuple[tuple[str, str], ...] = ()
    claims: tuple[ClaimResult, ...] = ()
    metrics: pd.DataFrame | None = None


@dataclass(frozen=True)
class VerdictHistory:
    """One claim over the sets: None where its arm took no part."""

    claim: ClaimResult
    verdicts: tuple[Verdict | None, ...]
    changes: tuple[tuple[str, Verdict, Verdict], ...]  # set, from, to; newest last


@dataclass(frozen=True)
class MetricHistory:
    """One metric of one arm at one fidelity: a median per set, NaN where there is none.

    `breaks` are the places at which the experiment's version changed; `news` says that the last value lies outside
    of all values before it since then.
    """

    metric: str
    arm: str
    fidelity: str
    unit: str
    values: npt.NDArray[np.float64]
    breaks: tuple[int, ...]

    @property
    def news(self) -> str | None:
        last = self.breaks[-1] if self.breaks else 0
        known = self.values[last:][np.isfinite(self.values[last:])]
        if known.size <= ENOUGH or not np.isfinite(self.values[-1]):
            return None
        if known[-1] > known[:-1].max():
            return "higher than all before"
        return "lower than all before" if known[-1] < known[:-1].min() else None


def experiments(results: Path) -> dict[str, list[Entry]]:
    """Every set below `results` by experiment, oldest first; what cannot be read is an Entry with its problem."""
    found = {}
    for home in sorted(path for path in results.glob("*") if path.is_dir()):
        entries = [_entry(home.name, path) for path in _folders(home)]
        if entries:
            found[home.name] = entries
    return found


def _folders(home: Path) -> Iterator[Path]:
    """Result sets, whole or broken, and nothing else: not `latest`, not what is being written."""
    for path in sorted(home.iterdir()):
        named = not path.is_symlink() and path.name != LATEST and not path.name.startswith(".")
        if named and path.is_dir() and ((path / MANIFEST).exists() or ID.fullmatch(path.name)):
            yield path


def _entry(experiment: str, path: Path) -> Entry:
    try:
        return _read(experiment, path)
    except KreproError as error:
        return Entry(experiment, path.name, path, problem=str(error).replace(f"{path}/", ""))
    except (OSError, ValueError) as error:  # pydantic's own errors are ValueErrors
        return Entry(experiment, path.name, path, problem=f"{type(error).__name__}: {str(error).splitlines()[0]}")


def _read(experiment: str, path: Path) -> Entry:
    result = ResultSet(path)
    manifest = result.manifest
    # The small files that an index is made of are checked; `./inv verify` checks all.
    for name in ("claims.json", "metrics.parquet"):
        wanted = manifest.files.get(name)
        if wanted is not None and hash_file(path / name) != wanted:
            raise KreproError("differs from what was written", where=name)
    has_metrics = "metrics.parquet" in manifest.files and not manifest.missing
    return Entry(
        experiment=experiment,
        id=path.name,
        path=path,
        created=manifest.created,
        version=manifest.experiment.version,
        profile=manifest.profile,
        seed=manifest.seed,
        commit=manifest.repository.commit,
        dirty=bool(manifest.repository.dirty),
        digest=manifest.digest,
        trials=len(manifest.trials),
        failed=sum(trial.status == "failed" for trial in manifest.trials),
        fidelity=tuple(manifest.fidelity.items()),
        claims=() if manifest.missing else tuple(result.claims),  # a part is no point of a history
        metrics=result.metrics.loc[:, list(_COLUMNS)] if has_metrics else None,
    )


def verdict_histories(entries: Sequence[Entry]) -> list[VerdictHistory]:
    """One history per claim of the newest set that has it, in the newest sets' order. `entries`: good, oldest first."""
    newest: dict[str, ClaimResult] = {}
    for entry in reversed(entries):
        for claim in entry.claims:
            newest.setdefault(claim.id, claim)
    by_set = [{claim.id: claim for claim in entry.claims} for entry in entries]
    histories = []
    for name, claim in newest.items():
        results = [claims.get(name) for claims in by_set]
        verdicts = tuple(one.verdict if one is not None and one.trials else None for one in results)
        histories.append(VerdictHistory(claim, verdicts, tuple(_changes(entries, verdicts))))
    return histories


def _changes(entries: Iterable[Entry], verdicts: Iterable[Verdict | None]) -> Iterator[tuple[str, Verdict, Verdict]]:
    before: Verdict | None = None
    for entry, verdict in zip(entries, verdicts, strict=True):
        if verdict is None:
            continue
        if before is not None and verdict != before:
            yield entry.id, before, verdict
        before = verdict


def metric_histories(entries: Sequence[Entry]) -> list[MetricHistory]:
    """One history per metric, arm and fidelity, sorted by them. `entries`: good sets, oldest first."""
    parts = [(place, entry) for place, entry in enumerate(entries) if entry.metrics is not None]
    if not parts:
        return []
    frame = pd.concat(
        [_medians(entry).assign(place=place) for place, entry in parts],
        ignore_index=True,
    )
    breaks = tuple(place for place in range(1, len(entries)) if entries[place].version != entries[place - 1].version)
    histories = []
    for (metric, arm, fidelity), rows in frame.groupby(["metric", "arm", "fidelity"], sort=True):
        values = np.full(len(entries), np.nan)
        values[rows["place"].to_numpy()] = rows["value"].to_numpy()
        unit = str(rows["unit"].iloc[-1])
        histories.append(MetricHistory(str(metric), str(arm), str(fidelity), unit, values, breaks))
    return histories


def _medians(entry: Entry) -> pd.DataFrame:
    """Median over trials by metric and arm: metric, arm, value, unit, fidelity."""
    assert entry.metrics is not None
    grouped = entry.metrics.groupby(["metric", "arm"], sort=False)
    table = grouped.agg(value=("value", "median"), unit=("unit", "last")).reset_index()
    return table.assign(fidelity=table["arm"].map(dict(entry.fidelity)).fillna("unknown"))
