# SPDX-License-Identifier: MIT
"""From arms to what their trials need: every kernel, image, key and saved state built or found."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from harness.artefacts.store import Artefact, Store
from harness.choices import AcceleratorChoice
from harness.errors import UsageError, raise_all
from harness.experiment.model import Arm, Experiment
from harness.guest.job import WorkloadCommand, render
from harness.guest.ssh import Keys
from harness.image.build import ImageRecipe, build_image
from harness.image.drivers import driver_archive
from harness.image.keys import image_keys
from harness.kernel.build import build_kernel
from harness.kernel.load import load_kernel
from harness.kernel.spec import KernelRecipe
from harness.machine.accelerator import Choice, choose_accelerator, foreign_to_host
from harness.machine.halt import halt_plugin
from harness.machine.kvmcpu import absent_features
from harness.machine.saved import saved_state
from harness.machine.spec import BootFiles, MachineSpec, Plugin, machine_spec
from harness.machine.stale import stale_plugin
from harness.packages.choice import Package
from harness.progress import warn
from harness.trial.model import SavedState, TrialSpec
from harness.trial.plan import PlannedTrial, workload_order
from harness.trial.symbols import with_symbols
from harness.yamlfile import line_of


@dataclass(frozen=True)
class KernelBuild:
    """A kernel and the image that an experiment's guests run on it."""

    recipe: KernelRecipe
    kernel: Artefact
    image: Artefact


@dataclass(frozen=True)
class PreparedArm:
    """What all trials of one arm share, built or found; `why_tcg`: why it has no KVM where that was wanted."""

    build: KernelBuild
    machine: MachineSpec
    files: BootFiles
    keys: Keys | None
    state: Artefact | None
    why_tcg: str


def guest_folders(folder: Path, kernel: str) -> tuple[Path, ...]:
    """The guest sources of an experiment's folder for one of its kernels: those for all, and its own."""
    return tuple(path for path in (folder / "guest", folder / f"guest-{kernel}") if path.is_dir())


def build_for(
    store: Store,
    name: str,
    folder: Path | None,
    packages: Sequence[str | Package] = (),
    *,
    without_modules: bool = False,
) -> KernelBuild:
    """Kernel `name` and its image with the guest sources of the experiment in `folder`, if any.

    `without_modules`: without the experiment's, where none can be built for this kernel.
    """
    recipe = load_kernel(name, beside=folder)
    part = build_kernel(store, recipe)
    sources = guest_folders(folder, name) if folder is not None else ()
    named_in = folder / "experiment.yaml" if folder is not None else None
    image = build_image(store, ImageRecipe(recipe, sources, tuple(packages), named_in, without_modules), part)
    build = KernelBuild(recipe, part, image)
    if not recipe.spec.source.built:
        return build
    return replace(
        build, kernel=with_symbols(store, recipe, part, lambda machine: boot_files(store, build, machine)[0])
    )


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
    recipe.check_cpus(f"arm {name}", arm.cpus)
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


def needs_tcg(arm: Arm) -> str | None:
    """Why an arm cannot have KVM on any host; None: it can."""
    if arm.clock == "virtual":
        return "the virtual clock needs TCG"
    if arm.record:
        return "a recording needs TCG"
    return "an oracle needs TCG" if arm.oracle else None


def needs_tcg_here(arm: Arm, recipe: KernelRecipe) -> str | None:
    """Why an arm cannot have KVM on this host, whatever its KVM can do; None: it can."""
    absent = absent_features(recipe.spec.hardware.cpu)
    foreign = foreign_to_host(recipe.spec.arch)
    return needs_tcg(arm) or foreign or (f"this host's CPU has no {', '.join(absent)}" if absent else None)


def _check_kvm(arms: Mapping[str, Arm], recipes: Mapping[str, KernelRecipe]) -> None:
    """UsageError where KVM was asked for and every one of these arms would use TCG all the same."""
    reasons = {needs_tcg_here(arm, recipes[arm.kernel]) for arm in arms.values()}
    if None not in reasons:
        why = ", ".join(sorted(filter(None, reasons)))
        raise UsageError(f"--accel kvm: no arm of this run can have KVM: {why}", hint="use --accel auto")


def check_arms(
    experiment: Experiment, folder: Path, names: Iterable[str], accelerator: AcceleratorChoice
) -> dict[str, KernelRecipe]:
    """The recipes that these arms need, by kernel; UsageError for an arm that cannot be."""
    arms = {name: experiment.arms[name] for name in names}
    recipes = _recipes(arms, folder)
    if accelerator == "kvm":
        _check_kvm(arms, recipes)
    return recipes


