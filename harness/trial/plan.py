# SPDX-License-Identifier: MIT
"""The plan of a run: arms x repetitions, each trial with its own seed, in a seeded random order."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from harness.choices import Profile
from harness.errors import UsageError
from harness.experiment.matrix import Chosen, is_meant
from harness.experiment.model import Arm, Experiment
from harness.experiment.scalar import Value, text_of
from harness.kernel.versions import is_version, version_in


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
    chosen: Chosen | None = None,
) -> list[PlannedTrial]:
    """All trials of a run in the order in which they start.

    `repetitions` overrides the counts of every arm that is in the profile; `arms` chooses arms by name, in the
    profile or not, that of a matrix all of its arms; of these, the values `chosen` of dimensions leave some.
    UsageError for an unknown arm or an empty plan.
    """
    if repetitions is not None and repetitions < 1:
        raise UsageError(f"--repetitions {repetitions}: must be 1 or more")
    left = set(chosen_arms(experiment, chosen or {}))
    named = set(_named(experiment, arms)) if arms is not None else left
    counts = {}
    for arm in experiment.arms:  # in their order, whatever that of the words: it is one plan
        if arm not in left or arm not in named:
            continue
        count = experiment.arm_repetitions(arm, profile)
        if count == 0 and arms is not None:
            count = 1  # asked for by name
        if count and repetitions is not None:
            count = repetitions
        if count:
            counts[arm] = count
    if not counts:
        raise UsageError(f"profile {profile} has no trials", where=experiment.name)
    return ordered(experiment, counts, seed)


def ordered(experiment: Experiment, counts: Mapping[str, int], seed: int) -> list[PlannedTrial]:
    """So many repetitions of each of these arms, in the order that arms, counts and seed decide."""
    trials = []
    for arm, count in counts.items():
        own = experiment.arms[arm].seed
        trials += [PlannedTrial(arm, k, trial_seed(seed if own is None else own, k)) for k in range(count)]
    random.Random(seed).shuffle(trials)  # noqa: S311  (an order that a seed repeats, nothing secret)
    return trials


def chosen_arms(experiment: Experiment, chosen: Chosen) -> list[str]:
    """Arms that the command line's values of dimensions leave; UsageError for a dimension or a value that none has.

    An arm without a dimension is left by any values of it; every arm has a kernel.
    """
    for name, texts in chosen.items():
        option = "--kernel" if name == "kernel" else f"--set {name}"
        places = [place for arm in experiment.arms.values() if (place := _place(arm, name)) is not None]
        if not places:
            known = ", ".join(dict.fromkeys(key for arm in experiment.arms.values() for key in arm.dimensions))
            raise UsageError(f"{option}: no arm has this dimension", hint=f"known: {known or 'there is none'}")
        for text in texts:
            if not any(_meant(name, place, text) for place in places):
                known = ", ".join(dict.fromkeys(map(text_of, places)))
                raise UsageError(f"{option} {text}: no arm has this value", hint=f"known: {known}")
    left = [arm for arm, model in experiment.arms.items() if _fits(model, chosen)]
    if not left:
        raise UsageError("no arm has all values that --set and --kernel give", where=experiment.name)
    return left


def _fits(arm: Arm, chosen: Chosen) -> bool:
    return all(
        (place := _place(arm, name)) is None or any(_meant(name, place, text) for text in texts)
        for name, texts in chosen.items()
    )


def _place(arm: Arm, dimension: str) -> Value | None:
    return arm.kernel if dimension == "kernel" else arm.dimensions.get(dimension)


def _meant(dimension: str, value: Value, text: str) -> bool:
    """Whether a text of the command line means this value; a version means every kernel that is made of it."""
    if dimension == "kernel" and is_version(text):
        return version_in(str(value)) == text
    return is_meant(value, text)


def _named(experiment: Experiment, words: Sequence[str]) -> list[str]:
    """The arms that these words name, each once."""
    named: list[str] = []
    for word in words:
        own = [word] if word in experiment.arms else list(experiment.group(word))
        if not own:
            raise UsageError(f"unknown arm {word!r}", hint=f"known: {', '.join(experiment.written_arms)}")
        named += own
    return list(dict.fromkeys(named))


def workload_order(arm: Arm, workloads: Sequence[str], seed: int) -> list[str]:
    """The workloads of a trial with this seed in the order in which they run.

    It depends on the trial's seed alone, as all of a trial does; repetition k has the same order in every arm.
    """
    if arm.workload_order == "given":
        return list(workloads)
    return random.Random(seed).sample(workloads, len(workloads))  # noqa: S311  (an order that a seed repeats)
