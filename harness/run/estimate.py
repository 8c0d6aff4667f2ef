# SPDX-License-Identifier: MIT
"""How long a run will take, from an earlier run of the same experiment."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence

from harness.experiment.model import Experiment
from harness.trial.model import TrialRecord
from harness.trial.plan import PlannedTrial


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
    took = trial_seconds(earlier)
    if not took:
        return None
    guests = guest_seconds(plan, experiment, took, cpus)
    return guests + seconds.get("build", 0.0) + seconds.get("harness", 0.0) * len(plan) / len(earlier)


def trial_seconds(earlier: Sequence[TrialRecord]) -> dict[str, float]:
    """Median wall time, s, of a good trial, by arm."""
    good = [record for record in earlier if record.status == "ok" and "trial" in record.seconds]
    return {
        arm: statistics.median(record.seconds["trial"] for record in good if record.arm == arm)
        for arm in {record.arm for record in good}
    }


def guest_seconds(
    plan: Sequence[PlannedTrial], experiment: Experiment, took: Mapping[str, float], cpus: int, guess: float = 0.0
) -> float:
    """Wall time, s, of a plan's guests; `took` is by arm, and `guess` is what a trial takes where that is empty."""
    longest = max(took.values(), default=guess)
    guests = 0.0
    for trial in plan:
        at_once = cpus if experiment.arms[trial.arm].clock == "virtual" else 1
        guests += took.get(trial.arm, longest) / at_once
    return guests
