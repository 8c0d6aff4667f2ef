# SPDX-License-Identifier: MIT
"""The command that makes a result set again, from its manifest."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from harness.errors import KreproError
from harness.experiment.model import Experiment, experiment_names, load_experiment
from harness.paths import PROGRAM, ROOT
from harness.sets.manifest import MOST_TRIALS, Manifest
from harness.sets.resultset import EXPERIMENT, ResultSet
from harness.trial.plan import make_plan, ordered


@dataclass(frozen=True)
class Reproduction:
    """`command` is None when no command gives these trials; `notes` say what it takes besides."""

    command: str | None
    notes: tuple[str, ...]


def reproduction(result: ResultSet) -> Reproduction:
    """How to run a set's trials again: same arms, repetitions, seeds, oracle and accelerator."""
    manifest = result.manifest
    notes = [_sources(manifest)]
    words = [PROGRAM, "run", _experiment_word(result), "--profile", manifest.profile, "--seed", str(manifest.seed)]
    choice = _choice(manifest)
    if choice is None:
        return Reproduction(None, (*notes, "No choice of arms and repetitions of one run gives exactly these trials."))
    words += choice
    for name, texts in manifest.chosen.items():
        words += ["--set", f"{name}={','.join(texts)}"]
    try:
        words += _oracle(manifest.experiment, load_experiment(result.path / EXPERIMENT))
    except KreproError as error:
        return Reproduction(None, (*notes, f"The experiment's copy in the set cannot be read: {error}"))
    wall = {manifest.accelerator.get(trial.arm) for trial in manifest.trials if trial.clock == "wall"}
    for accelerator in sorted(wall.intersection({"kvm", "tcg"}), key=str)[:1]:
        words += ["--accel", str(accelerator)]
    if wall:
        notes.append("Trials on the wall clock give other bits each time; the digest covers the virtual-clock trials.")
    if manifest.digest is not None:
        words += ["--check-digest", manifest.digest]
        notes.append("With the same QEMU, compiler and packages (see Provenance), equal bits are expected.")
    return Reproduction(shlex.join(words), tuple(notes))


def _sources(manifest: Manifest) -> str:
    state = manifest.repository
    if state.commit is None:
        return f"The project's state is not known: {state.absent['commit']}."
    if state.dirty:
        return (
            f"The project was at commit {state.commit} with changes that were not committed "
            f"(sha256 of the difference: {state.diff_sha256}), so the commit alone may not be enough."
        )
    return f"First check out the project's commit: git checkout {state.commit}"


def _experiment_word(result: ResultSet) -> str:
    """A built-in experiment by its name, any other by the copy of its folder in the set."""
    name = result.manifest.experiment.name
    if name in experiment_names() and not result.manifest.repository.dirty:
        return name
    folder = result.path / EXPERIMENT
    return str(folder.relative_to(ROOT) if folder.is_relative_to(ROOT) else folder)


def _choice(manifest: Manifest) -> list[str] | None:
    """The fewest of --arms and --repetitions that plan exactly the set's trials; None when nothing does.

    Of a part the words that plan the whole, and the option that asks for the part.
    """
    wanted = {(trial.arm, trial.repetition, trial.seed) for trial in manifest.trials}
    counts = Counter(trial.arm for trial in manifest.trials)
    if manifest.missing:
        if not manifest.plan.part:
            return None  # a merge of some parts
        counts = Counter(manifest.plan.repetitions)
        whole = ordered(manifest.experiment, counts, manifest.seed)
        wanted = {(trial.arm, trial.repetition, trial.seed) for trial in whole}
    part = _words(manifest.plan.part) if manifest.missing else []
    if part is None:
        return None
    named = [arm for arm in manifest.experiment.arms if arm in counts]
    most = max(counts.values(), default=1)
    arms_choices: Sequence[list[str] | None] = (None, named)
    for arms in arms_choices:
        for repetitions in (None, most):
            if _planned(manifest, arms, repetitions) == wanted:
                words = [] if arms is None else ["--arms", ",".join(arms)]
                if repetitions is None or part[:1] == ["--repetitions"]:
                    return [*words, *part]
                return [*words, "--repetitions", str(repetitions), *part]
    return None


def _words(text: str) -> list[str] | None:
    """As a shell reads them; None of a text that no shell takes: a set's manifest may hold anything."""
    try:
        return shlex.split(text)
    except ValueError:
        return None


def _planned(manifest: Manifest, arms: list[str] | None, repetitions: int | None) -> set[tuple[str, int, int]]:
    experiment = manifest.experiment
    if sum(experiment.arm_repetitions(arm, manifest.profile) for arm in experiment.arms) > MOST_TRIALS:
        return set()
    try:
        plan = make_plan(
            experiment,
            profile=manifest.profile,
            repetitions=repetitions,
            arms=arms,
            seed=manifest.seed,
            chosen=manifest.chosen,
        )
    except KreproError:
        return set()
    return {(trial.arm, trial.repetition, trial.seed) for trial in plan}


def _oracle(ran: Experiment, written: Experiment) -> list[str]:
    """--oracle, where the arms ran with other modes than experiment.yaml gives them."""
    if all(ran.arms[name].oracle == arm.oracle for name, arm in written.arms.items() if name in ran.arms):
        return []
    return ["--oracle", ",".join(next(iter(ran.arms.values())).oracle)]
