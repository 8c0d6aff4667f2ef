# SPDX-License-Identifier: MIT
"""How long a run will take, from an earlier run of the same experiment."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence

from harness.experiment.model import Experiment
from harness.experiment.plan import PlannedTrial
from harness.experiment.trial import TrialRecord


def estimate_seconds(
    plan: Sequence[PlannedTrial],
    experiment: Experiment,
    earlier: Sequence[TrialRecord],
    seconds: Mapping[str, float],
    cpus: int,
) -> float | None:
    """Wall time, s, of a run of `plan`; None when the earlier run has no good trial to go by.

    `earlier` and `seconds` are the earlier run's trials and its wall time by part. A trial takes the median of its
    arm's, one of an arm that did not run then the longest of those medians. Virtual-clock trials share `cpus`. What
    the harness does grows with the trials; the build is taken as it was.
    """
    good = [record for record in earlier if record.status == "ok" and "trial" in record.seconds]
    if not good:
        return None
    took = {
        arm: statistics.median(record.seconds["trial"] for record in good if record.arm == arm)
        for arm in {record.arm for record in good}
    }
    longest = max(took.values())
    guests = 0.0
    for trial in plan:
        at_once = cpus if experiment.arms[trial.arm].clock == "virtual" else 1
        guests += took.get(trial.arm, longest) / at_once
    return guests + seconds.get("build", 0.0) + seconds.get("harness", 0.0) * len(plan) / len(earlier)
