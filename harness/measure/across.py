# SPDX-License-Identifier: MIT
"""What a claim compares of a matrix, as one value per repetition: its arms are compared trial by trial.

Repetition k of every arm of a matrix is a block: it has one seed, and the trials of a run are in random order. So each
block gives one ratio, one slope, one difference, and statistics over blocks are those of trials (a summary measure
first, then statistics: Matthews et al. 1990, BMJ 300:230).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pandas as pd

from harness.experiment.across import Across
from harness.experiment.claim import Claim
from harness.experiment.expect import Expect
from harness.experiment.matrix import matches
from harness.experiment.scalar import Value, same, text_of
from harness.trial.model import TrialRecord

#: Two sizes always lie on a line.
LEAST_SIZES = 3
#: The smallest number above 0: what an order asks of each step.
ABOVE_ZERO = math.ulp(0.0)


@dataclass(frozen=True)
class Comparison:
    """One comparison: `values` of shape (n,), one per repetition that all of its arms have, or `reason` why none.

    place     the arms that are compared, in words; empty where there is one comparison only
    expect    what must hold of the values
    ran       repetitions that there were, with those that an arm has no value of
    note      what else a reader of the value must know
    """

    place: str
    expect: Expect
    ran: int
    values: npt.NDArray[np.float64] = field(default_factory=lambda: np.empty(0))
    note: str = ""
    reason: str | None = None


def comparisons(claim: Claim, metrics: pd.DataFrame, planned: Sequence[TrialRecord]) -> list[Comparison] | str:
    """All comparisons that a claim with `across` makes in a run, or why it makes none.

    `metrics` has METRIC_COLUMNS; `planned` are the run's trials, the failed ones too: an arm of which no trial is good
    must not be passed over.
    """
    across = claim.across
    assert across is not None
    arms = {one.arm: one.dimensions for one in planned if one.group == claim.arm}
    arms = {arm: place for arm, place in arms.items() if matches(across.where, place)}
    if not arms:
        return f"no arm of {claim.arm} that it is about took part in this run"
    rows = {str(arm): own for arm, own in metrics[metrics["metric"] == claim.metric_name].groupby("arm", sort=False)}
    good = Counter(one.arm for one in planned if one.status == "ok")
    made: list[Comparison] = []
    cells = _cells(across, arms)
    first = cells[0][0] if cells else {}
    differing = [name for name, value in first.items() if any(not same(place[name], value) for place, _ in cells)]
    for place, cell in cells:
        name = ", ".join(f"{dimension}={text_of(place[dimension])}" for dimension in differing)
        made += _Cell(across, claim.expect, name, cell, rows, good).comparisons()
    return made or _why_none(across, str(claim.arm))


def unit_of(across: Across, metrics_unit: str | None) -> str | None:
    """The unit of the values, by that of the metric."""
    if across.order is not None:
        return metrics_unit
    return f"{metrics_unit or 1}/{across.slope}" if across.scale == "linear" else "1"


def _cells(across: Across, arms: Mapping[str, Mapping[str, Value]]) -> list[tuple[dict[str, Value], dict[str, Value]]]:
    """Each combination of the other dimensions, and its arms with their value of the one that is compared.

    Only those in which there is enough to compare.
    """
    cells: list[tuple[dict[str, Value], dict[str, Value]]] = []
    for arm, dimensions in arms.items():
        place = {name: value for name, value in dimensions.items() if name != across.over}
        cell = next((own for other, own in cells if other == place), None)
        if cell is None:
            cell = {}
            cells.append((place, cell))
        cell[arm] = dimensions[across.over]
    cells = [(place, cell) for place, cell in cells if _enough(across, list(cell.values()))]
    return sorted(cells, key=lambda one: [_key(value) for value in one[0].values()])


def _key(value: Value) -> tuple[bool, float, str]:
    """Numbers by size, words by the alphabet: the order of a run's trials is random."""
    return (True, 0.0, value) if isinstance(value, str) else (False, float(value), "")


def _enough(across: Across, values: Sequence[Value]) -> bool:
    if across.values:
        return all(any(same(value, one) for one in values) for value in across.values)
    return len(values) >= (LEAST_SIZES if across.slope else 2)


def _why_none(across: Across, group: str) -> str:
    if across.values:
        wanted = " and ".join(map(text_of, across.values))
        return f"in this run, no arms of {group} differ in {across.over} alone and have {wanted}"
    wanted = f"{LEAST_SIZES} values or more" if across.slope else "several values"
    return f"in this run, no arms of {group} differ in {across.over} alone and have {wanted} of it"


