# SPDX-License-Identifier: MIT
"""From a plan to trials that can run: all that they need is built, and `oracle:` of an arm becomes QEMU's plugin."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from harness.artefacts.store import Artefact, Store
from harness.choices import AcceleratorChoice, OracleMode
from harness.errors import UsageError
from harness.experiment.model import Arm, Experiment
from harness.kernel.spec import KernelRecipe
from harness.machine.board import Board
from harness.machine.plugin import build_plugin, plugin_api
from harness.machine.qemu import qemu_version
from harness.machine.spec import Plugin
from harness.measure.symbols import read_system_map
from harness.oracle import SOURCES
from harness.oracle.places import describe_places
from harness.trial.model import TrialSpec
from harness.trial.plan import PlannedTrial
from harness.trial.prepare import KernelBuild, PreparedArm, check_arms, prepare_arms, trial_spec

#: Mean of the sampler's period: 5,000 samples a second of virtual time, fifty times the guest's ticks.
SAMPLE_PERIOD_NS = 200_000


def kernel_places(store: Store, build: KernelBuild, locks: Sequence[str]) -> Artefact:
    """The artefact with `places`: what the plugin must know of this kernel."""
    text = describe_places(
        read_system_map(build.kernel.file("System.map")), build.kernel.file("config").read_text(), locks
    )

    def write(folder: Path) -> Mapping[str, Any]:
        (folder / "places").write_text(text)
        return {}

    return store.obtain("places", build.recipe.spec.name, {"places": text}, write)


@dataclass(frozen=True)
class Prepared:
    """The trials of a run, ready for `run_each`, and what they were made of: builds by kernel, states by arm.

    `why_tcg`: by arm that has no KVM where that was wanted, the reason.
    """

    trials: list[TrialSpec]
    builds: Mapping[str, KernelBuild]
    states: Mapping[str, Artefact]
    why_tcg: Mapping[str, str]

    def limited(self, file_bytes: int) -> Prepared:
        """The same, with so many bytes for each file that a QEMU writes."""
        return replace(self, trials=[spec.model_copy(update={"file_bytes": file_bytes}) for spec in self.trials])


def prepare_trials(
    store: Store,
    experiment: Experiment,
    folder: Path,
    plan: Sequence[PlannedTrial],
    target: Path,
    accelerator: AcceleratorChoice,
    recipes: Mapping[str, KernelRecipe] | None = None,
) -> Prepared:
    """The way from a plan to trials that can run, those of an arm with `oracle:` with the plugin.

    Every arm is checked before anything is built: UsageError; but not with `recipes`, those of `check_plan`, which has
    seen this plan or one that this is a part of. Trials write below `target`/raw.
    """
    if recipes is None:
        recipes = check_plan(experiment, folder, plan, accelerator)
    names = list(dict.fromkeys(planned.arm for planned in plan))
    arms = prepare_arms(store, experiment, folder, names, accelerator, recipes)
    oracles = {name: oracle_of(store, experiment.arms[name], arms[name]) for name in names}
    trials = [
        trial_spec(experiment, arms[planned.arm], planned, target, seeded(oracles[planned.arm], planned.seed))
        for planned in plan
    ]
    builds = {experiment.arms[name].kernel: arm.build for name, arm in arms.items()}
    states = {name: arm.state for name, arm in arms.items() if arm.state}
    return Prepared(trials, builds, states, {name: arm.why_tcg for name, arm in arms.items() if arm.why_tcg})


def check_plan(
    experiment: Experiment, folder: Path, plan: Sequence[PlannedTrial], accelerator: AcceleratorChoice
) -> dict[str, KernelRecipe]:
    """The recipes that a plan needs, by kernel, in the order of its arms; UsageError for an arm that cannot be."""
    names = {planned.arm for planned in plan}
    ordered = [name for name in experiment.arms if name in names]
    for name in ordered:
        _check(name, experiment.arms[name])
    return check_arms(experiment, folder, ordered, accelerator)


def _check(name: str, arm: Arm) -> None:
    if not arm.oracle:
        return
    if arm.record:
        raise UsageError(f"arm {name}: a recorded guest cannot have an oracle", hint="leave out record or oracle")
    if "counters" in arm.oracle and "counters" not in arm.devices:
        raise UsageError(f"arm {name}: oracle mode counters needs devices: [counters]")
    if "locks" in arm.oracle and not arm.oracle_locks:
        raise UsageError(f"arm {name}: oracle mode locks needs oracle_locks: [FUNCTION, ...]")


def oracle_of(store: Store, arm: Arm, prepared: PreparedArm) -> Plugin | None:
    """The plugin with all arguments but a trial's seed; None where the arm asks for none."""
    if not arm.oracle:
        return None
    # The mode paths has its contexts from that one.
    modes = ["functions", *arm.oracle] if "paths" in arm.oracle else arm.oracle
    shift = prepared.machine.icount_shift if prepared.machine.clock == "virtual" else -1
    return Plugin(
        path=_plugin(store, prepared.machine.board),
        arguments={
            "places": str(kernel_places(store, prepared.build, arm.oracle_locks).file("places")),
            "modes": "+".join(dict.fromkeys(modes)),
            "period_ns": str(SAMPLE_PERIOD_NS),
            "shift": str(shift),
        },
    )


def _plugin(store: Store, board: Board) -> Path:
    return build_plugin(store, "oracle", SOURCES, plugin_api(qemu_version(board.qemu)), board.define).file("oracle.so")


def seeded(plugin: Plugin | None, seed: int) -> Plugin | None:
    return plugin and plugin.model_copy(update={"arguments": {**plugin.arguments, "seed": str(seed)}})


def with_oracle(experiment: Experiment, modes: Sequence[OracleMode]) -> Experiment:
    """The experiment with these modes on every arm, in place of what the arms ask for themselves."""
    arms = {name: arm.model_copy(update={"oracle": list(modes)}) for name, arm in experiment.arms.items()}
    return experiment.model_copy(update={"arms": arms})
