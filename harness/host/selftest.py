# SPDX-License-Identifier: MIT
"""The self-test: everything that arms ask of a host is tried here, in a few minutes; a table, and a file to send."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from harness.artefacts.store import Artefact, Store, hash_file, hash_of
from harness.cli.terminal import print_lines
from harness.errors import EXIT_OK, RunError, UsageError
from harness.experiment.model import Experiment, experiment_names, find_experiment, load_experiment
from harness.host import examine
from harness.host.attachment import attachment, write_attachment
from harness.host.kernelkit import OFFERS, Offers, kernels_experiment
from harness.host.kinds import Found, choose_kinds, find_kinds
from harness.host.kindtrial import Row, attempt, run_one, try_kind
from harness.host.kindwork import Absent
from harness.host.request import SelftestRequest
from harness.kernel.build import build_kernel, kernel_inputs
from harness.kernel.load import kernel_word, load_kernel
from harness.kernel.packaged import several_packaged
from harness.kernel.source import fetch_source, source_identity
from harness.machine.accelerator import kvm_finding, prove_kvm
from harness.machine.qemu import qemu_version
from harness.machine.sandbox import sandbox_findings
from harness.packages.tree import finding
from harness.progress import note
from harness.run.prepared import Prepared, prepare_trials
from harness.scratch import scratch_space
from harness.sets.digest import deterministic_files, digest
from harness.sets.manifest import describe_image, describe_kernel
from harness.sets.reference import (
    REFERENCES,
    Reference,
    compare,
    deterministic_inputs,
    first_input_difference,
    foreign_inputs,
    load_reference,
    reference_file,
    trial_hashes,
)
from harness.status import STYLES, Status
from harness.trial.plan import PlannedTrial, trial_seed
from harness.trial.prepare import build_for

KERNELS, BITS, COUNTERS, OFFERED = "kernels", "bits", "PMU", "offers"
#: Guest time, s, that the workloads of an arm may take for its bits to be compared here.
LONGEST_S = 600.0
#: Programs are told by their image's hash; of the rest of an experiment only this file can change bits.
TEXT = "text of experiment.yaml"

Result = tuple[str, str | None]
#: What there is to try: group, name, arms, and how.
Task = tuple[str, str, tuple[str, ...], Callable[[], Result]]


def selftest(request: SelftestRequest, store: Store, console: Console) -> int:
    """Try, print, write the file. UsageError for what cannot be chosen; RunError when something failed or was left.

    Ctrl-C ends the trial that runs; table and file then have what was tried until then.
    """
    experiments = _experiments(request)
    kit = Kit(store, experiments, request)
    ended: KeyboardInterrupt | None = None
    try:
        kit.run()
    except KeyboardInterrupt as interrupt:
        ended = interrupt
    rows = kit.whole()
    kvm = (lambda: (False, "interrupted")) if ended else (lambda: kvm_finding(store))
    report = examine.examine(store.root, kvm, finding, sandbox_findings())
    console.print(examine.table(report))
    console.print(table(rows))
    path = write_attachment(attachment(rows, report, kit.proofs, ended is not None), request.out, store)
    print_lines(console, f"to attach to an issue: {path}")
    if ended is not None:
        ended.add_note(f"what was tried until then is in {path}")
        raise ended
    check(rows)
    return EXIT_OK


def _experiments(request: SelftestRequest) -> list[tuple[Path, Experiment]]:
    """Whose arms are tried, with their folders; of one kernel arms of our own, in a folder that is not there."""
    if request.kernel is None:
        names = request.experiment or tuple(experiment_names())
        return [(folder, load_experiment(folder)) for folder in map(find_experiment, names)]
    if request.experiment is not None:
        raise UsageError("--kernel tries arms of its own", hint="leave out --experiment")
    kernels = several_packaged(request.kernel) or [kernel_word(request.kernel, Path.cwd())]
    return [(Path("/nonexistent"), kernels_experiment(kernels))]


def check(rows: Sequence[Row]) -> None:
    """RunError for what failed, or was not tried, of what can be here."""
    counts = Counter(row.status for row in rows)
    for status, what in (("failed", "failed"), ("untried", "were not tried")):
        first = next((row for row in rows if row.status == status), None)
        if first is not None:
            raise RunError(f"{counts[first.status]} of {len(rows)} {what}; the first: {first.name}: {first.detail}")


def table(rows: Sequence[Row]) -> Table:
    """What was tried, in its order; readable at 80 columns."""
    counts = Counter(row.status for row in rows)
    told = ", ".join(f"{counts[status]} {status}" for status in STYLES if counts[status])
    shown = Table(title=f"Arms on this host: {told}", box=box.SIMPLE_HEAD, title_justify="left", title_style="bold")
    shown.add_column("kind", ratio=5, overflow="fold")
    shown.add_column("status", no_wrap=True)
    shown.add_column("s", justify="right", no_wrap=True)
    shown.add_column("detail", ratio=5, overflow="fold")
    group = ""
    for row in rows:
        if row.group != group:
            shown.add_section()
        group = row.group
        style = STYLES[row.status]
        shown.add_row(escape(row.name), f"[{style}]{row.status}[/{style}]", f"{row.seconds:.1f}", escape(row.detail))
    return shown


class Kit:
    """The tasks in their order, and the rows of those that were done."""

    def __init__(
        self,
        store: Store,
        experiments: Sequence[tuple[Path, Experiment]],
        request: SelftestRequest,
    ) -> None:
        self.rows: list[Row] = []
        self.proofs: dict[str, str] = {}  #: what came of proving KVM, by kernel
        self._store = store
        self._minutes = request.minutes
        self._kernels: dict[tuple[str, Path | None], Artefact | str] = {}
        found = find_kinds(experiments)
        chosen = choose_kinds(found, request.kind)
        wanted = {one.kernel for one in found if one.quick or request.profile == "full"}
        self._builds: list[Task] = [
            (KERNELS, f"kernel {name}", (), partial(self._kernel, name, own, (name, own) in wanted))
            for name, own in dict.fromkeys(one.kernel for one in chosen)
        ]
        self._tasks: list[Task] = [
            (f"{one.kind.accelerator} {one.kind.clock}", one.kind.name, one.arms, partial(self._kind, one))
            for one in chosen
        ]
        kernels = {one.arm.kernel for one in found}
        if request.kernel is not None and len(kernels) == 1:
            offers = Offers(store, kernels.pop())
            self._tasks += [(OFFERED, name, (), partial(offers.check, name)) for name in OFFERS]
        elif request.kernel is None and request.kind is None:
            self._tasks += self._references(experiments)

    def run(self) -> None:
        """Do all tasks; what is left when the time is over, or at Ctrl-C, stays undone."""
        for task in self._builds:
            self._do(task)
        over = time.monotonic() + 60 * self._minutes
        for task in self._tasks:
            if time.monotonic() < over:
                self._do(task)

    def whole(self) -> list[Row]:
        """A row of every task, done or not, and what the guests' known-work checks said of a PMU."""
        done = {(row.group, row.name): row for row in self.rows}
        rows = []
        for group, name, arms, _ in (*self._builds, *self._tasks):
            why = f"not begun within {self._minutes} minutes, or interrupted"
            left = Row(group=group, name=name, status="untried", seconds=0.0, detail=why, arms=arms)
            rows.append(done.get((group, name), left))
        return [*rows, pmu_row(rows)]

    def _do(self, task: Task) -> None:
        group, name, arms, action = task
        row = attempt(group, name, action, arms)
        self.rows.append(row)
        done, of = len(self.rows), len(self._builds) + len(self._tasks)
        note(f"{done} of {of}: {row.status}, {row.seconds:.1f} s: {name}")

    def _kernel(self, name: str, own: Path | None, wanted: bool) -> Result:
        """Build or find a kernel; one that the profile does not want is not built for this."""
        key = (name, own)
        self._kernels[key] = "it could not be built"
        recipe = load_kernel(name, beside=own)
        if recipe.spec.source.built:
            kernel = self._kernels[key] = build_for(self._store, name, own).kernel
            return f"not built here, {kernel.info['release']}", None
        identity = source_identity(recipe.spec.source, fetch_source(self._store, recipe.spec.source, own))
        there = (self._store.root / "kernel" / hash_of(kernel_inputs(recipe, identity))[:32]).is_dir()
        if not there and not wanted:
            self._kernels[key] = f"it is not built; ./inv build {name}, or --profile full"
            raise Absent(f"no arm of the profile quick needs it, and {self._kernels[key]}")
        kernel = self._kernels[key] = build_kernel(self._store, recipe)
        return f"{'in the store' if there else 'built'}, {kernel.info['release']}", None

    def _kind(self, found: Found) -> Result:
        kernel = self._kernels[found.kernel]
        if isinstance(kernel, str):
            raise Absent(f"kernel {found.arm.kernel}: {kernel}")
        if found.kind.accelerator == "kvm":
            verdict = prove_kvm(self._store, kernel)
            self.proofs[found.kind.kernel] = verdict.reason
            if not verdict.works:
                raise Absent(verdict.reason)
        return try_kind(self._store, found)

    def _references(self, experiments: Sequence[tuple[Path, Experiment]]) -> Iterator[Task]:
        for folder, experiment in experiments:
            path = reference_file(REFERENCES / experiment.name, qemu_version())
            if path.is_file():
                reference = load_reference(path)
                arm = shortest_arm(experiment, reference)
                name = f"{experiment.name}/{arm}"
                yield BITS, f"bits of {name}", (name,), partial(self._bits, folder, experiment, reference, arm)

    def _bits(self, folder: Path, experiment: Experiment, reference: Reference, arm: str) -> Result:
        """Run an arm's own trial and compare its bits with the reference's, where that is of the same inputs."""
        allowed = seconds_of(experiment, arm)
        if allowed > LONGEST_S:
            raise Absent(f"it may take {allowed:.0f} s: ./inv run {experiment.name} --check-digest reference")
        kernel = experiment.arms[arm].kernel
        if isinstance(self._kernels.get((kernel, None)), str):
            raise Absent(f"kernel {kernel}: {self._kernels[kernel, None]}")
        with scratch_space("selftest") as scratch:
            plan = [PlannedTrial(arm, 0, trial_seed(reference.inputs["seed"], 0))]
            prepared = prepare_trials(self._store, experiment, folder, plan, scratch, "tcg")
            inputs = {**_inputs(prepared), TEXT: hash_file(folder / "experiment.yaml")}
            here = Reference(experiment=experiment.name, inputs=inputs, digest="", trials={})
            there = _only(reference, here)
            foreign = first_input_difference(foreign_inputs(there), foreign_inputs(here))
            if foreign is not None:
                raise Absent(f"the reference is of another {foreign}")
            record = run_one(prepared.trials[0], scratch)
            inside = {"path": record.path.relative_to(scratch)}
            files = deterministic_files(scratch, [record.model_copy(update=inside)])
            difference = compare(there, here.model_copy(update={"trials": trial_hashes(files)}))
            if difference is not None and "all inputs are equal" not in difference:
                other = str(first_input_difference(there.inputs, here.inputs)).partition(":")[0]
                raise Absent(f"the reference is of another {other}")
            if difference is not None:
                raise RunError(f"not the reference's: {difference}")
            return f"the reference's {len(files)} files, digest {str(digest(files))[:12]}", None


