# SPDX-License-Identifier: MIT
"""The plan of a run: arms x repetitions, each trial with its own seed, in a seeded random order."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Sequence
from dataclasses import dataclass

from harness.choices import Profile
from harness.errors import UsageError
from harness.experiment.model import Experiment


@dataclass(frozen=True)
class PlannedTrial:
    """One arm, once."""

    arm: str
    repetition: int
    seed: int


def trial_seed(run_seed: int, repetition: int) -> int:
    """A 32-bit seed that depends on nothing but its arguments.

    Repetition k of every arm shares its seed: arms are then compared on the same jitter, pair by pair.
    """
    digest = hashlib.sha256(f"krepro {run_seed} {repetition}".encode()).digest()
    return int.from_bytes(digest[:4], "big")


def make_plan(
    experiment: Experiment,
    *,
    profile: Profile = "quick",
    repetitions: int | None = None,
    arms: Sequence[str] | None = None,
    seed: int = 1,
) -> list[PlannedTrial]:
    """All trials of a run in the order in which they start.

    `repetitions` overrides the counts of every arm that is in the profile; `arms` chooses arms by name, in the
    profile or not. UsageError for an unknown arm or an empty plan.
    """
    if arms is not None:
        unknown = [arm for arm in arms if arm not in experiment.arms]
        if unknown:
            raise UsageError(f"unknown arm {unknown[0]!r}", hint=f"known: {', '.join(experiment.arms)}")
    if repetitions is not None and repetitions < 1:
        raise UsageError(f"--repetitions {repetitions}: must be 1 or more")
    chosen = list(dict.fromkeys(arms)) if arms is not None else list(experiment.arms)
    trials = []
    for arm in chosen:
        count = experiment.arm_repetitions(arm, profile)
        if count == 0 and arms is not None:
            count = 1  # asked for by name
        if count and repetitions is not None:
            count = repetitions
        trials += [PlannedTrial(arm, k, trial_seed(seed, k)) for k in range(count)]
    if not trials:
        raise UsageError(f"profile {profile} has no trials", where=experiment.name)
    random.Random(seed).shuffle(trials)  # noqa: S311  (an order that a seed repeats, nothing secret)
    return trials
