"""Building the plugin and attaching it to resolved trials: `oracle:` of an arm becomes words of QEMU's command line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from harness.build.plugin import build_plugin
from harness.build.store import Artefact, Store
from harness.choices import OracleMode
from harness.errors import UsageError
from harness.experiment.model import Experiment
from harness.experiment.prepare import KernelBuild, Prepared
from harness.experiment.trial import TrialSpec
from harness.machine.spec import Plugin
from harness.measure.symbols import read_system_map
from harness.oracle.places import describe_places

SOURCES = Path(__file__).resolve().parent / "plugin"
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


def attach(store: Store, experiment: Experiment, prepared: Prepared) -> list[TrialSpec]:
    """The prepared trials, each of an arm with `oracle:` carrying the plugin; the others as they are."""
    trials = []
    for trial in prepared.trials:
        arm = experiment.arms[trial.arm]
        if not arm.oracle:
            trials.append(trial)
            continue
        plugin = plugin_for(store, prepared.builds[trial.kernel], trial, arm.oracle, arm.oracle_locks)
        trials.append(trial.model_copy(update={"plugin": plugin}))
    return trials


def plugin_for(
    store: Store, build: KernelBuild, trial: TrialSpec, modes: Sequence[OracleMode], locks: Sequence[str] = ()
) -> Plugin:
    """The plugin with its arguments for one trial; UsageError when the trial's machine cannot have one."""
    machine = trial.machine
    if machine.accelerator != "tcg" or trial.state is None:
        raise UsageError(f"arm {trial.arm}: an oracle needs the tcg accelerator", hint="--accel tcg")
    if machine.record != "off":
        raise UsageError(f"arm {trial.arm}: a recorded guest cannot have an oracle", hint="leave out record or oracle")
    if "counters" in modes and "counters" not in machine.devices:
        raise UsageError(f"arm {trial.arm}: oracle mode counters needs devices: [counters]")
    if "locks" in modes and not locks:
        raise UsageError(f"arm {trial.arm}: oracle mode locks needs oracle_locks: [FUNCTION, ...]")
    return Plugin(
        path=build_plugin(store, "oracle", SOURCES).file("oracle.so"),
        arguments={
            "places": str(kernel_places(store, build, locks).file("places")),
            "modes": "+".join(dict.fromkeys(modes)),
            "seed": str(trial.seed),
            "period_ns": str(SAMPLE_PERIOD_NS),
            "shift": str(machine.icount_shift if machine.clock == "virtual" else -1),
        },
    )


def with_oracle(experiment: Experiment, modes: Sequence[OracleMode]) -> Experiment:
    """The experiment with these modes on every arm, in place of what the arms ask for themselves."""
    arms = {name: arm.model_copy(update={"oracle": list(modes)}) for name, arm in experiment.arms.items()}
    return experiment.model_copy(update={"arms": arms})