def prepare_arms(
    store: Store,
    experiment: Experiment,
    folder: Path,
    names: Iterable[str],
    accelerator: AcceleratorChoice,
    recipes: Mapping[str, KernelRecipe],
) -> dict[str, PreparedArm]:
    """Build what these arms need, whose `recipes` have been checked; by name, in this order."""
    arms = {name: experiment.arms[name] for name in names}
    kernels = dict.fromkeys(arm.kernel for arm in arms.values())
    builds = {name: build_for(store, name, folder, experiment.packages) for name in kernels}
    prepared: dict[str, PreparedArm] = {}
    like: dict[str, PreparedArm] = {}
    for name, arm in arms.items():
        # Arms of a matrix mostly have one machine: its booted state, hundreds of MB, is hashed once and not per arm.
        recipe = recipes[arm.kernel]
        machine = machine_for(name, arm, recipe, "tcg")
        key = f"{arm.kernel} {needs_tcg_here(arm, recipe)} {machine.model_dump_json()}"
        if key not in like:
            like[key] = _prepare_arm(store, name, arm, builds[arm.kernel], accelerator)
        prepared[name] = like[key]
    return prepared


def _recipes(arms: Mapping[str, Arm], folder: Path) -> dict[str, KernelRecipe]:
    """The recipe of each arm's kernel; UsageError for all kernels and arms that cannot be, before a long build starts.

    An impossible arm is found on any accelerator.
    """
    recipes: dict[str, KernelRecipe] = {}
    errors: dict[str, UsageError] = {}  # by their text: arms of one matrix say the same

    def told(error: UsageError, *way: str) -> None:
        where = error.where or line_of(folder / "experiment.yaml", ("arms", *way))
        located = UsageError(error.message, hint=error.hint, where=where)
        errors[str(located)] = located

    for name, arm in arms.items():
        try:
            if arm.kernel not in recipes:
                recipes[arm.kernel] = load_kernel(arm.kernel, beside=folder)
        except UsageError as error:
            told(error, arm.group or name, "kernel")
            continue
        try:
            machine_for(name, arm, recipes[arm.kernel], "tcg")
        except UsageError as error:
            told(error, arm.group or name)
    raise_all(list(errors.values()))
    return recipes


def _prepare_arm(store: Store, name: str, arm: Arm, build: KernelBuild, accelerator: AcceleratorChoice) -> PreparedArm:
    bound = needs_tcg_here(arm, build.recipe)
    if bound is None:
        choice = choose_accelerator(store, accelerator, build.kernel)
    else:  # what no host could change is no news to those who leave the choice to us
        told = accelerator == "kvm" or (accelerator == "auto" and needs_tcg(arm) is None)
        choice = Choice("tcg", bound if told else "")
    machine = machine_for(name, arm, build.recipe, choice.used)
    files, keys = boot_files(store, build, machine)
    state = saved_state(store, name, machine, files) if machine.restorable else None
    if state is not None and state.info.get("refused"):
        warn(f"arm {name}: its guests boot for each trial: {state.info['refused']}")
        state = None
    return PreparedArm(build, machine, files, keys, state, choice.why)


def boot_files(store: Store, build: KernelBuild, machine: MachineSpec) -> tuple[BootFiles, Keys | None]:
    """The files that a machine boots from; ssh machines get the keys of their image in a second initramfs."""
    kernel, drivers = build.kernel.file("bzImage"), driver_archive(store, build.kernel, build.recipe.spec.arch)
    images = (build.image.file("image.cpio"), *([drivers] if drivers else []))
    halt = halt_plugin(store, machine.board) if machine.clock == "virtual" else None
    stale = stale_plugin(store, machine.board) if machine.needs_stale else None
    if machine.session != "ssh":
        return BootFiles(kernel=kernel, initrds=images, halt=halt, stale=stale), None
    made = image_keys(store, build.image)
    keys = Keys(client=made.file("client"), host=made.file("host.pub"))
    return BootFiles(kernel=kernel, initrds=(*images, made.file("keys.cpio")), stale=stale), keys


def trial_spec(
    experiment: Experiment, prepared: PreparedArm, planned: PlannedTrial, target: Path, plugin: Plugin | None
) -> TrialSpec:
    """One trial, resolved; it writes below `target`/raw."""
    arm, state = experiment.arms[planned.arm], prepared.state
    return TrialSpec(
        arm=planned.arm,
        repetition=planned.repetition,
        seed=planned.seed,
        kernel=arm.kernel,
        machine=prepared.machine,
        files=prepared.files,
        keys=prepared.keys,
        state=SavedState(path=state.file("state"), key=state.key) if state else None,
        params=arm.params,
        cmdline=arm.cmdline,
        group=arm.group,
        dimensions=arm.dimensions,
        workloads=tuple(
            WorkloadCommand(
                name,
                experiment.workloads[name].command,
                experiment.workloads[name].timeout_s,
                tuple(experiment.collect),
            )
            for name in workload_order(arm, experiment.arm_workloads(planned.arm), planned.seed)
        ),
        folder=target / "raw" / planned.arm / str(planned.repetition),
        plugin=plugin,
    )
