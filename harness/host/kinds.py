# SPDX-License-Identifier: MIT
"""Kinds of arms: what a host must be able to do for an arm to run, without what the arm measures.

Two arms of one kind ask the same of a host. A kind is one accelerator's: an arm that may run under KVM is of two.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from harness.choices import OracleMode
from harness.errors import UsageError
from harness.experiment.model import Arm, Experiment
from harness.machine.spec import DEFAULT_ICOUNT_SHIFT, Accelerator, Clock, Device
from harness.trial.prepare import needs_tcg


@dataclass(frozen=True)
class Kind:
    """What an arm asks of a host. `parameters` are names of kernel parameters: values mostly tell how much."""

    accelerator: Accelerator
    clock: Clock
    kernel: str
    session: str
    cpus: int
    parameters: tuple[str, ...]
    devices: tuple[Device, ...]
    oracle: tuple[OracleMode, ...]
    icount_shift: int
    record: bool

    @property
    def name(self) -> str:
        """All that tells it from others, in words; what is as usual is left out."""
        words = [self.accelerator, self.clock, self.kernel, self.session]
        words += [f"{self.cpus}-cpus"] * (self.cpus > 1)
        words += [f"icount-{self.icount_shift}"] * (self.icount_shift != DEFAULT_ICOUNT_SHIFT)
        words += [*self.parameters, *self.devices]
        words += [f"oracle:{'+'.join(self.oracle)}"] * bool(self.oracle)
        words += ["recorded"] * self.record
        return " ".join(words)


@dataclass(frozen=True)
class Found:
    """A kind, the arm that stands for it, and the names (EXPERIMENT/ARM) of all arms that are of it."""

    kind: Kind
    folder: Path
    experiment: Experiment
    arm: Arm
    arms: tuple[str, ...]
    quick: bool  #: whether the profile quick has one of these arms

    @property
    def kernel(self) -> tuple[str, Path | None]:
        """The kernel's name, and the experiment's folder where the kernel is its own."""
        own = self.folder / "kernels" / f"{self.arm.kernel}.yaml"
        return self.arm.kernel, self.folder if own.is_file() else None


def kind_of(experiment: Experiment, folder: Path, arm: Arm, accelerator: Accelerator) -> Kind:
    """The kind of `arm` on this accelerator; a kernel that the experiment brings itself is named with it."""
    own = (folder / "kernels" / f"{arm.kernel}.yaml").is_file()
    return Kind(
        accelerator=accelerator,
        clock=arm.clock,
        kernel=f"{experiment.name}/{arm.kernel}" if own else arm.kernel,
        session=arm.session_kind(),
        cpus=arm.cpus,
        parameters=tuple(sorted(name for name, value in arm.cmdline.items() if value is not False)),
        devices=tuple(sorted(set(arm.devices))),
        oracle=tuple(sorted(set(arm.oracle))),
        icount_shift=arm.icount_shift if arm.clock == "virtual" else DEFAULT_ICOUNT_SHIFT,
        record=arm.record,
    )


def find_kinds(experiments: Iterable[tuple[Path, Experiment]]) -> list[Found]:
    """All kinds of all arms: those under KVM first, then the virtual clock, then the host's under TCG.

    An arm of the profile quick stands for its kind where there is one. Where no arm is recorded, but one could be, a
    kind is added that records it.
    """
    found: dict[Kind, Found] = {}
    for folder, experiment in experiments:
        for name, arm in experiment.arms.items():
            quick = experiment.arm_repetitions(name, "quick") > 0
            accelerators: tuple[Accelerator, ...] = ("tcg",) if needs_tcg(arm) else ("tcg", "kvm")
            for accelerator in accelerators:
                kind = kind_of(experiment, folder, arm, accelerator)
                one = Found(kind, folder, experiment, arm, (f"{experiment.name}/{name}",), quick)
                earlier = found.get(kind)
                if earlier is not None:
                    stands = one if quick and not earlier.quick else earlier
                    one = replace(stands, arms=(*earlier.arms, *one.arms))
                found[kind] = one
    kinds = [*found.values(), *_recorded(found)]
    return sorted(kinds, key=lambda one: (one.kind.accelerator, one.kind.clock, one.kind.record, one.kind.name))


def _recorded(found: dict[Kind, Found]) -> list[Found]:
    if any(kind.record for kind in found):
        return []
    for kind, one in found.items():
        if (kind.accelerator, kind.clock, kind.session, kind.cpus) == ("tcg", "wall", "ssh", 1) and not kind.oracle:
            devices = tuple(name for name in kind.devices if name != "net")
            arm = one.arm.model_copy(update={"record": True, "devices": list(devices)})
            return [replace(one, kind=replace(kind, record=True, devices=devices), arm=arm, arms=())]
    return []


def choose_kinds(found: Sequence[Found], wanted: Sequence[str] | None) -> list[Found]:
    """Those whose name has all the words of one of `wanted`; all without it. UsageError for one that fits none."""
    if wanted is None:
        return list(found)
    chosen: set[Kind] = set()
    for text in wanted:
        fits = {one.kind for one in found if all(word in one.kind.name for word in text.split())}
        if not fits:
            raise UsageError(f"--kind {text}: fits no kind", hint=f"for example {found[0].kind.name}")
        chosen |= fits
    return [one for one in found if one.kind in chosen]