@dataclass(frozen=True)
class _Cell:
    across: Across
    expect: Expect | None
    name: str
    arms: Mapping[str, Value]
    rows: Mapping[str, pd.DataFrame]  #: of the metric, by arm
    good: Mapping[str, int]  #: good trials by arm

    def comparisons(self) -> list[Comparison]:
        arms = self._wanted()
        ran = max(self.good.get(arm, 0) for arm in arms)
        for arm in arms:
            if reason := self._absent(arm):
                return [Comparison(self.name, self._expected(), ran, reason=reason)]
        columns = {arm: self.rows[arm].set_index("trial")["value"] for arm in arms}
        table = pd.concat(columns, axis=1).dropna().sort_index()
        if table.empty:
            return [Comparison(self.name, self._expected(), ran, reason="no repetition is good in all arms compared")]
        if self.across.order is not None:
            return [self._step(table, left, right, ran) for left, right in pairwise(arms)]
        values, note = self._derived(table)
        if isinstance(values, str):
            return [Comparison(self.name, self._expected(), ran, reason=values)]
        return [Comparison(self.name, self._expected(), ran, values, note)]

    def _wanted(self) -> list[str]:
        """The arms in the order in which they are compared; sizes as they grow."""
        if self.across.values:
            return [next(arm for arm, one in self.arms.items() if same(one, value)) for value in self.across.values]
        if self.across.slope is not None:
            return sorted(self.arms, key=lambda arm: float(self.arms[arm]))
        return list(self.arms)

    def _absent(self, arm: str) -> str | None:
        if not self.good.get(arm):
            return f"{arm}: no trial was good"
        if arm not in self.rows:
            return f"{arm}: no value of this metric"
        own = self.rows[arm]
        lacking = own[~np.isfinite(own["value"].to_numpy(dtype=np.float64))]
        if lacking.empty:
            return None
        reasons = lacking["reason"].dropna()
        return f"{arm}: {reasons.iloc[0] if len(reasons) else 'the metric is absent without a reason'}"

    def _expected(self) -> Expect:
        if self.expect is not None:
            return self.expect
        if self.across.order is not None:
            return Expect(at_least=ABOVE_ZERO)
        return Expect(at_most=self.across.within) if self.across.within else Expect(equals=0)

    def _step(self, table: pd.DataFrame, left: str, right: str, ran: int) -> Comparison:
        step = f"from {self.across.over} {text_of(self.arms[left])} to {text_of(self.arms[right])}"
        place = ", ".join(part for part in (self.name, step) if part)
        return Comparison(place, self._expected(), ran, (table[right] - table[left]).to_numpy(dtype=np.float64))

    def _derived(self, table: pd.DataFrame) -> tuple[npt.NDArray[np.float64] | str, str]:
        """One value per row of the table, and a note; or why there are none."""
        data = table.to_numpy(dtype=np.float64)
        if self.across.ratio is not None:
            if (data[:, 1] <= 0).any():
                return f"a ratio needs values above 0 of {table.columns[1]}", ""
            return data[:, 0] / data[:, 1], ""
        if self.across.slope is not None:
            return self._slopes(data)
        span, size = data.max(axis=1) - data.min(axis=1), np.abs(data).max(axis=1)
        return np.divide(span, size, out=np.zeros_like(span), where=size > 0), ""

    def _slopes(self, data: npt.NDArray[np.float64]) -> tuple[npt.NDArray[np.float64] | str, str]:
        from scipy import stats

        sizes = np.array(sorted(float(value) for value in self.arms.values()))
        if self.across.scale == "log-log":
            if sizes[0] <= 0 or (data <= 0).any():
                return "a log-log slope needs sizes and values above 0", ""
            x, y = np.log(sizes), np.log(data)
        else:
            x, y = sizes, data
        lines = [stats.linregress(x, row) for row in y]
        fitted = np.array([line.slope * x + line.intercept for line in lines])
        if self.across.scale == "log-log":
            away = float(np.exp(np.abs(y - fitted)).max() - 1)
        else:
            away = float(np.abs(y - fitted).max() / np.abs(y).max()) if y.any() else 0.0
        note = (
            f"a line through {len(sizes)} values of {self.across.over}, {sizes[0]:g} to {sizes[-1]:g}; "
            f"the farthest point is {100 * away:.2g} %"
            + (" off it" if self.across.scale == "log-log" else " of the largest off it")
        )
        return np.array([line.slope for line in lines]), note
