# SPDX-License-Identifier: MIT
"""The table `trials`, which every result set has, and what becomes of figures when the host kept a guest waiting."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

import numpy as np
import pandas as pd

from harness.errors import KreproError
from harness.measure.declared import ARM, TRIAL, Metric, Table, family, number, string
from harness.measure.dimensions import group_columns, with_groups
from harness.measure.hostsched import host_waited
from harness.measure.raw import Trial
from harness.measure.rows import reason_of

#: How the reason of a value begins that was left out because the host kept a guest waiting.
LEFT_OUT = "the trial is left out: "
#: Its end where the metric's declaration leaves open whether that matters.
UNSAID = "; nothing declares this metric a fact"

TRIALS = Table(
    "trials",
    "one good trial, in the order of the plan",
    (
        ARM,
        TRIAL,
        string("kernel", "name of its kernel"),
        string("clock", "virtual or wall"),
        string("session", "ssh or mailbox"),
        string("fidelity", "what kind of time its figures are in"),
        string("params", "the arm's parameters: NAME=VALUE, by blanks"),
        string("pmu", "what the known-work check said of the guest's hardware counters"),
        number(
            "host_wait",
            "1",
            "the largest share of its time for which a vCPU could run and the host did not let it, or the host's own "
            "hypervisor did not; NaN: not recorded, or of no matter: under the virtual clock, and in a recording",
        ),
        string("disturbed", "why figures that depend on timing are left out; null: they are not"),
    ),
)


def trials_declared(trials: Sequence[Trial]) -> Table:
    """TRIALS, and if one of these is of a matrix, a column for each dimension that it has no column for."""
    return dataclasses.replace(TRIALS, columns=(*TRIALS.columns, *group_columns(trials, TRIALS.names)))


def trial_table(trials: Sequence[Trial]) -> pd.DataFrame:
    """The table `trials` of these, with the columns of `trials_declared`."""
    rows = []
    for trial in trials:
        wait, disturbed = _host(trial)
        rows.append(
            {
                "arm": trial.arm,
                "trial": trial.repetition,
                "kernel": trial.kernel,
                "clock": trial.clock,
                "session": trial.session,
                "fidelity": trial.fidelity,
                "params": " ".join(f"{name}={value}" for name, value in sorted(trial.params.items())),
                "pmu": trial.pmu,
                "host_wait": wait,
                "disturbed": disturbed,
            }
        )
    frame = pd.DataFrame(rows, columns=TRIALS.names)
    return trials_declared(trials).typed(with_groups(frame, trials, TRIALS.names))


def _host(trial: Trial) -> tuple[float, str | None]:
    if trial.fidelity.startswith("virtual"):  # neither that clock nor a recording's goes by the host's time
        return math.nan, None
    try:
        return host_waited(trial.path)
    except KreproError as error:
        return math.nan, f"nobody knows how the host ran its CPUs: {reason_of(error, trial)}"


def without_disturbed(metrics: pd.DataFrame, declared: Sequence[Metric], trials: pd.DataFrame) -> pd.DataFrame:
    """`metrics` (METRIC_COLUMNS) without what the host has spoilt.

    A value of a family that is no `fact`, of a trial that is disturbed, has no row where another trial of its arm is
    not; else it is absent with the reason. Facts need no timing, and stay. A hook that compares trials of two arms
    gives a value that the other trial has spoilt as absent, its reason beginning with LEFT_OUT: it has no row either
    where another trial of its arm gives the metric.
    """
    timed = {metric.name for metric in declared if metric.spoilt_by_waiting}
    unsaid = {metric.name for metric in declared if metric.timing is None}
    reasons = trials.set_index(["arm", "trial"])["disturbed"].to_dict()
    sound = set(trials.loc[trials["disturbed"].isna(), "arm"])
    keys = list(zip(metrics["arm"], metrics["trial"], strict=True))
    spoilt = [
        family(name) in timed and isinstance(reasons.get(key), str)
        for key, name in zip(keys, metrics["metric"], strict=True)
    ]
    why = [
        f"{LEFT_OUT}{reasons[key]}{UNSAID if family(name) in unsaid else ''}"
        if bad and not isinstance(own, str)
        else own
        for key, name, bad, own in zip(keys, metrics["metric"], spoilt, metrics["reason"], strict=True)
    ]
    value = metrics["value"].mask(np.array(spoilt, dtype=bool))
    dropped = np.array(spoilt, dtype=bool) & metrics["arm"].isin(sound).to_numpy()
    pairs = list(zip(metrics["arm"], metrics["metric"], strict=True))
    told = {pair for pair, number in zip(pairs, value, strict=True) if math.isfinite(number)}
    elsewhere = [
        isinstance(reason, str) and reason.startswith(LEFT_OUT) and pair in told
        for reason, pair in zip(why, pairs, strict=True)
    ]
    dropped |= np.array(elsewhere, dtype=bool)
    return metrics.assign(value=value, reason=pd.Series(why, dtype="object"))[~dropped].reset_index(drop=True)


def least_disturbed(rows: pd.DataFrame, trials: pd.DataFrame) -> pd.DataFrame:
    """Rows (arm, trial, …) of the trials that the host did not disturb; of an arm that has none, those of all.

    For what is shown of timing without being judged: a figure of disturbed trials says so, and is better than none.
    """
    sound = trials[trials["disturbed"].isna()]
    there, arms = set(zip(sound["arm"], sound["trial"], strict=True)), set(sound["arm"])
    kept = [key in there or key[0] not in arms for key in zip(rows["arm"], rows["trial"], strict=True)]
    return rows[np.array(kept, dtype=bool)].reset_index(drop=True)
