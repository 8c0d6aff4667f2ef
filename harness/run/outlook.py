# SPDX-License-Identifier: MIT
"""What the stages of a run will take, as far as it can be known before: from what is built, and from the newest set."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from harness.artefacts.store import Store
from harness.errors import KreproError
from harness.experiment.model import Experiment
from harness.kernel.build import DEFAULT_STEPS
from harness.kernel.spec import KernelRecipe
from harness.packages import tree
from harness.run.estimate import guest_seconds, trial_seconds
from harness.sets.listing import latest_of
from harness.sets.resultset import ResultSet
from harness.trial.plan import PlannedTrial

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