def shortest_arm(experiment: Experiment, reference: Reference) -> str:
    """Of the arms that the reference has, the one whose workloads may take the least time."""
    arms = {name.split("/")[1] for name in reference.trials} & set(experiment.arms)
    return min(sorted(arms), key=lambda arm: seconds_of(experiment, arm))


def seconds_of(experiment: Experiment, arm: str) -> float:
    """Guest time that the workloads of an arm may take, s."""
    return sum(experiment.workloads[name].timeout_s for name in experiment.arm_workloads(arm))


def pmu_row(rows: Sequence[Row]) -> Row:
    """What guests under KVM found out about their hardware counters by known work: the best of it."""
    seen = sorted((row.pmu for row in rows if row.pmu), key=lambda text: not text.startswith("ok:"))
    kvm = [row for row in rows if row.group.startswith("kvm ")]
    if seen:
        status: Status = "ok" if seen[0].startswith("ok:") else "absent"
        return Row(group=COUNTERS, name="PMU of a guest", status=status, seconds=0.0, detail=seen[0].partition(": ")[2])
    why = f"only a guest under KVM can have one: {kvm[0].detail}" if kvm else "no kind under KVM was chosen"
    return Row(group=COUNTERS, name="PMU of a guest", status="absent", seconds=0.0, detail=why)


def _inputs(prepared: Prepared) -> dict[str, object]:
    return deterministic_inputs(
        qemu_version(),
        {name: describe_kernel(build) for name, build in prepared.builds.items()},
        {name: describe_image(build) for name, build in prepared.builds.items()},
    )


def _only(reference: Reference, here: Reference) -> Reference:
    """The reference with those inputs alone that decide the bits of what ran here."""
    text = reference.inputs["experiment"].get("experiment.yaml")
    inputs = {name: value for name, value in reference.inputs.items() if name in here.inputs}
    return reference.model_copy(update={"inputs": {**inputs, TEXT: text}})
