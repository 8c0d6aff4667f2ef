"""From a plan to trials that can run: every kernel, image, key and saved state built or found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from harness.build.image import ImageRecipe, build_image
from harness.build.kernel import build_kernel
from harness.build.keys import image_keys
from harness.build.spec import KernelRecipe, Package, load_kernel
from harness.build.store import Artefact, Store
from harness.choices import AcceleratorChoice
from harness.experiment.model import Arm, Experiment
from harness.experiment.plan import PlannedTrial
from harness.experiment.trial import SavedState, TrialSpec
from harness.guest.job import WorkloadCommand, render
from harness.guest.ssh import Keys
from harness.machine.accelerator import choose_accelerator
from harness.machine.halt import halt_plugin
from harness.machine.saved import saved_state
from harness.machine.spec import BootFiles, MachineSpec, machine_spec
from harness.machine.stale import stale_plugin


@dataclass(frozen=True)
class KernelBuild:
    """A kernel and the image that an experiment's guests run on it."""

    recipe: KernelRecipe
    kernel: Artefact
    image: Artefact


@dataclass(frozen=True)
class Prepared:
    """All that the trials of a run need."""

    trials: list[TrialSpec]
    builds: Mapping[str, KernelBuild]
    states: Mapping[str, Artefact]


def build_for(store: Store, name: str, folder: Path | None, packages: Sequence[str | Package] = ()) -> KernelBuild:
    """Kernel `name` and its image with the guest sources of the experiment in `folder`, if any."""
    recipe = load_kernel(name, beside=folder)
    kernel = build_kernel(store, recipe)
    sources = (folder / "guest",) if folder is not None and (folder / "guest").is_dir() else ()
    named_in = folder / "experiment.yaml" if folder is not None else None
    image = ImageRecipe(recipe, sources, tuple(packages), named_in)
    return KernelBuild(recipe, kernel, build_image(store, image, kernel))


def boot_parameters(arm: Arm) -> tuple[str, ...]:
    """An arm's kernel command-line parameters; true is a bare word, false leaves the word out."""
    words = []
    for key, value in arm.cmdline.items():
        if value is False:
            continue
        words.append(key if value is True else f"{key}={render(value)}")
    return tuple(words)


def machine_for(name: str, arm: Arm, recipe: KernelRecipe, accelerator: Literal["tcg", "kvm"]) -> MachineSpec:
    """The machine of an arm; UsageError naming the arm when the arm asks for what cannot be."""
    spec = recipe.spec
    return machine_spec(
        f"arm {name}",
        hardware=spec.hardware,
        accelerator=accelerator,
        clock=arm.clock,
        session=arm.session_kind(),
        cpus=arm.cpus,
        cmdline=(*spec.cmdline, *boot_parameters(arm)),
        devices=tuple(dict.fromkeys(arm.devices)),
        icount_shift=arm.icount_shift,
        record="record" if arm.record else "off",
    )


def prepare(
    store: Store,
    experiment: Experiment,
    folder: Path,
    plan: Sequence[PlannedTrial],
    target: Path,
    accelerator: AcceleratorChoice,
) -> Prepared:
    """Check every arm, then build what the plan needs; trials write below `target`/raw."""
    arms = list(dict.fromkeys(trial.arm for trial in plan))
    recipes = {experiment.arms[arm].kernel: load_kernel(experiment.arms[arm].kernel, beside=folder) for arm in arms}
    for arm in arms:  # before a long build starts: an impossible arm is found on any accelerator
        machine_for(arm, experiment.arms[arm], recipes[experiment.arms[arm].kernel], "tcg")
    builds = {name: build_for(store, name, folder, experiment.packages) for name in recipes}
    machines: dict[str, MachineSpec] = {}
    boots: dict[str, tuple[BootFiles, Keys | None]] = {}
    states: dict[str, Artefact] = {}
    for arm in arms:
        model = experiment.arms[arm]
        build = builds[model.kernel]
        counted = model.clock == "virtual" or model.record or model.oracle
        chosen = "tcg" if counted else choose_accelerator(store, accelerator, build.kernel)
        machines[arm] = machine_for(arm, model, build.recipe, chosen)
        boots[arm] = boot_files(store, build, machines[arm])
        if machines[arm].restorable:
            states[arm] = saved_state(store, arm, machines[arm], boots[arm][0])
    trials = [
        _resolve(experiment, machines[planned.arm], *boots[planned.arm], states.get(planned.arm), planned, target)
        for planned in plan
    ]
    return Prepared(trials, builds, states)


def boot_files(store: Store, build: KernelBuild, machine: MachineSpec) -> tuple[BootFiles, Keys | None]:
    """The files that a machine boots from; ssh machines get the keys of their image in a second initramfs."""
    kernel, image = build.kernel.file("bzImage"), build.image.file("image.cpio")
    halt = halt_plugin(store) if machine.clock == "virtual" else None
    stale = stale_plugin(store) if machine.needs_stale else None
    if machine.session != "ssh":
        return BootFiles(kernel=kernel, initrds=(image,), halt=halt, stale=stale), None
    made = image_keys(store, build.image, build.kernel)
    keys = Keys(client=made.file("client"), host=made.file("host.pub"))
    return BootFiles(kernel=kernel, initrds=(image, made.file("keys.cpio")), stale=stale), keys


def _resolve(
    experiment: Experiment,
    machine: MachineSpec,
    files: BootFiles,
    keys: Keys | None,
    state: Artefact | None,
    planned: PlannedTrial,
    target: Path,
) -> TrialSpec:
    arm = experiment.arms[planned.arm]
    return TrialSpec(
        arm=planned.arm,
        repetition=planned.repetition,
        seed=planned.seed,
        kernel=arm.kernel,
        machine=machine,
        files=files,
        keys=keys,
        state=SavedState(path=state.file("state"), key=state.key) if state else None,
        params=arm.params,
        cmdline=arm.cmdline,
        workloads=tuple(
            WorkloadCommand(
                name,
                experiment.workloads[name].command,
                experiment.workloads[name].timeout_s,
                tuple(experiment.collect),
            )
            for name in experiment.arm_workloads(planned.arm)
        ),
        folder=target / "raw" / planned.arm / str(planned.repetition),
    )
