# SPDX-License-Identifier: MIT
"""How long a run and its stages will take: from an earlier run of the same experiment, and from what is built."""

from __future__ import annotations

import os
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path

from harness.artefacts.store import Store
from harness.errors import KreproError
from harness.experiment.model import Experiment
from harness.kernel.build import DEFAULT_STEPS
from harness.kernel.spec import KernelRecipe
from harness.packages import tree
from harness.sets.listing import latest_of
from harness.sets.resultset import ResultSet
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


#: First guesses, s: fetching and unpacking the tools; a step of compiling, on one CPU; preparing what is built; a
#: trial, and its analysis. The pace of compiling and of the trials takes their place as soon as there is one.
TOOLS_S, STEP_S, WARM_S, TRIAL_S, ANALYSIS_S = 40.0, 0.5, 3.0, 3.0, 0.2


def outlook(
    store: Store,
    experiment: Experiment,
    parts: Sequence[Sequence[PlannedTrial]],
    recipes: Mapping[str, KernelRecipe],
    results: Path,
) -> list[float]:
    """Seconds of each stage: of each part what is built and its guests, and at last the analysis."""
    cpus = len(os.sched_getaffinity(0))
    built = store.named("kernel")
    took: dict[str, float] = {}
    analysis = ANALYSIS_S * sum(map(len, parts))
    try:
        latest = latest_of(results / experiment.name)
        if latest is not None:
            last = ResultSet(latest).manifest
            took = trial_seconds(last.trials)
            analysis *= last.seconds.get("harness", 0.0) / (ANALYSIS_S * len(last.trials)) if last.trials else 1.0
    except KreproError:
        pass  # whatever is wrong with that set: it is a guess only
    seconds: list[float] = []
    for part in parts:
        kernels = {experiment.arms[trial.arm].kernel for trial in part} - built.keys()
        steps = sum(recipes[kernel].spec.steps or DEFAULT_STEPS for kernel in kernels)
        seconds.append(WARM_S + steps * STEP_S / cpus + (0.0 if tree.ready() or seconds else TOOLS_S))
        seconds.append(guest_seconds(part, experiment, took, cpus, TRIAL_S))
    return [*seconds, analysis]
